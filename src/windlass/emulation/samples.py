"""Arguments for a worked example, made from a tool's schema. Pure, and the same every time.

A schema may come from a server that is not ours: what is long, or holds a marker, is passed over.
"""

from typing import Any, cast

from windlass.content import FunctionDeclaration, Schema
from windlass.emulation.quoting import quoted
from windlass.jsontext import compact_json
from windlass.schema import options, referenced

__all__ = ["sample_arguments", "sample_tool"]

_BY_NAME: dict[str, str] = {
    "city": "Paris",
    "country": "France",
    "currency": "EUR",
    "date": "2025-01-31",
    "email": "ada@example.com",
    "expression": "2 + 3",
    "file": "notes.txt",
    "from_unit": "km",
    "language": "French",
    "location": "Paris",
    "name": "Ada",
    "path": "notes.txt",
    "place": "Paris",
    "query": "red pandas",
    "text": "Good morning",
    "time": "09:30",
    "timezone": "Europe/Paris",
    "to_unit": "miles",
    "unit": "km",
    "url": "https://example.com",
    "username": "ada",
}
_BY_FORMAT: dict[str, str] = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T09:30:00Z",
    "email": "ada@example.com",
    "time": "09:30:00",
    "uri": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_DEEPEST = 4
_LONGEST = 100


def sample_tool(tools: tuple[FunctionDeclaration, ...]) -> FunctionDeclaration:
    """The tool that makes the best example: the first that takes something."""
    return next((tool for tool in tools if tool.parameters.get("required")), tools[0])


def sample_arguments(tool: FunctionDeclaration) -> dict[str, Any]:
    """What the tool requires, with values of the right types; its first parameter if nothing is."""
    root = referenced(tool.parameters, tool.parameters)
    properties = cast("dict[str, Any]", root.get("properties") or {})
    names = cast("list[str]", root.get("required") or list(properties)[:1])
    return {
        name: _sample(name, properties.get(name), tool.parameters, 0)
        for name in names
        if _is_fit(name)
    }


def _sample(name: str, schema: object, root: Schema, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return _word(name, {})
    schema = referenced(cast("Schema", schema), root)
    for given in (schema.get("examples"), schema.get("enum")):
        if isinstance(given, list) and given and _is_fit(value := cast("list[Any]", given)[0]):
            return value
    for key in ("const", "default"):
        if schema.get(key) is not None and _is_fit(schema[key]):
            return schema[key]
    alternatives = [option for option in options(schema) if option.get("type") != "null"]
    if "type" not in schema and alternatives:
        return _sample(name, alternatives[0], root, depth + 1)
    return _of_type(name, schema, root, depth)


def _of_type(name: str, schema: Schema, root: Schema, depth: int) -> Any:
    kinds: Any = schema.get("type", "string")
    several = cast("list[str]", kinds) if isinstance(kinds, list) else [str(kinds)]
    kind = next((each for each in several if each != "null"), "null")
    match kind:
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 1) + 1)
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            return [_sample(name.removesuffix("s"), schema.get("items", {}), root, depth + 1)]
        case "object":
            properties = cast("dict[str, Any]", schema.get("properties") or {})
            wanted = cast("list[str]", schema.get("required") or [])
            return {
                key: _sample(key, properties.get(key), root, depth + 1)
                for key in wanted
                if _is_fit(key)
            }
        case _:
            return _word(name, schema)


def _is_fit(value: object) -> bool:
    text = compact_json(value)
    return len(text) <= _LONGEST and quoted(value) == text


def _word(name: str, schema: Schema) -> str:
    known = _BY_FORMAT.get(str(schema.get("format"))) or _BY_NAME.get(name.lower())
    return known or f"some {name.replace('_', ' ')}"
