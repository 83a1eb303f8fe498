// The box for the prompt, and the button that runs and stops.
import { changes } from "./changes.js";
import { ask, stop } from "./generation.js";
import { h, icon, isOlder, mark } from "./markup.js";
import { onChange, state } from "./state.js";
import { redraw } from "./turns.js";
import { attachments, attachMenu, takeAttachments } from "./upload.js";

const LABEL = isOlder ? "Type something" : "Enter a prompt";
const isEditable = changes.prompt === "editable";

const field = h(isEditable ? "div" : "textarea", {
  part: "prompt",
  "aria-label": LABEL,
  placeholder: "Start typing a prompt",
  ...(isEditable ? { contenteditable: "true", role: "textbox", class: "editable-prompt" } : { rows: "3" }),
  oninput: () => {
    if (changes.redraw === "typing") redraw();
    showButton();
  },
  onkeydown: (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
  },
});
const isTyped = () => (isEditable ? field.innerText : field.value);
const onclick = (event) => {
  if (state.generation) stop();
  else if (!button.form) run(); // in a shadow root, it belongs to no form
};
const button = h("button", { part: "run_button", onclick });
const stopper = h("button", { type: "button", "aria-label": "Stop generating", onclick: () => stop() }, icon("stop"));

let shown = null;

export function promptForm() {
  onChange(showButton);
  showButton();
  const onsubmit = (event) => {
    event.preventDefault();
    run();
  };
  const box = h(
    isOlder ? "ms-prompt-input-wrapper" : "ms-prompt-box",
    {},
    attachments,
    h("ms-autosize-textarea", {}, field),
  );
  return h("footer", {}, h("form", { onsubmit }, attachMenu(), box, h("ms-run-button", {}, button, changes.run_button === "separate" ? stopper : null)));
}

function run() {
  const prompt = isTyped();
  if (isEmpty() || state.generation !== null) return;
  if (isEditable) field.textContent = "";
  else field.value = "";
  ask(prompt, takeAttachments());
}

function isEmpty() {
  return (isTyped() ?? "").trim() === "";
}

function showButton() {
  const generating = state.generation !== null;
  const empty = !generating && isEmpty();
  const looks = changes.run_button;
  stopper.hidden = looks !== "separate" || !generating;
  button.hidden = looks === "separate" && generating;
  if (looks === "busy") mark(button, { "aria-busy": String(generating) });
  const changed = generating && looks !== "same" && looks !== "busy" && looks !== "separate";
  mark(button, {
    type: changed ? "button" : "submit",
    "aria-label": isOlder && changed ? "Stop generating" : looks === "icon" && changed ? "Stop" : "Run",
    ...(isOlder ? { disabled: empty ? "" : null } : { "aria-disabled": String(empty) }),
  });
  if (changed === shown) return;
  shown = changed;
  if (looks === "icon") button.replaceChildren(icon(changed ? "stop" : "keyboard_return"));
  else button.replaceChildren(...(changed ? stopping() : [h("span", {}, "Run"), " ", h("span", {}, "Ctrl+Enter")]));
}

function stopping() {
  const word = h("span", {}, "Stop");
  return isOlder ? [word] : [h("span", { class: "stoppable-spinner" }), word];
}
