// One field of a form, with its nested fields.
import type { ComponentChildren } from "preact";
import { draftsOf, inside, written, type Draft, type Drafts } from "./draft";
import { initialOf, type Field } from "./schema";

/** State that all fields of a form share. */
export interface FormState {
  id: string;
  /** The problem of the field at this path, or "" if it should not be shown yet. */
  problemAt: (at: string) => string;
}

interface FieldProps {
  field: Field;
  at: string;
  draft: Draft;
  set: (draft: Draft) => void;
  state: FormState;
  /** The label of a field without a name: an item of a list. */
  label?: string;
}

export function FieldView(props: FieldProps) {
  const { field } = props;
  if (field.kind === "list") return <ListField {...props} field={field} />;
  if (field.kind === "object") return <ObjectField {...props} field={field} />;
  return <LeafField {...props} />;
}

function LeafField({ field, at, draft, set, state, label }: FieldProps) {
  const id = `${state.id}-${at}`;
  const problem = state.problemAt(at);
  const attributes: Attributes = {
    id,
    "aria-required": field.required,
    "aria-invalid": Boolean(problem),
    "aria-describedby": `${id}-hint ${id}-problem`,
  };
  return (
    <div class="field">
      <label for={id}>{label ?? <Name field={field} />}</label>
      <Control field={field} draft={draft} set={set} attributes={attributes} />
      <Notes id={id} hint={field.description} problem={problem} />
    </div>
  );
}

interface Attributes {
  id: string;
  "aria-required": boolean;
  "aria-invalid": boolean;
  "aria-describedby": string;
}

function Control({ field, draft, set, attributes }: Pick<FieldProps, "field" | "draft" | "set"> & { attributes: Attributes }) {
  const common = {
    ...attributes,
    value: typeof draft === "string" ? draft : "",
    onInput: (event: { currentTarget: { value: string } }) => set(event.currentTarget.value),
  };
  switch (field.kind) {
    case "choice":
      return (
        <select {...common}>
          <option value="">{draft === null ? "null" : field.required ? "Choose…" : "Not set"}</option>
          {field.choices.map((choice, index) => (
            <option value={String(index)}>{written(choice)}</option>
          ))}
        </select>
      );
    case "number":
      return <input {...common} inputMode={field.whole ? "numeric" : "decimal"} autocomplete="off" />;
    case "text":
      if (field.secret) return <input {...common} type="password" autocomplete="off" />;
  }
  // Text may have several lines, which an <input> would remove.
  return <textarea {...common} rows={1} class={field.kind === "json" ? "form-json" : undefined} placeholder={draft === null ? "null" : undefined} />;
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
              field={field.item()}
              at={inside(at, index)}
              draft={item}
              label={`${name} ${index + 1}`}
              set={(changed) => set(items.with(index, changed))}
              state={state}
            />
          </div>
          <Step name={`Remove ${name} ${index + 1}`} does={() => set(items.length > 1 || field.required ? items.toSpliced(index, 1) : undefined)} />
        </div>
      ))}
      <Step name={`Add to ${name}`} does={() => set([...items, begun(field.item())])} />
    </Group>
  );
}

function ObjectField({ field, at, draft, set, state, label }: FieldProps & { field: Field & { kind: "object" } }) {
  const name = label ?? field.label;
  const given = typeof draft === "object" ? (draft as Drafts | null) : null;
  return (
    <Group field={field} at={at} state={state} name={name}>
      {given &&
        field.fields().map((part) => (
          <FieldView
            field={part}
            at={inside(at, part.name)}
            draft={given[part.name]}
            set={(changed) => set({ ...given, [part.name]: changed })}
            state={state}
          />
        ))}
      {!given && <Step name={`Fill in ${name}`} does={() => set(begun(field))} />}
      {given && (!field.required || field.nullable) && <Step name={`Leave out ${name}`} does={() => set(undefined)} />}
    </Group>
  );
}

function begun(field: Field): Draft {
  return field.kind === "object" ? draftsOf(field.fields(), initialOf(field.fields())) : undefined;
}

function Step({ name, does }: { name: string; does: () => void }) {
  return (
    <button type="button" class="small" onClick={does}>
      {name}
    </button>
  );
}

/** A group of fields. */
function Group({ field, at, state, name, children }: Pick<FieldProps, "field" | "at" | "state"> & { name: string; children: ComponentChildren }) {
  const id = `${state.id}-${at}`;
  return (
    <fieldset class="field" aria-describedby={`${id}-hint ${id}-problem`}>
      <legend>{name === field.label ? <Name field={field} /> : name}</legend>
      {children}
      <Notes id={id} hint={field.description} problem={state.problemAt(at)} />
    </fieldset>
  );
}

const KINDS: Record<Field["kind"], string> = { text: "text", number: "number", choice: "choice", list: "list", object: "object", json: "JSON" };

function Name({ field }: { field: Field }) {
  return (
    <>
      {field.label}{" "}
      <span class="hint">
        {field.kind === "number" && field.whole && "whole "}
        {KINDS[field.kind]}
        {field.required ? " · Required" : ""}
      </span>
    </>
  );
}

/** The description of a field and its problem. */
export function Notes({ id, hint = "", problem }: { id: string; hint?: string; problem: string }) {
  return (
    <>
      <p id={`${id}-hint`} class="hint">
        {hint}
      </p>
      <p id={`${id}-problem`} class="form-problem">
        {problem}
      </p>
    </>
  );
}
