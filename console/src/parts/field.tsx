// One field of a form, with all that is in it.
import type { ComponentChildren } from "preact";
import { inside, shown, type Draft, type Drafts } from "./draft";
import type { Field } from "./schema";

/** What the fields of one form share. */
export interface FormState {
  id: string;
  /** What is wrong at that place, once it is time to say so. */
  problemAt: (at: string) => string;
  touch: (at: string) => void;
}

interface FieldProps {
  field: Field;
  at: string;
  draft: Draft;
  set: (draft: Draft) => void;
  state: FormState;
  /** For what has no name of its own: an item of a list. */
  label?: string;
}

export function FieldView(props: FieldProps) {
  switch (props.field.kind) {
    case "list":
      return <ListField {...props} field={props.field} />;
    case "object":
      return <ObjectField {...props} field={props.field} />;
    default:
      return <LeafField {...props} />;
  }
}

function LeafField({ field, at, draft, set, state, label }: FieldProps) {
  const id = `${state.id}-${at}`;
  const problem = state.problemAt(at);
  return (
    <div class="field">
      <label for={id}>
        {label ?? field.label} <Kind field={field} />
      </label>
      <Control
        field={field}
        draft={draft}
        set={set}
        attributes={{
          id,
          "aria-required": field.required,
          "aria-invalid": Boolean(problem),
          "aria-describedby": `${id}-hint ${id}-problem`,
          onBlur: () => state.touch(at),
        }}
      />
      <Hint id={`${id}-hint`} field={field} />
      <Shown id={`${id}-problem`} problem={problem} />
    </div>
  );
}

interface Attributes {
  id: string;
  "aria-required": boolean;
  "aria-invalid": boolean;
  "aria-describedby": string;
  onBlur: () => void;
}

function Control({ field, draft, set, attributes }: Pick<FieldProps, "field" | "draft" | "set"> & { attributes: Attributes }) {
  const text = typeof draft === "string" ? draft : "";
  const placeholder = draft === null ? "null" : undefined;
  const typed = (event: { currentTarget: { value: string } }) => set(event.currentTarget.value);
  if (field.kind === "choice") {
    return (
      <select {...attributes} value={text} onChange={typed}>
        <option value="">{field.required ? "Choose…" : "Not given"}</option>
        {field.choices.map((choice, index) => (
          <option value={String(index)}>{shown(choice)}</option>
        ))}
      </select>
    );
  }
  if (field.kind === "number") {
    return <input {...attributes} inputMode={field.whole ? "numeric" : "decimal"} autocomplete="off" placeholder={placeholder} value={text} onInput={typed} />;
  }
  if (field.kind === "text" && field.secret) {
    return <input {...attributes} type="password" autocomplete="off" value={text} onInput={typed} />;
  }
  // Text may have several lines, and an <input> would drop them.
  return <textarea {...attributes} rows={1} spellcheck={field.kind === "text"} class={field.kind === "json" ? "form-json" : undefined} placeholder={placeholder} value={text} onInput={typed} />;
}

function ListField({ field, at, draft, set, state, label }: FieldProps & { field: Field & { kind: "list" } }) {
  const items = Array.isArray(draft) ? (draft as readonly Draft[]) : [];
  const name = label ?? field.label;
  return (
    <Group field={field} at={at} state={state} name={name}>
      {items.map((item, index) => (
        <div class="form-item">
          <div class="grow">
            <FieldView
              field={field.item}
              at={inside(at, index)}
              draft={item}
              label={`${name} ${index + 1}`}
              set={(changed) => set(items.with(index, changed))}
              state={state}
            />
          </div>
          <button type="button" class="small" aria-label={`Remove ${name} ${index + 1}`} onClick={() => set(items.length > 1 || field.required ? items.toSpliced(index, 1) : undefined)}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => set([...items, field.item.kind === "object" ? {} : undefined])}>
        Add to {name}
      </button>
    </Group>
  );
}

function ObjectField({ field, at, draft, set, state, label }: FieldProps & { field: Field & { kind: "object" } }) {
  const name = label ?? field.label;
  const given = typeof draft === "object" && draft !== null;
  const drafts = given ? (draft as Drafts) : {};
  const optional = !field.required || field.nullable;
  return (
    <Group field={field} at={at} state={state} name={name}>
      {given &&
        field.fields.map((part) => (
          <FieldView
            field={part}
            at={inside(at, part.name)}
            draft={drafts[part.name]}
            set={(changed) => set({ ...drafts, [part.name]: changed })}
            state={state}
          />
        ))}
      {!given && (
        <button type="button" class="small" onClick={() => set({})}>
          Fill in {name}
        </button>
      )}
      {given && optional && (
        <button type="button" class="small" onClick={() => set(undefined)}>
          Leave out {name}
        </button>
      )}
    </Group>
  );
}

/** Fields that belong together. */
function Group({ field, at, state, name, children }: Pick<FieldProps, "field" | "at" | "state"> & { name: string; children: ComponentChildren }) {
  const id = `${state.id}-${at}`;
  return (
    <fieldset class="field" aria-describedby={`${id}-hint ${id}-problem`}>
      <legend>
        {name} <Kind field={field} />
      </legend>
      <Hint id={`${id}-hint`} field={field} />
      {children}
      <Shown id={`${id}-problem`} problem={state.problemAt(at)} />
    </fieldset>
  );
}

const KINDS: Record<Exclude<Field["kind"], "number">, string> = { text: "text", choice: "choice", list: "list", object: "object", json: "JSON" };

function Kind({ field }: { field: Field }) {
  const kind = field.kind === "number" ? (field.whole ? "whole number" : "number") : KINDS[field.kind];
  return (
    <span class="hint">
      {kind}
      {field.required ? ", needed" : ""}
    </span>
  );
}

function Hint({ id, field }: { id: string; field: Field }) {
  return (
    <p id={id} class="hint form-hint">
      {field.description}
    </p>
  );
}

/** What is wrong, beneath its field. */
export function Shown({ id, problem }: { id: string; problem: string }) {
  return (
    <p id={id} class="form-problem">
      {problem}
    </p>
  );
}
