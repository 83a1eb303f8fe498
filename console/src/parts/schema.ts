// A JSON Schema as fields of a form. Pure.

export type Schema = Record<string, unknown>;
export type Fields = Record<string, unknown>;

/** A field, by its type of input. A schema that fits no other kind is edited as JSON. */
export type Field = Common &
  (
    | { kind: "text"; secret: boolean }
    | { kind: "number"; whole: boolean; least: number | null; most: number | null }
    | { kind: "choice"; choices: readonly unknown[] }
    | { kind: "list"; item: () => Field }
    | { kind: "object"; fields: () => readonly Field[] }
    | { kind: "json" }
  );

interface Common {
  name: string;
  label: string;
  description: string;
  required: boolean;
  /** Whether `null` is allowed. */
  nullable: boolean;
  default: unknown;
}

/** How many levels of nested objects are filled in from the start. */
const FILLED_IN = 3;

/** The fields of a schema of arguments; null if the schema does not name them. */
export function fieldsOf(schema: Schema): readonly Field[] | null {
  const { properties } = resolved(schema, schema);
  if (!isRecord(properties)) return null;
  const field = fieldOf("", schema, true, schema);
  return field.kind === "object" ? field.fields() : [];
}

/** The initial values of a form: defaults, and choices with a single option. */
export function initialOf(fields: readonly Field[], depth = 0): Fields {
  const values = fields.map((field) => [field.name, initial(field, depth)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined && value !== null));
}

function initial(field: Field, depth: number): unknown {
  if (field.default !== undefined || !field.required || field.nullable) return field.default;
  if (field.kind === "list") return [];
  if (field.kind === "object") return depth < FILLED_IN ? initialOf(field.fields(), depth + 1) : undefined;
  return field.kind === "choice" && field.choices.length === 1 ? field.choices[0] : undefined;
}

/** Nested fields are read on demand, because a schema may refer to itself. */
function fieldOf(name: string, given: Schema, required: boolean, root: Schema): Field {
  const { schema, nullable } = withoutNull(resolved(given, root), root);
  const common: Common = {
    name,
    label: text(schema["title"]) || name,
    description: text(schema["description"]),
    required,
    nullable,
    default: schema["default"],
  };
  const choices = choicesOf(schema);
  if (choices) return { ...common, kind: "choice", choices };
  switch (schema["type"]) {
    case "string":
      return { ...common, kind: "text", secret: schema["format"] === "password" };
    case "number":
    case "integer":
      return { ...common, kind: "number", whole: schema["type"] === "integer", least: number(schema["minimum"]), most: number(schema["maximum"]) };
    case "boolean":
      return { ...common, kind: "choice", choices: [true, false] };
    case "array": {
      const items = schema["items"];
      if (!isRecord(items)) break;
      return { ...common, kind: "list", item: once(() => fieldOf("", items, true, root)) };
    }
    case "object": {
      const properties = Object.entries(record(schema["properties"]));
      if (!properties.length) break;
      const needed = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
      const fields = () => properties.map(([key, property]) => fieldOf(key, record(property), needed.has(key), root));
      return { ...common, kind: "object", fields: once(fields) };
    }
  }
  return { ...common, kind: "json" };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** The referenced schema. Keywords next to the reference override it. */
function resolved(schema: Schema, root: Schema): Schema {
  let found = schema;
  for (let steps = 0; steps < 16; steps++) {
    const inner = Array.isArray(found["allOf"]) && found["allOf"].length === 1 ? record(found["allOf"][0]) : referred(found["$ref"], root);
    if (!inner) return found;
    const { $ref: _ref, allOf: _all, ...beside } = found;
    found = { ...inner, ...beside };
  }
  return {};
}

function referred(reference: unknown, root: Schema): Schema | null {
  if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) return null;
  const names = reference.split("/").slice(1);
  return names.reduce<Schema>((at, name) => record(at[name.replace(/~1/g, "/").replace(/~0/g, "~")]), root);
}

/** Removes `null` from the schema's types. */
function withoutNull(schema: Schema, root: Schema): { schema: Schema; nullable: boolean } {
  const { type, anyOf, oneOf, ...beside } = schema;
  const several = anyOf ?? oneOf;
  if (Array.isArray(several)) {
    const others = several.map(record).filter((one) => one["type"] !== "null");
    const nullable = others.length < several.length;
    const only = others[0];
    if (others.length !== 1 || !only) return { schema: { ...beside, type: undefined }, nullable };
    return { schema: { ...resolved(only, root), ...beside }, nullable };
  }
  if (Array.isArray(type)) {
    const others = type.filter((one) => one !== "null");
    return { schema: { ...beside, type: others.length === 1 ? others[0] : undefined }, nullable: others.length < type.length };
  }
  return { schema, nullable: type === "null" };
}

function choicesOf(schema: Schema): readonly unknown[] | null {
  if (Array.isArray(schema["enum"])) return schema["enum"].filter((one) => one !== null);
  return "const" in schema ? [schema["const"]] : null;
}

export function isRecord(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function record(value: unknown): Schema {
  return isRecord(value) ? value : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
