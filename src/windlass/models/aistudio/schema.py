"""Converts tool schemas to the declarations that the page's editor accepts. Pure.

The editor is stricter than the API, which is stricter than JSON Schema. Unsupported parts are
replaced by the nearest supported ones, and the losses are logged.
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from windlass.content import FunctionDeclaration, Schema
from windlass.errors import ModelError
from windlass.jsontext import compact_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text
from windlass.wires.gemini.write_request import FORMATS, enumerated, merged_all_of

log = logging.getLogger("windlass.models.aistudio")

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_KEPT = (
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "propertyOrdering",
)
_SHAPE = ("type", "format", "enum", "const", "properties", "required", "items", "anyOf", "oneOf")
_SKIPPED = (
    "title",
    "$schema",
    "$id",
    "$comment",
    "$ref",
    "$defs",
    "definitions",
    "strict",
    "allOf",
)
_TYPES = ("string", "number", "integer", "boolean", "array", "object")


class Declarations(Struct, frozen=True):
    """The declarations for the editor, and the parts of the schemas that were lost."""

    functions: list[JsonObject]
    lost: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return digest_of(self.functions)


class SchemaConverter:
    """Converts tools to the editor's declarations."""

    def convert_tools(self, tools: Sequence[FunctionDeclaration]) -> Declarations:
        """The declarations of the tools. Raises `ModelError` (400) for an invalid tool."""
        lost: list[str] = []
        functions = [_function(tool, lost) for tool in tools]
        if lost:
            log.info(
                "the page's editor does not support parts of the tools' schemas; lost: %s",
                "; ".join(lost),
            )
        return Declarations(functions, tuple(lost))

    def to_json_string(self, declarations: Declarations) -> str:
        return compact_json(declarations.functions)


def digest_of(functions: Sequence[JsonObject]) -> str:
    """The SHA-256 of the canonical JSON, independent of the order of keys."""
    return hashlib.sha256(compact_json(_sorted(list(functions))).encode()).hexdigest()


def _sorted(value: Any) -> Any:
    if (fields := as_object(value)) is not None:
        return {key: _sorted(fields[key]) for key in sorted(fields)}
    items = as_list(value)
    return value if items is None else [_sorted(item) for item in items]


def _function(tool: FunctionDeclaration, lost: list[str]) -> JsonObject:
    if not _NAME.fullmatch(tool.name):
        raise ModelError(
            f"invalid schema for function {tool.name!r}: its name must start with a letter or _ and"
            " have only letters, digits, _, . and -, at most 64",
            status=400,
            code="invalid_tool",
        )
    parameters = as_object(tool.parameters)
    if parameters is None or as_text(parameters.get("type", "object")) != "object":
        raise ModelError(
            f"invalid schema for function {tool.name!r}: its parameters must be a JSON Schema of"
            " type object",
            status=400,
            code="invalid_tool",
        )
    function: JsonObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    converted = _Converter(parameters, lost).converted(
        {"type": "object", **parameters}, tool.name, ()
    )
    if converted.get("properties"):
        function["parameters"] = converted
    return function


class _Converter:
    """Converts one schema document, with its references resolved."""

    def __init__(self, root: Schema, lost: list[str]) -> None:
        self._lost = lost
        self._definitions = {
            f"#/{key}/{name}": value
            for key in ("$defs", "definitions")
            for name, value in (as_object(root.get(key)) or {}).items()
        }

    def converted(self, value: object, place: str, inside: tuple[str, ...]) -> Schema:
        schema = as_object(value)
        if schema is None:
            self._lose(place, "a schema that accepts anything")
            return {"type": "string"}
        if (reference := as_text(schema.get("$ref"))) is not None:
            return self._resolved(schema, reference, place, inside)
        schema, nullable = self._without_union(merged_all_of(schema), place)
        if "$ref" in schema:
            result = self.converted(schema, place, inside)
        else:
            self._report_lost(schema, place)
            result = self._shape(schema, place, inside)
            result |= {key: schema[key] for key in _KEPT if key in schema}
        return result | ({"nullable": True} if nullable else {})

    def _resolved(
        self, schema: Schema, reference: str, place: str, inside: tuple[str, ...]
    ) -> Schema:
        target = as_object(self._definitions.get(reference))
        if target is None or reference in inside:
            self._lose(place, f"the reference {reference}")
            return {"type": "object"}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.converted({**target, **beside}, place, (*inside, reference))

    def _shape(self, schema: Schema, place: str, inside: tuple[str, ...]) -> Schema:
        """The type, which is required, and the fields that depend on it."""
        values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
        if values:
            # Enums must be strings; the tool's validation reads "3" as 3 where 3 is expected.
            return {"type": "string", "enum": [enumerated(value) for value in values]}
        shape: Schema = {"type": self._type(schema, place)}
        kind = shape["type"]
        if "format" in schema:
            if schema["format"] in FORMATS.get(kind, ()):
                shape["format"] = schema["format"]
            else:
                self._lose(place, f"format {schema['format']}")
        if kind == "array":
            items: object = schema.get("items")
            shape["items"] = (
                {"type": "string"} if items is None else self.converted(items, f"{place}[]", inside)
            )
        properties = as_object(schema.get("properties"))
        if kind == "object" and properties:
            shape["properties"] = {
                name: self.converted(value, f"{place}.{name}", inside)
                for name, value in properties.items()
            }
            named = map(as_text, as_list(schema.get("required")) or ())
            required = [name for name in named if name in properties]
            shape |= {"required": required} if required else {}
        return shape

    def _type(self, schema: Schema, place: str) -> str:
        kind = as_text(schema.get("type"))
        if kind in _TYPES:
            return kind
        if "properties" in schema:
            return "object"
        if "items" in schema:
            return "array"
        self._lose(place, "a schema without a type")
        return "string"

    def _without_union(self, schema: Schema, place: str) -> tuple[Schema, bool]:
        """The schema with the first member that is not null, and whether null is allowed."""
        nullable = schema.get("nullable") is True
        result = dict(schema)
        if (kinds := as_list(schema.get("type"))) is not None:
            result["type"], nulls = self._first(kinds, place)
            nullable = nullable or nulls
        for key in ("anyOf", "oneOf"):
            members = as_list(result.pop(key, None))
            if members:
                member, nulls = self._first(members, place)
                nullable = nullable or nulls
                result = {**(as_object(member) or {}), **result}
        if (values := as_list(result.get("enum"))) is not None and None in values:
            nullable = True
            result["enum"] = [value for value in values if value is not None]
        if any(key in result for key in ("anyOf", "oneOf")):  # a union in a union
            result, inner = self._without_union(result, place)
            nullable = nullable or inner
        return result, nullable

    def _first(self, members: list[Any], place: str) -> tuple[Any, bool]:
        others = [member for member in members if not _is_null(member)]
        if len(others) > 1:
            self._lose(place, f"all but the first of {len(others)} alternatives")
        return (others[0] if others else None), len(others) < len(members)

    def _report_lost(self, schema: Schema, place: str) -> None:
        for key, value in schema.items():
            quiet = key in _KEPT or key in _SHAPE or key in _SKIPPED
            if not quiet and not (key == "additionalProperties" and value is False):
                self._lose(place, key)

    def _lose(self, place: str, what: str) -> None:
        self._lost.append(f"{place}: {what}")


def _is_null(member: Any) -> bool:
    fields = as_object(member) or {}
    return (
        member == "null"
        or fields.get("type") == "null"
        or ("const" in fields and fields["const"] is None)
    )
