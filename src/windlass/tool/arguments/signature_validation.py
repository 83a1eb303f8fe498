"""Arguments validated with a function's signature: pydantic, and repairs if that fails."""

import contextlib
import enum
import inspect
import json
import typing
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, NotRequired, cast

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation
from pydantic.fields import Field, FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import (
    CoreSchema,
    SchemaError,
    SchemaValidator,
    ValidationError,
    core_schema,
    from_json,
    to_jsonable_python,
)
from typing_extensions import TypedDict

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.schema import accepts_null, plain, referenced
from windlass.tool.arguments.coercion import coerced
from windlass.tool.arguments.problems import (
    invalid_arguments,
    not_an_object,
    problems_in,
    unknown,
    unreadable,
)
from windlass.tool.docstrings import parse_docstring
from windlass.tool.signature import MISSING, Parameter, Signature, described_by, metadata_of

_SCALARS = (str, int, float, bool, type(None))
_WHOLE_NUMBER = r"^-?[0-9]{1,18}$"


def json_value(value: Any) -> Any:
    """Returns a default as a JSON value. Raises `ValueError` if JSON cannot represent it."""
    if isinstance(value, enum.Enum):
        return _written(value)
    converted = float(value) if isinstance(value, Decimal) else to_jsonable_python(value)
    json.dumps(converted, allow_nan=False)
    return converted


class SchemaGenerator(GenerateJsonSchema):
    """Generates compact schemas that only declare values which the function accepts."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignores a default that is not JSON: it is not declared."""

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """Lists members by value if JSON can represent it, otherwise by name."""
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
        """Declares a number only; a string is accepted, too."""
        return super().decimal_schema(schema)["anyOf"][0]

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Declares text, which becomes UTF-8."""
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
        """Declares an object, because the fields of an array have no names."""
        fields = {field["name"]: field["schema"] for field in schema["fields"]}
        result: Schema = {
            "type": "object",
            "properties": {name: self.generate_inner(inner) for name, inner in fields.items()},
            "required": [name for name, inner in fields.items() if inner["type"] != "default"],
            "additionalProperties": False,
        }
        return _described(result, schema["cls"])

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> JsonSchemaValue:
        """Handles a named tuple in pydantic before 2.14."""
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
    """Excludes arrays and objects from a set of any type, because they have no hash."""
    if schema.get("items"):
        return schema
    kinds = ("string", "number", "boolean", "null")
    return {**schema, "items": {"anyOf": [{"type": kind} for kind in kinds]}}


def _written(member: enum.Enum) -> Any:
    """Returns the member's value, or its name if JSON cannot represent the value."""
    value = member.value
    if isinstance(value, _SCALARS):
        return to_jsonable_python(value)
    return member.name


def _described(schema: Schema, kind: type | None) -> Schema:
    """Adds the descriptions of fields from the class's docstring and `Annotated`."""
    if kind is None or "properties" not in schema:
        return schema
    doc = parse_docstring(schema.get("description") or _own_docstring(kind))
    texts = {**doc.parameters, **_annotated_descriptions(kind)}
    properties = {
        name: {**inner, "description": texts[name]}
        if name in texts and "description" not in inner
        else inner
        for name, inner in schema["properties"].items()
    }
    described = {"description": doc.description} if doc.description else {}
    return {**schema, "properties": properties, **described}


