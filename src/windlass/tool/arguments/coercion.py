"""Nearly right JSON made right: what models write when they mean well."""

import copy
import math
from typing import Any, cast

from pydantic_core import from_json

from windlass.content import Schema
from windlass.schema import accepts_null, in_place, options, referenced


def coerced(value: Any, schema: Schema, root: Schema | None = None) -> Any:
    """The value with every part that does not fit its schema replaced by what was meant.

    A whole float becomes an integer, a number in quotes a number, JSON in quotes an object or list,
    a number where text is wanted its text; a null that a property does not take is left out. What
    has no such reading stays as it is, for the validator to refuse.
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
    """The value with the schema's defaults for those properties that its objects leave out."""
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
    """The JSON types that the schema allows; empty when it does not say."""
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
    """The value's JSON type; a whole number is an integer however it is written."""
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
    """Whether the property is known and not required. What a map holds is not ours to leave out."""
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
    """JSON that the model put in quotes once too often; the text itself if it is no such JSON."""
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
    """The member of an enum that is written like the value: 1 for "1", or the other way round."""
    members: list[Any] = schema.get("enum", [])
    if not members or value in members or isinstance(value, bool):
        return value
    alike = [item for item in members if not isinstance(item, bool) and str(item) == str(value)]
    return alike[0] if len(alike) == 1 else value
