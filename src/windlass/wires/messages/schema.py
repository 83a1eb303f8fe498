"""The schema of a structured answer in the subset that Anthropic enforces. Pure."""

from typing import Any

from windlass.content import Schema
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
_KEPT = ("$ref", "const", "default", "description", "enum", "required", "title", "type")
_MAX_MIN_ITEMS = 1


def enforced_schema(schema: Schema) -> Schema:
    """The schema with closed objects. Limits that Anthropic does not enforce are in descriptions.

    Anthropic requires `additionalProperties: false` and refuses bounds, patterns and most formats.
    """
    result: JsonObject = {name: schema[name] for name in _KEPT if name in schema}
    for name in ("$defs", "definitions", "properties"):
        if (members := as_object(schema.get(name))) is not None:
            result[name] = {key: _inner(value) for key, value in members.items()}
    for name, target in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if (variants := as_list(schema.get(name))) is not None:
            result[target] = list(map(_inner, variants))
    if "items" in schema:
        result["items"] = _inner(schema["items"])
    if schema.get("type") == "object" or "properties" in schema:
        result["additionalProperties"] = False
    if as_text(schema.get("format")) in _FORMATS:
        result["format"] = schema["format"]
    minimum = schema.get("minItems")
    if type(minimum) is int and minimum <= _MAX_MIN_ITEMS:
        result["minItems"] = minimum
    return _with_limits(result, schema)


def _inner(value: Any) -> Any:
    fields = as_object(value)
    return value if fields is None else enforced_schema(fields)


_REPLACED = frozenset({"oneOf", "additionalProperties", "$schema", "$id"})


def _with_limits(result: JsonObject, schema: Schema) -> JsonObject:
    """Describes the keywords that are left out, so that the model still reads them."""
    limits = [
        f"{name}: {value}"
        for name, value in schema.items()
        if name not in result and name not in _REPLACED
    ]
    if not limits:
        return result
    described = as_text(result.get("description"))
    note = f"{{{', '.join(limits)}}}"
    return {**result, "description": f"{described}\n\n{note}" if described else note}