def _own_docstring(kind: type) -> str:
    """Returns the author's docstring, not the signature that dataclasses and named tuples get."""
    text = kind.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{kind.__name__}(") else text


def _annotated_descriptions(kind: type) -> dict[str, str]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    return {name: text for name, hint in hints.items() if (text := described_by(hint))}


def forgiving(schema: Any) -> Any:
    """Returns the core schema, extended to accept enum members by value and by name."""
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


# Keys with the user's values, which are not schemas.
_NO_SCHEMAS = ("metadata", "default", "cls", "members", "expected", "config", "serialization")


def _with_names(schema: dict[str, Any], members: Mapping[str, enum.Enum]) -> dict[str, Any]:
    """Adds a step before the schema that replaces a member's value or name with the member."""
    by_value = {_written(member): member for member in members.values()}
    found: dict[Any, enum.Enum] = {**members, **by_value}

    def member_of(value: Any) -> Any:
        return found.get(value, value) if isinstance(value, _SCALARS) else value

    reference = schema.pop("ref", None)
    step = core_schema.no_info_before_validator_function(member_of, cast("CoreSchema", schema))
    return {**step, "ref": reference} if reference else {**step}


_OPEN: ConfigDict = {
    "coerce_numbers_to_str": True,
    "validate_by_name": True,
    "validate_by_alias": True,
}
_CLOSED: ConfigDict = {**_OPEN, "extra": "forbid"}
_TYPES_OF_DEFAULTS = (bool, int, float, str, list, dict, tuple, set, date, datetime)
NO_SCHEMA = (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    SchemaError,
    TypeError,
)


class SignatureArguments:
    """Validates the arguments of one function with its signature."""

    def __init__(self, name: str, signature: Signature) -> None:
        """Raises `ConfigError`, which names the parameter, if a type has no JSON Schema."""
        adapter, self.schema = _adapter_and_schema(name, signature)
        self._hidden = signature.hidden if signature.open else frozenset[str]()
        self._validator = forgiving_validator(adapter)

    def validate(self, json_text: str) -> dict[str, Any]:
        """Returns the keyword arguments for the function. Raises `InvalidArguments`."""
        try:
            arguments = self._validator.validate_json(json_text)
        except (ValidationError, RecursionError):
            arguments = self._repaired(json_text)
        if self._hidden and (given := self._hidden.intersection(arguments)):
            # With **kwargs any name is valid, but the model must not set injected parameters.
            raise invalid_arguments(unknown((name,), self.schema) for name in sorted(given))
        return arguments

    def _repaired(self, json_text: str) -> dict[str, Any]:
        try:
            value: Any = from_json(json_text) if json_text.strip() else {}
        except (ValueError, TypeError) as error:  # TypeError: half a surrogate pair
            raise unreadable(str(error)) from None
        try:
            value = coerced({} if value is None else value, self.schema)
            if not isinstance(value, dict):
                raise not_an_object(value)
            return self._validator.validate_json(json.dumps(value))
        except ValidationError as error:
            raise invalid_arguments(problems_in(error, value, self.schema)) from None
        except RecursionError:
            raise unreadable("nested too deeply") from None


def _adapter_and_schema(name: str, signature: Signature) -> tuple[TypeAdapter[Any], Schema]:
    fields = {parameter.name: _field(parameter, signature) for parameter in signature.parameters}
    try:
        adapter = _fields_adapter(fields, signature.extras)
        return adapter, _schema(adapter, signature)
    except NO_SCHEMA as error:
        for parameter, hint in fields.items():
            _refuse_without_schema(name, parameter, hint)
        raise ConfigError(f"{name}: the signature has no JSON Schema: {error}") from error


def _refuse_without_schema(name: str, parameter: str, hint: Any) -> None:
    try:
        _fields_adapter({parameter: hint}, MISSING).json_schema(schema_generator=SchemaGenerator)
    except NO_SCHEMA as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{name}: the parameter {parameter!r} has no JSON Schema: {reason}; to hide it from"
            " the model, write Annotated[..., Depends(...)]"
        ) from error


def _fields_adapter(fields: dict[str, Any], extras: Any) -> TypeAdapter[Any]:
    """Builds an adapter from a TypedDict, which accepts any parameter name as a field."""
    more: dict[str, Any] = {} if extras is MISSING else {"extra_items": extras}
    kind = cast("Any", TypedDict)("Arguments", fields, **more)
    kind.__pydantic_config__ = _CLOSED if extras is MISSING else _OPEN
    return TypeAdapter(kind)


def _field(parameter: Parameter, signature: Signature) -> Any:
    """Returns the parameter's type with its description, marked if it is not required."""
    hint = parameter.hint
    if hint is MISSING:
        hint = _type_of_default(parameter.default)
    bare, metadata = metadata_of(hint)
    if isinstance(parameter.default, FieldInfo):
        metadata = (*metadata, parameter.default)
    # pydantic uses the last description, so the one closest to the parameter comes last.
    if text := signature.docstring.parameters.get(parameter.name):
        metadata = (Field(description=text), *metadata)
    if text := described_by(hint):
        metadata = (*metadata, Field(description=inspect.cleandoc(text)))
    hint = Annotated[(bare, *metadata)] if metadata else bare
    return hint if _required(parameter, metadata) else NotRequired[hint]


def _required(parameter: Parameter, metadata: tuple[Any, ...]) -> bool:
    fields = [item for item in metadata if isinstance(item, FieldInfo)]
    if isinstance(parameter.default, FieldInfo) or parameter.required:
        return all(field.is_required() for field in fields)
    return False


def _type_of_default(default: Any) -> Any:
    kind = cast("type[Any]", type(default))
    return kind if kind in _TYPES_OF_DEFAULTS or issubclass(kind, enum.Enum) else Any


def _schema(adapter: TypeAdapter[Any], signature: Signature) -> Schema:
    schema = adapter.json_schema(schema_generator=SchemaGenerator)
    properties: dict[str, Schema] = schema.setdefault("properties", {})
    for parameter in signature.parameters:
        known = properties.get(_json_name(parameter))
        has_default = parameter.default is not MISSING
        if known is not None and has_default and not isinstance(parameter.default, FieldInfo):
            with contextlib.suppress(ValueError):
                _declare_default(known, json_value(parameter.default), schema)
    return plain(schema)


def _declare_default(known: Schema, default: Any, schema: Schema) -> None:
    if default is not None or accepts_null(referenced(known, schema)):
        known["default"] = default


def _json_name(parameter: Parameter) -> str:
    for item in reversed(metadata_of(parameter.hint)[1]):
        if isinstance(item, FieldInfo) and isinstance(item.validation_alias, str):
            return item.validation_alias
    return parameter.name


def forgiving_validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    """Returns a validator that accepts enum members by value and by name."""
    schema = forgiving(adapter.core_schema)
    try:
        # Otherwise prebuilt validators of pydantic models would replace the forgiving ones.
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # an older pydantic without this option
        return SchemaValidator(schema)
