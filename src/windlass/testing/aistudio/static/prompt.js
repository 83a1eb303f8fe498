// The box for the prompt, and the button that runs and stops.
import { ask, stop } from "./generation.js";
import { h, isOlder, mark } from "./markup.js";
import { onChange, state } from "./state.js";

const LABEL = isOlder ? "Type something" : "Enter a prompt";

const field = h("textarea", {
  part: "prompt",
  "aria-label": LABEL,
  placeholder: "Start typing a prompt",
  rows: "3",
  oninput: () => showButton(),
  onkeydown: (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
  },
});
const button = h("button", { part: "run_button", onclick: () => state.generation && stop() });

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
    h("ms-autosize-textarea", {}, field),
  );
  return h("footer", {}, h("form", { onsubmit }, box, h("ms-run-button", {}, button)));
}

function run() {
  const prompt = field.value;
  if (isEmpty() || state.generation !== null) return;
  field.value = "";
  ask(prompt);
}

function isEmpty() {
  return (field.value ?? "").trim() === "";
}

function showButton() {
  const generating = state.generation !== null;
  const empty = !generating && isEmpty();
  mark(button, {
    type: generating ? "button" : "submit",
    "aria-label": isOlder && generating ? "Stop generating" : "Run",
    ...(isOlder ? { disabled: empty ? "" : null } : { "aria-disabled": String(empty) }),
  });
  if (generating === shown) return;
  shown = generating;
  button.replaceChildren(...(generating ? stopping() : ["Run ", h("span", {}, "Ctrl+Enter")]));
}

function stopping() {
  return isOlder ? ["Stop"] : [h("span", { class: "stoppable-spinner" }), "Stop"];
}
