// The tools of the run settings: four switches, and function calling excludes the other three.
import { changes } from "./changes.js";
import { openEditor } from "./editor.js";
import { h, icon, mark } from "./markup.js";
import { options } from "./options.js";
import { passed } from "./server.js";
import { changed, hasFunctionCalling, onChange, state } from "./state.js";

const ROWS = {
  google_search: ["searchAsAToolTooltip", "Grounding with Google Search", "Google Search"],
  url_context: ["browseAsAToolTooltip", "Browse the url context", "URL context"],
  code_execution: ["codeExecutionTooltip", "Code execution", "Code execution"],
  function_calling: ["functionCallingTooltip", "Function calling", "Function calling"],
};

let expanded = !options.tools_collapsed;
const edit = h(
  "button",
  {
    part: "edit_button",
    type: "button",
    class: "edit-function-declarations-button",
    "aria-label": "Edit function declarations",
    onclick: () => state.switches.function_calling && openEditor(),
  },
  icon("edit"),
);
const switches = Object.fromEntries(Object.keys(ROWS).map((name) => [name, switchOf(name)]));
const rows = Object.keys(ROWS).map((name) => [name, rowOf(name)]);
const content = h("div", { class: "settings-group-content" });
const group = h(
  "div",
  { class: "settings-tool-group" },
  h(
    "div",
    { class: "settings-group-header" },
    h("p", {}, "Tools"),
    h(
      "button",
      {
        part: "tools_panel",
        type: "button",
        "aria-label": "Expand or collapse tools",
        onclick: () => {
          expanded = !expanded;
          showTools();
        },
      },
      icon("expand_more"),
    ),
  ),
  content,
);

export function toolsPanel() {
  onChange(showTools);
  showTools();
  return group;
}

function switchOf(name) {
  if (changes.switch === "checkbox") {
    return h("input", { part: `${name}_toggle`, type: "checkbox", "aria-label": ROWS[name][1], onclick: (event) => event.preventDefault() || flip(name) });
  }
  return h("button", {
    part: `${name}_toggle`,
    type: "button",
    role: "switch",
    "aria-label": ROWS[name][1],
    onclick: () => flip(name),
  });
}

function rowOf(name) {
  const [testId, , title] = ROWS[name];
  return h(
    "div",
    { part: `${name}_row`, class: "settings-item settings-tool", "data-test-id": testId },
    h("h3", {}, title),
    name === "function_calling" ? edit : null,
    h("mat-slide-toggle", {}, switches[name]),
  );
}

async function flip(name) {
  if (isExcluded(name) || options.stuck.includes(name)) return;
  await passed("switch");
  state.switches[name] = !state.switches[name];
  changed();
}

function isExcluded(name) {
  const { function_calling: functions, ...others } = state.switches;
  return name === "function_calling" ? Object.values(others).some(Boolean) : functions;
}

function shownState(isOn) {
  return { aria: { "aria-checked": String(isOn) }, pressed: { "aria-pressed": String(isOn), role: null } }[changes.switch] ?? {};
}

function showTools() {
  mark(group, { class: `settings-tool-group${expanded ? " expanded" : ""}` });
  const shown = rows.filter(([name]) => name !== "function_calling" || hasFunctionCalling());
  const wanted = expanded ? shown.map(([, row]) => row) : [];
  if (wanted.length !== content.childElementCount) content.replaceChildren(...wanted);
  for (const [name, button] of Object.entries(switches)) {
    const excluded = isExcluded(name);
    mark(button, {
      class: `mdc-switch${excluded ? " mdc-switch--disabled" : ""}`,
      ...shownState(state.switches[name]),
      disabled: excluded ? "" : null,
    });
    if (changes.switch === "checkbox") setTimeout(() => (button.checked = state.switches[name]));
  }
  mark(edit, { "aria-disabled": String(!state.switches.function_calling) });
}
