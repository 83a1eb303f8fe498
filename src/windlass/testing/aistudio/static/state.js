// What the page knows: everything that a request carries.
import { options } from "./options.js";

const asked = new URLSearchParams(location.search).get("model");

export const state = {
  model: options.models.includes(asked) ? asked : options.models[0],
  switches: switchedOn(options.switched_on),
  declarations: [],
  system: "",
  settings: { stop: [] },
  turns: [],
  generation: null,
};

/** Who wants to know when something of the page changed. */
const watchers = [];
export const onChange = (watcher) => watchers.push(watcher);
export const changed = () => watchers.forEach((watcher) => watcher());

/** As after a change of the model: no tool is on and nothing is declared. */
export function resetTools() {
  state.switches = switchedOn([]);
  state.declarations = [];
  changed();
}

export function hasFunctionCalling() {
  return !options.without_function_calling.includes(state.model);
}

function switchedOn(names) {
  const all = ["google_search", "url_context", "code_execution", "function_calling"];
  return Object.fromEntries(all.map((name) => [name, names.includes(name)]));
}
