"""Repair of small mistakes in arguments that models write."""

import copy
import math
from typing import Any, cast

from pydantic_core import from_json

from windlass.content import Schema
from windlass.schema import accepts_null, in_place, options, referenced


def coerced(value: Any, schema: Schema, root: Schema | None = None) -> Any:
    """Returns the value with repairs where it does not match the schema.

    A whole float becomes an integer, a number in quotes a number, JSON in quotes an object or a
    list, and a number a string if the schema wants a string. A null that a property does not accept
    is dropped. Anything else stays unchanged, and the validator refuses it.
    """
    root = schema if root is None else root
    schema = referenced(schema, root)
    value = _as_type(value, schema, root)
    if isinstance(value, dict):
        return _coerced_object(cast("dict[str, Any]", value), schema, root)
    if isinstance(value, list):
        return [
            coerced(item, in_place(schema, index, root), root)
            for index, item in enumerate(cast("list[Any]", value))
        ]
    return _as_listed(value, schema)


def with_defaults(value: Any, schema: Schema, root: Schema | None = None) -> Any:
    """Returns the value with the schema's defaults for missing properties."""
    root = schema if root is None else root
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [with_defaults(item, in_place(schema, index, root), root) for index, item in items]
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    result = {
        name: with_defaults(item, in_place(schema, name, root), root)
        for name, item in given.items()
    }
    properties: dict[str, Any] = referenced(schema, root).get("properties", {})
    for name, inner in properties.items():
        if name not in result and isinstance(inner, dict) and "default" in inner:
            result[name] = copy.deepcopy(cast("Schema", inner)["default"])
    return result


def json_types(schema: Schema, root: Schema) -> set[str]:
    """Returns the JSON types that the schema allows; an empty set if it has no type."""
    schema = referenced(schema, root)
    if "type" in schema:
        kinds = schema["type"]
        return {kinds} if isinstance(kinds, str) else set(cast("list[str]", kinds))
    allowed: set[str] = set()
    for option in options(schema):
        if not (inner := json_types(option, root)):
            return set()
        allowed |= inner
    return allowed


def type_of(value: Any) -> str:
    """Returns the value's JSON type; a whole number is an integer, also as a float."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case list():
            return "array"
        case _:
            return "object"


def _coerced_object(value: dict[str, Any], schema: Schema, root: Schema) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, item in value.items():
        inner = referenced(in_place(schema, name, root), root)
        if item is None and not accepts_null(inner) and _may_lack(schema, name, root):
            continue
        result[name] = coerced(item, inner, root)
    return result


def _may_lack(schema: Schema, name: str, root: Schema) -> bool:
    """Whether the property is known and not required. Members of a map must stay."""
    schema = referenced(schema, root)
    known = name in schema.get("properties", {}) and name not in schema.get("required", ())
    return known or any(_may_lack(option, name, root) for option in options(schema))


def _as_type(value: Any, schema: Schema, root: Schema) -> Any:
    wanted = json_types(schema, root)
    kind = type_of(value)
    if kind in wanted or (kind == "integer" and "number" in wanted) or not wanted:
        whole = isinstance(value, float) and value.is_integer() and "integer" in wanted
        return int(cast("float", value)) if whole else value
    if kind == "string":
        return _unquoted(cast("str", value), wanted)
    if kind in ("integer", "number") and "string" in wanted:
        return str(value)
    return value


def _unquoted(text: str, wanted: set[str]) -> Any:
    """Returns the JSON value in a quoted text; the text itself if there is none."""
    try:
        value = from_json(text.strip().lower() if wanted == {"boolean"} else text)
    except ValueError:
        return text
    kind = type_of(value)
    if isinstance(value, float) and not math.isfinite(value):
        return text
    if kind == "integer" and "integer" in wanted:
        return int(value)
    return value if kind in wanted or (kind == "integer" and "number" in wanted) else text


def _as_listed(value: Any, schema: Schema) -> Any:
    """Returns the enum member with the same text as the value: 1 for "1", or "1" for 1."""
    members: list[Any] = schema.get("enum", [])
    if not members or value in members or isinstance(value, bool):
        return value
    alike = [item for item in members if not isinstance(item, bool) and str(item) == str(value)]
    return alike[0] if len(alike) == 1 else value
