"""Converts JSON Schema to the OpenAPI subset of older Gemini services. Pure."""

from typing import Any

from windlass.content import Schema
from windlass.wires.fields import as_list, as_object, as_text

_KEPT = (
    "title",
    "description",
    "default",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
)
_FORMATS = {
    "string": ("date-time", "enum"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_ANYTHING: Schema = {"type": "STRING"}


def openapi_schema(schema: Schema) -> Schema:
    """The nearest schema in the subset. Unsupported parts are left out.

    References are resolved, recursive ones only once; null becomes `nullable`.
    """
    definitions: Schema = {**_definitions(schema, "$defs"), **_definitions(schema, "definitions")}
    return _converted(schema, definitions, ())


def _definitions(schema: Schema, key: str) -> Schema:
    found = as_object(schema.get(key)) or {}
    return {f"#/{key}/{name}": value for name, value in found.items()}


def _converted(value: object, definitions: Schema, inside: tuple[str, ...]) -> Schema:
    schema = as_object(value)
    if schema is None:
        return dict(_ANYTHING)  # `true`, or not a schema
    reference = as_text(schema.get("$ref"))
    if reference is not None:
        target = as_object(definitions.get(reference))
        if target is None or reference in inside:
            return {"type": "OBJECT"}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _converted({**target, **beside}, definitions, (*inside, reference))
    schema, nullable = _without_null(merged_all_of(schema))
    if isinstance(schema.get("$ref"), str):
        result = _converted(schema, definitions, inside)
    else:
        result = {key: schema[key] for key in _KEPT if key in schema}
        result |= _shape(schema, definitions, inside)
    return result | ({"nullable": True} if nullable else {})


def _shape(schema: Schema, definitions: Schema, inside: tuple[str, ...]) -> Schema:
    """The type and the fields that depend on it."""
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options:
        return {"anyOf": [_converted(option, definitions, inside) for option in options]}
    values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    if values:
        # Enums must be strings; the tool's validation reads "3" as 3 where 3 is expected.
        return {"type": "STRING", "enum": [enumerated(value) for value in values]}
    kind = as_text(schema.get("type")) or ("object" if "properties" in schema else "string")
    shape: Schema = {"type": kind.upper()}
    if schema.get("format") in _FORMATS.get(kind, ()):
        shape["format"] = schema["format"]
    if kind == "array":
        shape["items"] = _converted(schema.get("items"), definitions, inside)
    properties = as_object(schema.get("properties"))
    if kind == "object" and properties:
        shape["properties"] = {
            name: _converted(value, definitions, inside) for name, value in properties.items()
        }
        named = map(as_text, as_list(schema.get("required")) or ())
        required = [name for name in named if name in properties]
        shape |= {"required": required} if required else {}
    return shape


def enumerated(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def merged_all_of(schema: Schema) -> Schema:
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in as_list(schema.get("allOf")) or ():
        for key, value in (as_object(part) or {}).items():
            old, new = as_object(merged.get(key)), as_object(value)
            if old is not None and new is not None:
                merged[key] = {**new, **old}
            elif key == "required":
                merged[key] = [*(as_list(merged.get(key)) or ()), *(as_list(value) or ())]
            else:
                merged.setdefault(key, value)
    return merged


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    """The schema without null, and whether it allowed null. A single option replaces the union."""
    result, nullable = dict(schema), schema.get("nullable") is True
    if (types := as_list(schema.get("type"))) is not None:
        kinds = [kind for kind in types if kind != "null"]
        nullable = nullable or len(kinds) < len(types)
        result["type"] = kinds[0] if len(kinds) == 1 else None
        if len(kinds) != 1:
            result["anyOf"] = [{**_bare(schema), "type": kind} for kind in kinds]
    for key in ("anyOf", "oneOf"):
        options = as_list(result.get(key))
        if options is None:
            continue
        kept = [option for option in options if (as_object(option) or {}).get("type") != "null"]
        nullable = nullable or len(kept) < len(options)
        result[key] = kept
        if len(kept) == 1 and (only := as_object(kept[0])) is not None:
            del result[key]
            result = {**only, **result}
    if (values := as_list(result.get("enum"))) is not None and None in values:
        nullable = True
        result["enum"] = [value for value in values if value is not None]
    return result, nullable


def _bare(schema: Schema) -> Schema:
    """The fields that belong to each of several types, not to the union."""
    return {key: schema[key] for key in ("items", "properties", "required") if key in schema}
