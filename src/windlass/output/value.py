"""A type of answers: its JSON Schema, and the value of an answer's text."""

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

import jsonschema_rs
import msgspec
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError, from_json

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.jsontext import encode_json
from windlass.output.spec import (
    VALUE,
    Accepted,
    OutputSpec,
    Rejected,
    closed,
    in_object,
    is_object,
    schema_name,
)
from windlass.schema import plain
from windlass.tool.arguments.problems import problems_in
from windlass.tool.arguments.schema_validation import schema_problems, validator_of
from windlass.tool.arguments.signature_validation import (
    NO_SCHEMA,
    SchemaGenerator,
    forgiving_validator,
)

_MAX_CACHED_TYPES = 256
_MAX_ERRORS = 10
_NOT_JSON = "the answer is not valid JSON"


class InvalidValue(Exception):
    """A value does not match its type; `errors` says where."""

    def __init__(self, errors: Iterable[object]) -> None:
        super().__init__()
        self.errors = _listed(errors)


class _Validation(Protocol):
    """Validates JSON. The schema is the plain one of the value itself, never of a wrapper."""

    schema: Schema

    def value(self, data: bytes) -> Any:
        """Raises `InvalidValue`, also if the text is not JSON."""
        ...


class OutputType:
    """A type of answers. Use `output_type`, which caches the types."""

    def __init__(self, hint: Any, name: str, validation: _Validation, *, derived: bool) -> None:
        self.hint = hint
        """The Python type; a JSON Schema if it has none."""
        self._validation = validation
        schema = closed(validation.schema) if derived else validation.schema
        wrapped = not is_object(schema)
        self.spec = OutputSpec(
            schema=in_object(schema) if wrapped else schema,
            name=name,
            wrapped=wrapped,
            derived=derived,
        )

    def read(self, text: str) -> Accepted[Any] | Rejected:
        """Returns the value of an answer's text, or what is wrong with it."""
        text = text.strip()
        if not text:
            return Rejected(("the answer is empty",))
        try:
            if not self.spec.wrapped:
                return Accepted(self._validation.value(text.encode("utf-8", "replace")))
            return self._unwrapped(text)
        except InvalidValue as error:
            return Rejected(error.errors)

    def stored(self, text: str) -> Any:
        """Returns the JSON value of a text that was accepted before."""
        value = _json_value(text)
        return value[VALUE] if self.spec.wrapped and _is_wrapper(value) else value

    def _unwrapped(self, text: str) -> Accepted[Any]:
        """Accepts the value in its wrapper, without it, and a string also without quotes."""
        failure: InvalidValue | None = None
        for candidate in _candidates(text):
            try:
                return Accepted(self._validation.value(encode_json(candidate)))
            except InvalidValue as error:
                failure = failure or error
        assert failure is not None
        raise failure


def _candidates(text: str) -> Iterator[Any]:
    try:
        value = from_json(text)
    except (ValueError, TypeError):
        pass
    else:
        if _is_wrapper(value):
            yield value[VALUE]
        yield value
    yield text


def _is_wrapper(value: Any) -> bool:
    return isinstance(value, dict) and len(cast("Schema", value)) == 1 and VALUE in value


def _parsed(data: bytes) -> Any:
    """Raises `InvalidValue` if the text is not JSON."""
    try:
        return from_json(data)
    except (ValueError, TypeError) as error:  # TypeError: half a surrogate pair
        raise InvalidValue([f"{_NOT_JSON}: {error}"]) from None


def _json_value(text: str) -> Any:
    try:
        return from_json(text.strip())
    except (ValueError, TypeError):
        return text


def output_type(given: Any) -> OutputType:
    """Returns the type of answers for a Python type or a JSON Schema.

    Raises `ConfigError` if it has no JSON Schema.
    """
    if isinstance(given, OutputType):
        return given
    if isinstance(given, Mapping):
        return _of_schema(encode_json(dict(cast("Mapping[str, Any]", given))))
    try:
        return _of_hint(given)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _of_hint.__wrapped__(given)


