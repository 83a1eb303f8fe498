// The contents of a form's fields, and the value they represent. Pure.
import { isRecord, record, type Field, type Fields } from "./schema";

/** The contents of a field: text, nested drafts, an explicit `null`, or nothing. */
export type Draft = undefined | null | string | readonly Draft[] | Drafts;
export interface Drafts {
  readonly [name: string]: Draft;
}

/** The problem of a required field that is empty. */
export const REQUIRED = "This field is required.";

/** Problems by field path: `filters/0/name`. */
export type Problems = ReadonlyMap<string, string>;

/** The contents of the fields for a value. */
export function draftsOf(fields: readonly Field[], value: Fields): Drafts {
  return Object.fromEntries(fields.map((field) => [field.name, draftOf(field, value[field.name])]));
}

function draftOf(field: Field, value: unknown): Draft {
  if (value === undefined || value === null) return value;
  switch (field.kind) {
    case "choice": {
      const at = field.choices.findIndex((choice) => same(choice, value));
      return at < 0 ? undefined : String(at);
    }
    case "list":
      return Array.isArray(value) ? value.map((one) => draftOf(field.item(), one)) : undefined;
    case "object":
      return draftsOf(field.fields(), record(value));
    case "json":
      return JSON.stringify(value, null, 2);
    default:
      return typeof value === "string" ? value : JSON.stringify(value);
  }
}

/** The value of the drafts, as far as they are valid, and their problems. */
export function readingOf(fields: readonly Field[], drafts: Drafts): { value: Fields; problems: Problems } {
  const problems = new Map<string, string>();
  const value = readFields(fields, drafts, "", problems);
  checkFields(fields, value, "", problems);
  return { value, problems };
}

/** The problems of a value. */
export function problemsIn(fields: readonly Field[], value: Fields): Problems {
  const problems = new Map<string, string>();
  checkFields(fields, value, "", problems);
  return problems;
}

/** Whether the form can display the whole value and would return the same value. */
export function isShown(fields: readonly Field[], value: Fields): boolean {
  return same(readingOf(fields, draftsOf(fields, value)).value, value);
}

/** The path of a nested field. */
export function inside(at: string, name: string | number): string {
  return at ? `${at}/${name}` : String(name);
}

function readFields(fields: readonly Field[], drafts: Drafts, at: string, problems: Map<string, string>): Fields {
  const values = fields.map((field) => [field.name, read(field, drafts[field.name], inside(at, field.name), problems)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

function read(field: Field, draft: Draft, at: string, problems: Map<string, string>): unknown {
  if (draft === null) return null;
  if (draft === undefined || draft === "") return field.required && field.nullable ? null : undefined;
  switch (field.kind) {
    case "text":
      return draft;
    case "choice":
      return field.choices[Number(draft)];
    case "number": {
      const value = Number(draft);
      if (Number.isFinite(value) && String(draft).trim()) return value;
      problems.set(at, `“${draft}” is not a number.`);
      return undefined;
    }
    case "json":
      try {
        return JSON.parse(String(draft));
      } catch (error) {
        problems.set(at, `Invalid JSON: ${(error as Error).message}`);
        return undefined;
      }
    case "list":
      return (draft as readonly Draft[]).map((one, index) => read(field.item(), one, inside(at, index), problems));
    case "object":
      return readFields(field.fields(), draft as Drafts, at, problems);
  }
}

function checkFields(fields: readonly Field[], value: Fields, at: string, problems: Map<string, string>): void {
  for (const field of fields) check(field, value[field.name], inside(at, field.name), problems);
}

function check(field: Field, value: unknown, at: string, problems: Map<string, string>): void {
  if (value === undefined && !field.required) return;
  if (value === null && (field.nullable || field.kind === "json")) return;
  const problem = value === undefined ? REQUIRED : misfit(field, value);
  if (problem) {
    if (!problems.has(at)) problems.set(at, problem);
  } else if (field.kind === "list") {
    (value as unknown[]).forEach((one, index) => check(field.item(), one, inside(at, index), problems));
  } else if (field.kind === "object") {
    checkFields(field.fields(), value as Fields, at, problems);
  }
}

function misfit(field: Field, value: unknown): string {
  switch (field.kind) {
    case "text":
      return typeof value === "string" ? "" : "This must be text.";
    case "choice":
      return field.choices.some((choice) => same(choice, value)) ? "" : `This must be one of ${field.choices.map(written).join(", ")}.`;
    case "number":
      if (typeof value !== "number") return "This must be a number.";
      if (field.whole && !Number.isSafeInteger(value)) return "This must be a whole number.";
      if (field.least !== null && value < field.least) return `The minimum is ${field.least}.`;
      return field.most !== null && value > field.most ? `The maximum is ${field.most}.` : "";
    case "list":
      return Array.isArray(value) ? "" : "This must be a list.";
    case "object":
      return isRecord(value) ? "" : "This must be an object.";
    case "json":
      return "";
  }
}

/** The text of an option in a list of choices. */
export function written(choice: unknown): string {
  return typeof choice === "string" ? choice : JSON.stringify(choice);
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one, inOrder) === JSON.stringify(other, inOrder);
}

function inOrder(_name: string, value: unknown): unknown {
  return isRecord(value) ? Object.fromEntries(Object.entries(value).sort()) : value;
}
