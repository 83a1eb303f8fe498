"""pydantic's JSON Schema, in the form that fits models, and validators that accept all of it."""

import enum
import json
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, core_schema, to_jsonable_python

from windlass.content import Schema
from windlass.tool.docstrings import parse_docstring
from windlass.tool.hints import described_by

__all__ = ["SchemaGenerator", "forgiving", "json_value"]

_SCALARS = (str, int, float, bool, type(None))
_WHOLE_NUMBER = r"^-?[0-9]{1,18}$"


def json_value(value: Any) -> Any:
    """The value as its type's schema says it. Raises `ValueError` when JSON has no word for it."""
    if isinstance(value, enum.Enum):
        return _written(value)
    said = float(value) if isinstance(value, Decimal) else to_jsonable_python(value)
    json.dumps(said, allow_nan=False)
    return said


class SchemaGenerator(GenerateJsonSchema):
    """Leaves out noise, and declares only what can be called."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default that is no JSON is simply not declared."""

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """By value where JSON has the values, otherwise by name."""
        members: list[Any] = [_written(member) for member in schema["members"]]
        doc = schema["cls"].__dict__.get("__doc__") or ""
        kinds: set[type] = {type(member) for member in members}
        described: Schema = {"description": parse_docstring(doc).description} if doc else {}
        typed: Schema = {"type": _TYPE_NAMES[kinds.pop()]} if len(kinds) == 1 else {}
        return {**typed, **described, "enum": members}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        expected = [
            _written(item) if isinstance(item, enum.Enum) else item for item in schema["expected"]
        ]
        return super().literal_schema({**schema, "expected": expected})

    def encode_default(self, dft: Any) -> Any:
        return json_value(dft)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number alone: its text is understood too, but need not be offered."""
        return super().decimal_schema(schema)["anyOf"][0]

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Text, which becomes UTF-8."""
        return {key: item for key, item in super().bytes_schema(schema).items() if key != "format"}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        result = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            result["propertyNames"] = {"pattern": _WHOLE_NUMBER}
        return result

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return _of_hashables(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return _of_hashables(super().frozenset_schema(schema))

    def named_tuple_schema(self, schema: Any) -> JsonSchemaValue:
        """An object: in an array the fields would have no names."""
        fields = {field["name"]: field["schema"] for field in schema["fields"]}
        result: Schema = {
            "type": "object",
            "properties": {name: self.generate_inner(inner) for name, inner in fields.items()},
            "required": [name for name, inner in fields.items() if inner["type"] != "default"],
            "additionalProperties": False,
        }
        return _described(result, schema["cls"])

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> JsonSchemaValue:
        """How pydantic before 2.14 sees a named tuple."""
        return super().arguments_schema({**schema, "metadata": {}})

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        result = super().dataclass_schema(schema)
        if schema.get("config", {}).get("extra_fields_behavior") == "forbid":
            result["additionalProperties"] = False
        return _described(result, schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _described(super().typed_dict_schema(schema), schema.get("cls"))


_TYPE_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _of_hashables(schema: Schema) -> Schema:
    """A set of anything cannot hold arrays and objects."""
    if schema.get("items"):
        return schema
    kinds = ("string", "number", "boolean", "null")
    return {**schema, "items": {"anyOf": [{"type": kind} for kind in kinds]}}


def _written(member: enum.Enum) -> Any:
    """How a member is said in JSON: by its value, or by its name when JSON has no such value."""
    value = member.value
    if isinstance(value, _SCALARS):
        return to_jsonable_python(value)
    return member.name


def _described(schema: Schema, kind: type | None) -> Schema:
    """The descriptions that the class's docstring and `Annotated` give its fields."""
    if kind is None or "properties" not in schema:
        return schema
    doc = parse_docstring(schema.get("description") or _own_docstring(kind))
    said = {**doc.parameters, **_annotated_descriptions(kind)}
    properties = {
        name: {**inner, "description": said[name]}
        if name in said and "description" not in inner
        else inner
        for name, inner in schema["properties"].items()
    }
    described = {"description": doc.description} if doc.description else {}
    return {**schema, "properties": properties, **described}


def _own_docstring(kind: type) -> str:
    """What its author wrote; dataclasses and named tuples are given their signature."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{kind.__name__}(") else text


def _annotated_descriptions(kind: type) -> dict[str, str]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    return {name: said for name, hint in hints.items() if (said := described_by(hint))}


def forgiving(schema: Any) -> Any:
    """The core schema with enums taken by name too, and members in a `Literal` as JSON has them."""
    if isinstance(schema, (list, tuple)):
        items = [forgiving(item) for item in cast("list[Any]", schema)]
        return tuple(items) if isinstance(schema, tuple) else items
    if not isinstance(schema, dict):
        return schema
    copy = {
        key: item if key in _NO_SCHEMAS else forgiving(item)
        for key, item in cast("dict[str, Any]", schema).items()
    }
    match copy:
        case {"type": "enum", "cls": type() as kind}:
            return _with_names(copy, cast("type[enum.Enum]", kind).__members__)
        case {"type": "literal"}:
            items: list[Any] = copy["expected"]
            named = {item.name: item for item in items if isinstance(item, enum.Enum)}
            return _with_names(copy, named) if named else copy
        case _:
            return copy


# User values that may look like anything.
_NO_SCHEMAS = ("metadata", "default", "cls", "members", "expected", "config", "serialization")


def _with_names(schema: dict[str, Any], members: Mapping[str, enum.Enum]) -> dict[str, Any]:
    """A step before the schema that puts a member in the place of its value or its name."""
    said = {_written(member): member for member in members.values()}
    found: dict[Any, enum.Enum] = {**members, **said}

    def member_of(value: Any) -> Any:
        return found.get(value, value) if isinstance(value, _SCALARS) else value

    reference = schema.pop("ref", None)
    step = core_schema.no_info_before_validator_function(member_of, cast("CoreSchema", schema))
    return {**step, "ref": reference} if reference else {**step}