def stored_type(spec: OutputSpec) -> OutputType:
    """Returns the type of a stored run, whose values are JSON values."""
    if not spec.wrapped:
        return output_type(spec.schema)
    definitions = {"$defs": spec.schema["$defs"]} if "$defs" in spec.schema else {}
    return output_type({**spec.schema["properties"][VALUE], **definitions})


@functools.lru_cache(_MAX_CACHED_TYPES)
def _of_schema(encoded: bytes) -> OutputType:
    schema: Schema = msgspec.json.decode(encoded)
    title = schema.get("title")
    name = schema_name(title if isinstance(title, str) else "answer")
    return OutputType(schema, name, _SchemaValidation(schema), derived=False)


@functools.lru_cache(_MAX_CACHED_TYPES)
def _of_hint(hint: Any) -> OutputType:
    name = schema_name(getattr(hint, "__name__", "") if isinstance(hint, type) else "")
    return OutputType(hint, name, _validation_of(hint), derived=True)


def _validation_of(hint: Any) -> _Validation:
    """Uses msgspec for types that pydantic cannot read, such as its own structs."""
    if isinstance(hint, str | types.FunctionType | types.MethodType):
        raise ConfigError(f"output: {hint!r} is not a type")
    try:
        return _PydanticValidation(hint)
    except NO_SCHEMA as problem:
        try:
            return _MsgspecValidation(hint)
        except TypeError:
            reason = str(problem).partition("\n")[0]
            raise ConfigError(f"output: {hint!r} has no JSON Schema: {reason}") from problem


class _PydanticValidation:
    """Pydantic models, dataclasses, TypedDicts, enums, and all types that pydantic knows."""

    def __init__(self, hint: Any) -> None:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        self.schema = plain(adapter.json_schema(schema_generator=SchemaGenerator))
        self._validator: SchemaValidator = forgiving_validator(adapter)

    def value(self, data: bytes) -> Any:
        try:
            return self._validator.validate_json(data)
        except ValidationError as error:
            raise InvalidValue(problems_in(error, _parsed(data), self.schema)) from None
        except RecursionError:
            raise InvalidValue([f"{_NOT_JSON}: nested too deeply"]) from None


class _MsgspecValidation:
    """msgspec's structs, and standard TypedDicts before Python 3.12."""

    def __init__(self, hint: Any) -> None:
        """Raises `TypeError` for a type that msgspec does not support."""
        self.schema = plain(msgspec.json.schema(hint))
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hint, strict=False)
        self._validator = validator_of("output", self.schema)

    def value(self, data: bytes) -> Any:
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            # msgspec reports the first error only.
            found = _schema_errors(self._validator, _parsed(data), self.schema)
            raise InvalidValue(found or [error]) from None


class _SchemaValidation:
    """A JSON Schema. The value is a JSON value."""

    def __init__(self, schema: Schema) -> None:
        """Raises `InvalidSchema`."""
        self.schema = schema
        self._validator = validator_of("output", schema or {"type": "object"})

    def value(self, data: bytes) -> Any:
        value = _parsed(data)
        if not self._validator.is_valid(value):
            raise InvalidValue(_schema_errors(self._validator, value, self.schema))
        return value


def _schema_errors(validator: jsonschema_rs.Validator, value: Any, schema: Schema) -> list[object]:
    return [
        problem
        for error in validator.iter_errors(value)
        for problem in schema_problems(error, schema)
    ]


def _listed(errors: Iterable[object]) -> tuple[str, ...]:
    # The texts are shared with the arguments of tools.
    lines = [str(each).replace("no such argument", "no such field") for each in errors]
    lines = list(dict.fromkeys(lines)) or ["the answer does not match the schema"]
    if len(lines) > _MAX_ERRORS:
        lines = [*lines[:_MAX_ERRORS], f"... and {len(lines) - _MAX_ERRORS} more"]
    return tuple(lines)
