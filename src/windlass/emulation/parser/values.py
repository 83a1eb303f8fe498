"""Values without quotes, as JSON: their type is what the function's schema says."""

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from windlass.content import Schema
from windlass.emulation.parser.arguments import strict_json
from windlass.emulation.parser.escapes import json_string
from windlass.emulation.parser.python_text import Unreadable, python_value
from windlass.jsontext import compact_json

__all__ = ["Untyped", "items_of", "json_value", "types_of"]

Untyped = Literal["text", "json"]
"""What a value is that no schema speaks of."""

_KINDS = {
    "str": "string",
    "text": "string",
    "char": "string",
    "int": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "hashmap": "object",
    "list": "array",
    "tuple": "array",
    "arraylist": "array",
}
"""Types that are no JSON Schema, but that people declare."""
_UNIONS = ("anyOf", "oneOf", "allOf")
_NULLS = frozenset(("null", "none", "nil"))
_BOOLEANS = frozenset(("true", "false"))
_CONTAINERS = {"{": "object", "[": "array", "(": "array"}
_TEXT = frozenset(("string",))
_ALL = frozenset(("null", "boolean", "integer", "number", "array", "object", "string"))
_DEEPEST = 8
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"-?[0-9]+")
_OPENING = re.compile(r"\s*<([^\W\d][\w.-]*)>")


def types_of(schema: object, root: Schema, depth: int = 0) -> frozenset[str]:
    """The JSON types that the schema allows; none if it does not say."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return frozenset()
    schema = cast("Schema", schema)
    found: set[str] = set()
    kinds = schema.get("type")
    for kind in _listed(kinds) or [kinds]:
        if isinstance(kind, str):
            found.add(_KINDS.get(kind.lower(), kind.lower()))
    for union in _UNIONS:
        for member in _listed(schema.get(union)):
            found |= types_of(member, root, depth + 1)
    if isinstance(name := schema.get("$ref"), str):
        found |= types_of(_referred(name, root), root, depth + 1)
    if not found:
        found |= {_type_of(value) for value in _listed(schema.get("enum"))}
    return frozenset(found)


def _listed(value: object) -> list[object]:
    """The list, or nothing: a schema may be wrong."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _referred(name: str, root: Schema) -> object:
    place = cast("object", root)
    for key in name.removeprefix("#/").split("/"):
        place = cast("Schema", place).get(key) if isinstance(place, dict) else None
    return place


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def properties_of(schema: object, root: Schema) -> Mapping[str, Any]:
    """The properties of an object, wherever in the schema they stand."""
    if not isinstance(schema, dict):
        return {}
    schema = cast("Schema", schema)
    if isinstance(name := schema.get("$ref"), str):
        return properties_of(_referred(name, root), {})
    found = schema.get("properties")
    return cast("Schema", found) if isinstance(found, dict) else {}


def items_of(schema: object) -> object:
    return cast("Schema", schema).get("items") if isinstance(schema, dict) else None


def json_value(text: str, schema: object, root: Schema, untyped: Untyped = "text") -> str:
    """The value as JSON text: of a type that the schema allows, or else the text itself."""
    types = types_of(schema, root) or (_ALL if untyped == "json" else _TEXT)
    if types != _TEXT:
        bare = text.strip()
        if "null" in types and bare.lower() in _NULLS:
            return "null"
        if "boolean" in types and bare.lower() in _BOOLEANS:
            return bare.lower()
        if (json := _typed(bare, types)) or (json := from_tags(bare, schema, root, types)):
            return json
    return json_string(text)


def _typed(text: str, types: frozenset[str]) -> str | None:
    """The text as a number, a list or an object, if the types allow what it is."""
    if _NUMBER.fullmatch(text):
        if "number" in types or ("integer" in types and _WHOLE.fullmatch(text)):
            return text
        if "integer" in types and (value := float(text)).is_integer():
            return str(int(value))
        return None
    return _container(text, types) if text[:1] in _CONTAINERS else None


def _container(text: str, types: frozenset[str]) -> str | None:
    """The text as a list or an object: of JSON, else of Python, else of JSON that can be mended."""
    fits = _CONTAINERS[text[0]] in types
    if fits and _is_json(text):
        return text
    try:
        value = python_value(text)
    except Unreadable:
        return (strict_json(text) or _unescaped(text)) if fits else None
    return compact_json(value) if _type_of(value) in types else None


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _unescaped(text: str) -> str | None:
    """The JSON in a text that was escaped once too often: `[{\\"id\\": 1}]`."""
    if '\\"' not in text:
        return None
    try:
        return strict_json(msgspec.json.decode(f'"{text}"', type=str))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def from_tags(
    text: str, schema: object, root: Schema, types: frozenset[str], depth: int = 0
) -> str | None:
    """An object or a list whose members are tags, if the text is that and nothing else."""
    if depth > _DEEPEST or "string" in types or not types & {"object", "array"}:
        return None
    members: list[tuple[str, str]] = []
    place = 0
    while opening := _OPENING.match(text, place):
        closing = re.compile(rf"</\s*{re.escape(opening[1])}\s*>").search(text, opening.end())
        if not closing:
            return None
        members.append((opening[1], text[opening.end() : closing.start()]))
        place = closing.end()
    if not members or text[place:].strip():
        return None
    if "object" not in types:
        return _joined(members, items_of(schema), root)
    properties = properties_of(schema, root)
    values: dict[str, list[str]] = {}
    for key, value in members:
        values.setdefault(key, []).append(json_value(value, properties.get(key), root))
    return "{" + ",".join(_member(key, found) for key, found in values.items()) + "}"


def _joined(members: list[tuple[str, str]], schema: object, root: Schema) -> str:
    return "[" + ",".join(json_value(value, schema, root) for _, value in members) + "]"


def _member(key: str, found: list[str]) -> str:
    return f"{json_string(key)}:" + (found[0] if len(found) == 1 else f"[{','.join(found)}]")
