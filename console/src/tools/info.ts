// What the gateway knows about a tool, loaded once for each page.
import { useEffect, useState } from "preact/hooks";
import { record, type Schema } from "../parts/schema";
import { api } from "../wire/api";

export interface ToolInfo {
  description: string;
  parameters: Schema;
}

const UNKNOWN: ToolInfo = { description: "", parameters: { type: "object" } };
const known = new Map<string, Promise<ToolInfo>>();

/** Undefined while it loads. An unknown tool, such as one of a client, takes any object. */
export function useToolInfo(name: string): ToolInfo | undefined {
  const [info, setInfo] = useState<ToolInfo>();
  useEffect(() => {
    let wanted = true;
    const loading = known.get(name) ?? api.tool(name);
    known.set(name, loading);
    loading.then(
      (tool) => wanted && setInfo(tool),
      () => {
        known.delete(name);
        if (wanted) setInfo(UNKNOWN);
      },
    );
    return () => {
      wanted = false;
    };
  }, [name]);
  return info;
}

export interface Argument {
  name: string;
  value: unknown;
  description: string;
  /** The model left it out, so the tool uses its default. */
  isDefault: boolean;
}

/** The arguments of a call in the order of the schema, with the defaults of those that are left out. */
export function withDefaults(parameters: Schema, given: Record<string, unknown>): Argument[] {
  const properties = record(parameters["properties"]);
  const names = [...new Set([...Object.keys(properties), ...Object.keys(given)])];
  return names.flatMap((name) => {
    const schema = record(properties[name]);
    const isDefault = !(name in given);
    if (isDefault && !("default" in schema)) return [];
    const description = typeof schema["description"] === "string" ? schema["description"] : "";
    return [{ name, value: isDefault ? schema["default"] : given[name], description, isDefault }];
  });
}
