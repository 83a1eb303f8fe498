// A form made from a JSON Schema.
import { useId, useMemo, useRef, useState } from "preact/hooks";
import { REQUIRED, draftsOf, isShown, problemsIn, readingOf, type Drafts } from "./draft";
import { FieldView, Notes, type FormState } from "./field";
import { fieldsOf, isRecord, type Field, type Fields, type Schema } from "./schema";
import "../styles/parts.css";

export interface SchemaFormProps {
  /** The JSON Schema of a tool's arguments, of type `object`. */
  schema: Schema;
  value: Fields;
  /** `valid` is false while a field is missing or invalid. */
  onChange: (value: Fields, valid: boolean) => void;
  /** Also shows missing required fields; set after an attempt to submit. */
  checked?: boolean;
}

/** A form for a tool's arguments: fields, or JSON if the user chooses it or fields cannot display the value. */
export function SchemaForm({ value, onChange, ...rest }: SchemaFormProps) {
  const known = useRef(value);
  const version = useRef(0);
  if (known.current !== value) {
    // The value was replaced from outside, so the fields start again.
    known.current = value;
    version.current++;
  }
  const change = (changed: Fields, valid: boolean) => {
    known.current = changed;
    onChange(changed, valid);
  };
  return <Editors key={version.current} value={value} onChange={change} {...rest} />;
}

function Editors({ schema, value, onChange, checked = false }: SchemaFormProps) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const fits = fields !== null && isShown(fields, value);
  const [asJson, setAsJson] = useState(!fits);
  const Editor = asJson ? JsonEditor : FieldsEditor;
  return (
    <div class="form">
      <Editor fields={fields ?? []} value={value} onChange={onChange} checked={checked} />
      {fields !== null && fields.length > 0 && (
        <button type="button" class="plain small form-switch" disabled={!fits} onClick={() => setAsJson(!asJson)}>
          {asJson ? "Edit in fields" : "Edit as JSON"}
        </button>
      )}
    </div>
  );
}

interface EditorProps {
  fields: readonly Field[];
  value: Fields;
  onChange: (value: Fields, valid: boolean) => void;
  checked: boolean;
}

function FieldsEditor({ fields, value, onChange, checked }: EditorProps) {
  const [drafts, setDrafts] = useState<Drafts>(() => draftsOf(fields, value));
  const { problems } = readingOf(fields, drafts);
  const state: FormState = { id: useId(), problemAt: (at) => timely(problems.get(at), checked) };
  const set = (name: string, draft: Drafts[string]) => {
    const next = { ...drafts, [name]: draft };
    setDrafts(next);
    const reading = readingOf(fields, next);
    onChange(reading.value, !reading.problems.size);
  };
  if (!fields.length) return <p class="hint">This tool takes no arguments.</p>;
  return (
    <>
      {fields.map((field) => (
        <FieldView field={field} at={field.name} draft={drafts[field.name]} set={(draft) => set(field.name, draft)} state={state} />
      ))}
    </>
  );
}

/** A missing field is reported only after an attempt to submit. */
function timely(problem = "", checked: boolean): string {
  return checked || problem !== REQUIRED ? problem : "";
}

function JsonEditor({ fields, value, onChange }: EditorProps) {
  const id = useId();
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const { problem } = parsed(text, fields);
  const change = (typed: string) => {
    setText(typed);
    const read = parsed(typed, fields);
    onChange(read.value ?? value, !read.problem);
  };
  return (
    <div class="field">
      <label for={id}>Arguments as JSON</label>
      <textarea
        id={id}
        class="form-json"
        spellcheck={false}
        value={text}
        aria-invalid={Boolean(problem)}
        aria-describedby={`${id}-problem`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <Notes id={id} problem={problem} />
    </div>
  );
}

function parsed(text: string, fields: readonly Field[]): { value?: Fields; problem: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (!isRecord(value)) return { problem: "This must be an object: { … }." };
    const problems = [...problemsIn(fields, value)].map(([at, problem]) => `${at}: ${problem}`);
    return { value, problem: problems.join(" ") };
  } catch (error) {
    return { problem: `Invalid JSON: ${(error as Error).message}` };
  }
}
