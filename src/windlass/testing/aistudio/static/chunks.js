// What a turn is made of: chunks, each with the values it stands for and its element.
import { h, icon } from "./markup.js";
import { options } from "./options.js";

export function textChunk(text = "") {
  const node = h("span", {});
  const markdown = h("ms-cmark-node", { part: "text", class: "cmark-node" }, node);
  return growing("text", text, node, h("ms-text-chunk", {}, markdown));
}

export function thoughtChunk(text = "") {
  const node = h("span", {});
  const body = h("div", { part: "thoughts", class: "mat-expansion-panel-body" }, node);
  const title = h("mat-panel-title", {}, "Thoughts");
  return growing("thought", text, node, h("ms-thought-chunk", {}, title, body));
}

/** A call, with the field for its answer. `onAnswer` is told when that is sent. */
export function callChunk({ name, arguments: text }, onAnswer) {
  const chunk = { kind: "call", name, arguments: text, response: null };
  const send = (response) => {
    chunk.response = response;
    onAnswer();
  };
  chunk.element = h("ms-prompt-chunk", {}, callWidget(chunk, send));
  /** Puts a fresh widget in the place of the old one, as a change of the page's data does. */
  chunk.renderAgain = () => chunk.element.replaceChildren(callWidget(chunk, send));
  chunk.fill = (filled) => {
    chunk.arguments = filled;
    chunk.element.querySelector("pre").firstChild.textContent = filled;
  };
  return chunk;
}

export function errorChunk(message) {
  const text = h("div", { part: "model_error", class: "model-error" }, icon("error"), message);
  return { kind: "error", element: h("ms-prompt-chunk", {}, text) };
}

function growing(kind, text, node, content) {
  const chunk = { kind, text: "", element: h("ms-prompt-chunk", {}, content) };
  chunk.grow = (more) => {
    chunk.text += more;
    node.textContent = chunk.text;
  };
  chunk.grow(text);
  return chunk;
}

function callWidget(chunk, send) {
  const name = h("span", { part: "call_name" }, chunk.name);
  const code = h("code", { part: "call_arguments" }, chunk.arguments);
  return h(
    "ms-function-call-chunk",
    { part: "call_chunk" },
    h(
      "ms-code-block",
      { part: "call_widget", icon: "function" },
      h("mat-panel-title", {}, icon("function"), name),
      h("pre", {}, code),
    ),
    responseForm(chunk, send),
  );
}

function responseForm(chunk, send) {
  const field = h("input", {
    part: "response_input",
    type: "text",
    "aria-label": "Enter a function response",
    placeholder: "Enter a function response",
  });
  const button = h("button", { part: "response_send", type: "submit" }, "Send");
  const onsubmit = (event) => {
    event.preventDefault();
    if (chunk.response !== null || !field.value) return;
    field.disabled = button.disabled = options.answered === "disabled";
    send(field.value);
  };
  field.value = chunk.response ?? "";
  return h("form", { onsubmit }, field, button);
}
