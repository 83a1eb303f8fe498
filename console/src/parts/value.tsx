// Any value that a tool takes or gives.
import { Code } from "./code";

export function Value({ value }: { value: unknown; label?: string }) {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return <Code text={text.slice(0, 20_000)} />;
}
