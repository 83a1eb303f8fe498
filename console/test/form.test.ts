import assert from "node:assert/strict";
import { test } from "node:test";
import { draftsOf, isShown, problemsIn, readingOf, type Drafts } from "../src/parts/draft";
import { fieldsOf, initialOf, type Field, type Schema } from "../src/parts/schema";

const SCHEMA: Schema = {
  type: "object",
  properties: {
    city: { type: "string", description: "The city's name." },
    days: { type: "integer", minimum: 1, maximum: 14, default: 3 },
    degrees: { type: "number" },
    unit: { enum: ["c", "f"], default: "c" },
    exact: { type: "boolean" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    tags: { type: "array", items: { type: "string" } },
    place: { $ref: "#/$defs/Place" },
    either: { anyOf: [{ type: "string" }, { type: "integer" }] },
    more: { type: "object", additionalProperties: { type: "string" } },
  },
  required: ["city", "degrees", "tags", "place"],
  $defs: {
    Place: {
      title: "Place",
      type: "object",
      properties: { street: { type: "string" }, within: { anyOf: [{ $ref: "#/$defs/Place" }, { type: "null" }] } },
      required: ["street"],
    },
  },
};

const fields = fieldsOf(SCHEMA) ?? [];
const GIVEN = {
  city: "Rome",
  days: 2,
  degrees: 21.5,
  unit: "f",
  exact: false,
  note: null,
  tags: ["a", "b"],
  place: { street: "Via\nAppia", within: { street: "Lazio" } },
  either: 7,
  more: { any: "thing" },
};

const named = (name: string): Field => fields.find((field) => field.name === name) ?? assert.fail(name);
const problemsOf = (drafts: Drafts) => Object.fromEntries(readingOf(fields, { ...draftsOf(fields, GIVEN), ...drafts }).problems);

test("every kind of a schema has its field, and what has none is JSON", () => {
  assert.deepEqual(
    Object.fromEntries(fields.map((field) => [field.name, field.kind])),
    { city: "text", days: "number", degrees: "number", unit: "choice", exact: "choice", note: "text", tags: "list", place: "object", either: "json", more: "json" },
  );
  assert.equal(named("note").nullable, true);
  assert.equal(named("city").description, "The city's name.");
});

test("a form gives back the value that it shows", () => {
  assert.deepEqual(readingOf(fields, draftsOf(fields, GIVEN)), { value: GIVEN, problems: new Map() });
  assert(isShown(fields, GIVEN));
});

test("a form begins with the defaults", () => {
  assert.deepEqual(initialOf(fields), { days: 3, unit: "c", tags: [], place: {} });
});

test("what fields would change or drop is not shown in fields", () => {
  for (const other of [{ city: 5 }, { surprise: 1 }, { unit: "kelvin" }, { place: { street: "x", surprise: 1 } }, { city: "" }, { days: "2" }]) {
    assert(!isShown(fields, { ...GIVEN, ...other }), JSON.stringify(other));
  }
});

test("what is needed and missing is named where it is missing", () => {
  assert.deepEqual(problemsOf({ city: "", place: { street: undefined } }), { city: "This field is required.", "place/street": "This field is required." });
  assert.deepEqual(Object.fromEntries(problemsIn(fields, {})), {
    city: "This field is required.",
    degrees: "This field is required.",
    tags: "This field is required.",
    place: "This field is required.",
  });
});

test("numbers are read as people write them, and refused with a reason", () => {
  assert.deepEqual(problemsOf({ days: "two" }), { days: "“two” is not a number." });
  assert.deepEqual(problemsOf({ days: "2.5" }), { days: "This must be a whole number." });
  assert.deepEqual(problemsOf({ days: "0" }), { days: "The minimum is 1." });
  assert.deepEqual(problemsOf({ days: "15" }), { days: "The maximum is 14." });
  assert.deepEqual(problemsOf({ degrees: " -1e3 " }), {});
});

test("a field of JSON says what cannot be read", () => {
  assert.match(problemsOf({ more: "{" })["more"] ?? "", /^Invalid JSON: /);
});

test("a value of another kind is a problem of its own place", () => {
  assert.deepEqual(Object.fromEntries(problemsIn(fields, { ...GIVEN, city: 5, tags: ["a", 1], unit: "k", place: [] })), {
    city: "This must be text.",
    "tags/1": "This must be text.",
    unit: "This must be one of c, f.",
    place: "This must be an object.",
  });
});

test("what is left empty is left out, or null where it is needed and may be null", () => {
  const some = fieldsOf({ type: "object", properties: { a: { type: ["string", "null"] }, b: { type: "string" } }, required: ["a"] }) ?? [];
  assert.deepEqual(readingOf(some, { a: "", b: "" }).value, { a: null });
});

test("a schema that refers to itself has fields as deep as somebody goes", () => {
  let at: Field | undefined = named("place");
  for (let depth = 0; depth < 10; depth++) {
    assert(at?.kind === "object");
    at = at.fields().find((field) => field.name === "within");
  }
  assert.equal(fieldsOf({ $ref: "#" }), null);
});

test("a form that needs itself is begun a few times, and no more", () => {
  const endless = { type: "object", properties: { again: { $ref: "#" } }, required: ["again"] };
  assert.deepEqual(initialOf(fieldsOf(endless) ?? []), { again: { again: { again: {} } } });
});
