// Options of a request: the model, its tools, the system prompt and parameters.
import { useId } from "preact/hooks";
import { plural } from "../run/labels";
import type { Mode } from "../wire/types";
import { chosenTools, model, models, tools } from "./models";
import { NAMES, PARAMETERS, wrongWith, type Parameter } from "./parameters";
import { change, settings } from "./settings";

export function ModelPicker() {
  return (
    <select
      class="small model-picker"
      aria-label="Model"
      disabled={!models.value?.length}
      value={model.value?.id ?? ""}
      onChange={(event) => change({ model: event.currentTarget.value })}
    >
      {models.value?.map(({ id }) => <option value={id}>{id}</option>)}
    </select>
  );
}

/** "3 of 5 tools", and the like. */
export function toolsLabel(): string {
  const [chosen, all] = [chosenTools.value.length, tools.value.length];
  if (!all) return "No tools";
  if (!chosen) return "Tools off";
  return (chosen === all ? "" : `${chosen} of `) + plural(all, "tool");
}

export function ToolPicker() {
  const toggle = (name: string, on: boolean) => {
    const others = settings.value.without.filter((other) => other !== name);
    change({ without: on ? others : [...others, name] });
  };
  const setAll = (on: boolean) => {
    const others = settings.value.without.filter((name) => !tools.value.includes(name));
    change({ without: on ? others : [...others, ...tools.value] });
  };
  if (!tools.value.length) return <p class="hint">This model has no tools.</p>;
  return (
    <fieldset class="options-tools">
      <legend>Tools that the model can use</legend>
      <div class="row">
        <button type="button" class="small" onClick={() => setAll(true)}>All</button>
        <button type="button" class="small" onClick={() => setAll(false)}>None</button>
      </div>
      <div class="options-grid">
        {tools.value.map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={chosenTools.value.includes(name)}
              onChange={(event) => toggle(name, event.currentTarget.checked)}
            />{" "}
            {name}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Instructions() {
  return (
    <>
      <label>
        System prompt
        <textarea
          rows={3}
          value={settings.value.system}
          onInput={(event) => change({ system: event.currentTarget.value })}
        />
      </label>
      <p class="hint">Sent before every message from now on. If empty, a chat keeps its current system prompt.</p>
      <div class="options-grid">{NAMES.map((name) => <Field key={name} name={name} />)}</div>
      <p class="hint">{modelLabel()}</p>
    </>
  );
}

function Field({ name }: { name: Parameter }) {
  const id = useId();
  const wrong = wrongWith(settings.value, name);
  return (
    <label>
      {PARAMETERS[name].label}
      <input
        inputMode="decimal"
        placeholder="model default"
        value={settings.value[name]}
        aria-invalid={wrong !== ""}
        aria-describedby={wrong ? id : undefined}
        onInput={(event) => change({ [name]: event.currentTarget.value })}
      />
      {wrong && <span id={id} class="options-wrong">{wrong}</span>}
    </label>
  );
}

const MODES: Record<Mode, string> = {
  native: "Tools use the model's native function calling",
  emulated: "Tools are described in the prompt",
  auto: "Tools use native function calling if the model supports it, and the prompt otherwise",
};

function modelLabel(): string {
  const offered = model.value?.windlass;
  if (!offered?.tools.length) return "";
  return `${MODES[offered.mode]}. A run has at most ${plural(offered.max_rounds, "round")} with tools.`;
}
