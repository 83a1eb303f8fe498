// What the editor of function declarations takes. It is stricter than the API.
const DECLARATION_KEYS = new Set(["name", "description", "parameters"]);
const SCHEMA_KEYS = new Set([
  ...["type", "format", "description", "nullable", "enum", "minItems", "maxItems", "properties"],
  ...["required", "items", "minProperties", "maxProperties", "minimum", "maximum", "minLength"],
  ...["maxLength", "pattern", "propertyOrdering"],
]);

/** The declarations in the text. Throws an `Error` that says what is wrong with it. */
export function declarationsIn(text) {
  if (text.trim() === "") return [];
  const declarations = parsed(text);
  if (!Array.isArray(declarations)) throw new Error("Function declarations must be an array");
  declarations.forEach(checkDeclaration);
  return declarations;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid JSON: ${error.message}`);
  }
}

function checkDeclaration(declaration, place) {
  const path = `functions[${place}]`;
  checkKeys(declaration, DECLARATION_KEYS, path);
  if (typeof declaration.name !== "string" || declaration.name === "") {
    throw new Error(`Missing name at ${path}`);
  }
  if (declaration.parameters !== undefined) {
    checkSchema(declaration.parameters, `${declaration.name}.parameters`);
  }
}

function checkSchema(schema, path) {
  checkKeys(schema, SCHEMA_KEYS, path);
  if (typeof schema.type !== "string") throw new Error(`Missing type at ${path}`);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    checkSchema(property, `${path}.${name}`);
  }
  if (schema.items !== undefined) checkSchema(schema.items, `${path}.items`);
}

function checkKeys(value, known, path) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error(`Expected an object at ${path}`);
  }
  const unknown = Object.keys(value).find((key) => !known.has(key));
  if (unknown !== undefined) throw new Error(`Unknown key "${unknown}" at ${path}`);
}
