"""BFCL's schemas, which name the types of Python, Java and JavaScript, as JSON Schema."""

from collections.abc import Iterable
from typing import Any

import jsonschema_rs
from msgspec.structs import replace

from windlass.content import FunctionDeclaration, Schema
from windlass.schema import mapped

__all__ = ["declared", "json_schema"]

_TYPES = {
    "string": "string",
    "String": "string",
    "char": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "number": "number",
    "double": "number",
    "boolean": "boolean",
    "Boolean": "boolean",
    "array": "array",
    "Array": "array",
    "ArrayList": "array",
    "tuple": "array",
    "dict": "object",
    "HashMap": "object",
}
_UNTYPED = ("any", "", None)
_TYPES_OF_VALUES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_schema(schema: Schema) -> Schema:
    """The schema with JSON's names for types. Raises `KeyError` for a type that has none."""
    result = mapped(schema, json_schema)
    kind = result.pop("type", None)
    if kind not in _UNTYPED:
        result["type"] = _TYPES[kind]
    result.pop("optional", None)
    if result.get("default") == "None":  # Python's repr, written by the tool that made the docs
        del result["default"]
    return result


def declared(
    tool: FunctionDeclaration, calls: Iterable[tuple[str, dict[str, Any]]]
) -> FunctionDeclaration:
    """The tool; a parameter without a type, or with another type than its gold call, gets the
    call's type.

    A format without quotes takes the types from the declaration, so they must be right there.
    """
    properties: dict[str, Any] = dict(tool.parameters.get("properties", {}))
    for called, arguments in calls:
        if called == tool.name:
            for name, value in arguments.items():
                properties[name] = _fitting(properties.get(name, False), value)
    return replace(tool, parameters={**tool.parameters, "properties": properties})


def _fitting(schema: Schema | bool, value: Any) -> Schema | bool:
    typed = isinstance(schema, dict) and ("type" in schema or "anyOf" in schema)
    if typed and jsonschema_rs.is_valid(schema, value):
        return schema
    if typed and value is None:
        return {"anyOf": [schema, {"type": "null"}]}
    return {"type": _TYPES_OF_VALUES[type(value)]}
