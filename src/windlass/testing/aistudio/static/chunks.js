// What a turn is made of: chunks, each with the values it stands for and its element.
import { changes, inside } from "./changes.js";
import { rendered, said } from "./markdown.js";
import { h, icon } from "./markup.js";
import { options } from "./options.js";

export function textChunk(text = "", images = []) {
  const draw = (chunk) => {
    const words = h("ms-cmark-node", { part: "text", class: "cmark-node" });
    inside(words).append(...rendered(chunk.text));
    const shown = chunk.images.map((image) => h("ms-image-chunk", {}, h("img", { src: image.url, alt: image.name })));
    return h("ms-prompt-chunk", {}, ...shown, h("ms-text-chunk", {}, words));
  };
  return growing({ kind: "text", text, images }, draw);
}

export function thoughtChunk(text = "") {
  const draw = (chunk) => {
    const body = h("div", { part: "thoughts", class: "mat-expansion-panel-body" }, h("span", {}, said(chunk.text)));
    const title = h("mat-panel-title", {}, "Thoughts");
    return h("ms-prompt-chunk", {}, h("ms-thought-chunk", {}, title, body));
  };
  return growing({ kind: "thought", text }, draw);
}

/** A call, with the field for its answer. `onAnswer` is told when that is sent. */
export function callChunk({ name, arguments: text }, onAnswer) {
  const chunk = { kind: "call", name, arguments: text, response: null };
  const send = (response) => {
    chunk.response = response;
    onAnswer();
  };
  chunk.draw = () => (chunk.element = h("ms-prompt-chunk", {}, callWidget(chunk, send)));
  /** Puts a fresh widget in the place of the old one, as a change of the page's data does. */
  chunk.renderAgain = () => inside(chunk.element).replaceChildren(callWidget(chunk, send));
  chunk.fill = (filled) => {
    chunk.arguments = filled;
    chunk.renderAgain();
  };
  chunk.draw();
  return chunk;
}

export function errorChunk(message) {
  const chunk = { kind: "error" };
  chunk.draw = () => {
    const text = h("div", { part: "model_error", class: "model-error" }, icon("error"), said(message));
    return (chunk.element = h("ms-prompt-chunk", {}, text));
  };
  chunk.draw();
  return chunk;
}

function growing(chunk, make) {
  chunk.draw = () => (chunk.element = make(chunk));
  chunk.draw();
  chunk.grow = (more) => {
    chunk.text += more;
    const old = chunk.element;
    inside(old).replaceChildren(...inside(make(chunk)).childNodes);
  };
  return chunk;
}

function callWidget(chunk, send) {
  const name = h("span", { part: "call_name" }, said(changes.call === "labelled" ? `Function call: ${chunk.name}` : chunk.name));
  return h(
    "ms-function-call-chunk",
    { part: "call_chunk" },
    h(
      "ms-code-block",
      { part: "call_widget", icon: "function" },
      h("mat-panel-title", {}, icon("function"), name),
      shownArguments(chunk.arguments),
    ),
    responseForm(chunk, send),
  );
}

function shownArguments(text) {
  const values = parsedArguments(text);
  if (changes.call === "collapsed") return h("button", { type: "button", "aria-expanded": "false" }, icon("expand_more"));
  if (changes.call === "table" && values) {
    return h("dl", {}, ...Object.entries(values).flatMap(([key, value]) => [h("dt", {}, said(key)), h("dd", {}, said(String(value)))]));
  }
  const shown = changes.call === "pretty" && values ? JSON.stringify(values, null, 2) : text;
  const pieces = changes.call === "pretty" ? shown.split(/("[^"]*")/).map((each) => h("span", {}, said(each))) : [said(shown)];
  return h("pre", {}, h("code", { part: "call_arguments" }, ...pieces));
}

function parsedArguments(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function responseForm(chunk, send) {
  const field = h("input", {
    part: "response_input",
    type: "text",
    "aria-label": "Enter a function response",
    placeholder: "Enter a function response",
  });
  const button = h("button", { part: "response_send", type: "submit" }, "Send");
  const isLocked = () => chunk.response !== null && options.answered === "disabled";
  const onsubmit = (event) => {
    event.preventDefault();
    if (chunk.response !== null || !field.value) return;
    const response = field.value;
    chunk.response = response;
    field.disabled = button.disabled = isLocked();
    send(response);
  };
  field.value = chunk.response ?? "";
  field.disabled = button.disabled = isLocked();
  return h("form", { onsubmit }, field, button);
}
