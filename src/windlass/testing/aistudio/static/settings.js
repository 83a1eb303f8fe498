// The run settings beside the chat: model, system instructions, parameters, tools.
import { h, mark } from "./markup.js";
import { openDialog } from "./overlay.js";
import { options } from "./options.js";
import { onChange, resetTools, state } from "./state.js";
import { toolsPanel } from "./tools.js";

const NUMBERS = {
  temperature: ["Temperature", "temperatureSliderContainer"],
  top_p: ["Top P", "topPSliderContainer"],
  max_output_tokens: ["Maximum output tokens", "maxOutputTokensContainer"],
};

export function runSettings() {
  return h(
    "ms-run-settings",
    {},
    modelSelector(),
    systemInstructions(),
    toolsPanel(),
    ...Object.keys(NUMBERS).map(numberField),
    stopField(),
  );
}

function modelSelector() {
  const name = h("span", { part: "model_name", class: "title", "data-test-id": "model-name" });
  const show = () => (name.textContent = state.model);
  onChange(show);
  show();
  const button = { part: "model_selector", type: "button", "aria-label": "Select a model" };
  return h("ms-model-selector", {}, h("button", { ...button, onclick: chooseModel }, name));
}

function chooseModel() {
  const rows = options.models.map((model) =>
    h(
      "ms-model-carousel-row",
      {},
      h(
        "button",
        {
          part: "model_row",
          type: "button",
          class: "content-button",
          id: `model-carousel-row-models/${model}`,
          onclick: () => {
            close();
            switchModel(model);
          },
        },
        model,
      ),
    ),
  );
  const close = openDialog(h("ms-model-carousel", {}, h("h2", {}, "Model selection"), ...rows));
}

function switchModel(model) {
  if (model === state.model) return;
  state.model = model;
  resetTools();
}

function systemInstructions() {
  const field = h("textarea", {
    part: "system_instructions",
    "aria-label": "System instructions",
    placeholder: "Optional tone and style instructions for the model",
    oninput: () => (state.system = field.value),
  });
  return h("ms-system-instructions", {}, field);
}

function numberField(name) {
  const [label, testId] = NUMBERS[name];
  const field = h("input", {
    part: name,
    type: "number",
    step: "any",
    "aria-label": label,
    oninput: () => {
      if (field.value === "") delete state.settings[name];
      else state.settings[name] = Number(field.value);
    },
  });
  return h("div", { class: "settings-item", "data-test-id": testId }, h("h3", {}, label), field);
}

function stopField() {
  const field = h("input", { part: "stop", "aria-label": "Add stop token" });
  const chips = h("div", { class: "chips" });
  const add = () => {
    const text = field.value;
    state.settings.stop.push(text);
    field.value = "";
    const remove = () => {
      state.settings.stop.splice(state.settings.stop.indexOf(text), 1);
      chip.remove();
    };
    const button = { type: "button", "aria-label": `Remove ${text}`, onclick: remove };
    const chip = h("mat-chip", {}, text, h("button", button, "x"));
    chips.append(chip);
  };
  mark(field, { onkeydown: (event) => event.key === "Enter" && field.value && add() });
  return h("div", { class: "settings-item" }, h("h3", {}, "Stop sequences"), chips, field);
}
