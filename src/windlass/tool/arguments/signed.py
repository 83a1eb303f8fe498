"""Arguments checked against a signature: pydantic in one pass, repairs only when that fails."""

import contextlib
import enum
import inspect
import json
from datetime import date, datetime
from typing import Annotated, Any, NotRequired, cast

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation
from pydantic.fields import Field, FieldInfo
from pydantic_core import SchemaError, SchemaValidator, ValidationError, from_json
from typing_extensions import TypedDict

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.schema import accepts_null, plain, referenced
from windlass.tool.arguments.coercion import coerced
from windlass.tool.arguments.generator import SchemaGenerator, forgiving, json_value
from windlass.tool.arguments.problems import invalid_arguments, not_an_object, unknown, unreadable
from windlass.tool.arguments.refusals import problems_in
from windlass.tool.hints import described_by, metadata_of
from windlass.tool.signature import MISSING, Parameter, Signature

__all__ = ["SignedArguments"]

_OPEN: ConfigDict = {
    "coerce_numbers_to_str": True,
    "validate_by_name": True,
    "validate_by_alias": True,
}
_CLOSED: ConfigDict = {**_OPEN, "extra": "forbid"}
_TYPES_OF_DEFAULTS = (bool, int, float, str, list, dict, tuple, set, date, datetime)
_NO_SCHEMA = (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    SchemaError,
    TypeError,
)


class SignedArguments:
    """The arguments of one function, as its signature has them."""

    def __init__(self, name: str, signature: Signature) -> None:
        """Raises `ConfigError`, which names the parameter, for a type without a JSON Schema."""
        adapter, self.schema = _adapter_and_schema(name, signature)
        self._hidden = signature.hidden if signature.open else frozenset[str]()
        self._validator = _validator(adapter)

    def validate(self, json_text: str) -> dict[str, Any]:
        """The keyword arguments for the function. Raises `InvalidArguments`."""
        try:
            arguments = self._validator.validate_json(json_text)
        except (ValidationError, RecursionError):
            arguments = self._repaired(json_text)
        if self._hidden and (given := self._hidden.intersection(arguments)):
            # With **kwargs any name passes; what is injected or bound is not the model's to say.
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
            raise unreadable("it is nested too deeply") from None


def _adapter_and_schema(name: str, signature: Signature) -> tuple[TypeAdapter[Any], Schema]:
    fields = {parameter.name: _field(parameter, signature) for parameter in signature.parameters}
    try:
        adapter = _fields_adapter(fields, signature.extras)
        return adapter, _schema(adapter, signature)
    except _NO_SCHEMA as error:
        for parameter, hint in fields.items():
            _refuse_without_schema(name, parameter, hint)
        raise ConfigError(f"{name}: no JSON Schema for its signature: {error}") from error


def _refuse_without_schema(name: str, parameter: str, hint: Any) -> None:
    try:
        _fields_adapter({parameter: hint}, MISSING).json_schema(schema_generator=SchemaGenerator)
    except _NO_SCHEMA as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{name}: a model cannot be told of the parameter {parameter!r}: {reason}; to hide it,"
            " write Annotated[..., Depends(...)]"
        ) from error


def _fields_adapter(fields: dict[str, Any], extras: Any) -> TypeAdapter[Any]:
    """A TypedDict takes every name that a parameter can have, and validates to the keywords."""
    more: dict[str, Any] = {} if extras is MISSING else {"extra_items": extras}
    kind = cast("Any", TypedDict)("Arguments", fields, **more)
    kind.__pydantic_config__ = _CLOSED if extras is MISSING else _OPEN
    return TypeAdapter(kind)


def _field(parameter: Parameter, signature: Signature) -> Any:
    """The parameter's type with its description, marked when the model may leave it out."""
    hint = parameter.hint
    if hint is MISSING:
        hint = _type_of_default(parameter.default)
    bare, metadata = metadata_of(hint)
    if isinstance(parameter.default, FieldInfo):
        metadata = (*metadata, parameter.default)
    # pydantic lets the last word count: what stands nearest to the parameter.
    if said := signature.docstring.parameters.get(parameter.name):
        metadata = (Field(description=said), *metadata)
    if said := described_by(hint):
        metadata = (*metadata, Field(description=inspect.cleandoc(said)))
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


def _validator(adapter: TypeAdapter[Any]) -> SchemaValidator:
    schema = forgiving(adapter.core_schema)
    try:
        # Validators that models bring along would take the place of the forgiving ones.
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # a pydantic without the switch
        return SchemaValidator(schema)
