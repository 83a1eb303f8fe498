"""Arguments validated with a declared JSON Schema, and the check of that schema."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar, cast

import jsonschema_rs
from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind
from pydantic_core import from_json

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.jsontext import LARGE, is_larger
from windlass.schema import (
    NAMED_SCHEMAS,
    SCHEMA_LISTS,
    SINGLE_SCHEMAS,
    mapped,
    options,
    pointed_at,
)
from windlass.tool.arguments.coercion import coerced, with_defaults
from windlass.tool.arguments.problems import (
    ArgumentProblem,
    Path,
    expected,
    invalid_arguments,
    missing,
    no_alternative,
    not_an_object,
    one_of,
    unknown,
    unreadable,
)
from windlass.tool.declarations import TYPES, InvalidSchema

_BATCH_SIZE = 2_000
T = TypeVar("T")


def check_parameters(tool: str, schema: Schema, *, runs: bool) -> None:
    """Raises `InvalidSchema` unless the schema can validate arguments.

    With `runs` the tool has a function: then each reference and pattern must work, too.
    """
    if schema.get("type", "object") != "object":
        raise InvalidSchema(tool, "parameters.type", f"must be 'object', not {schema['type']!r}")
    if runs:
        validator_of(tool, schema)
    else:
        with _as_invalid_schema(tool):
            _validate(schema)
    if runs and (cycle := _endless(schema)) is not None:
        raise InvalidSchema(tool, cycle, "refers to itself without an end")


def validator_of(tool: str, schema: Schema) -> jsonschema_rs.Validator:
    """Returns a validator. Raises `InvalidSchema`, also for a reference out of the schema."""
    with _as_invalid_schema(tool):
        return jsonschema_rs.validator_for(schema, retriever=_refuse)


def _validate(schema: Schema) -> None:
    """Checks the schema; a large one level by level, so that no call into the validator is long."""
    if not is_larger(schema, LARGE):
        jsonschema_rs.meta.validate(schema)
        return
    inside: list[Schema] = []

    def set_aside(inner: Schema) -> Schema:
        inside.append(inner)
        return {}

    for level in _in_parts(mapped(schema, set_aside)):
        jsonschema_rs.meta.validate(level)
    for inner in inside:
        _validate(inner)


def _in_parts(schema: Schema) -> Iterator[Schema]:
    """Splits the schema into parts with fewer members; all are valid if the schema is."""
    rest = dict(schema)
    for key, value in schema.items():
        if isinstance(value, dict):
            members = list(cast("Schema", value).items())
            parts: list[Any] = [dict(some) for some in _batches(members)]
        elif key in SCHEMA_LISTS and isinstance(value, list):
            parts = list(_batches(cast("list[Any]", value)))
        else:
            continue
        if len(parts) > 1:
            del rest[key]
            yield from ({key: part} for part in parts)
    yield rest


def _batches(items: list[T]) -> Iterator[list[T]]:
    for place in range(0, len(items), _BATCH_SIZE):
        yield items[place : place + _BATCH_SIZE]


@contextmanager
def _as_invalid_schema(tool: str) -> Generator[None]:
    """Converts errors of the validator to `InvalidSchema`."""
    try:
        yield
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema(tool, _place(error.instance_path), _reason(error)) from None
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(tool, "parameters", str(error).partition("\n")[0]) from None


def _refuse(address: str) -> Any:
    """Refuses external references: a declaration from outside must not cause requests."""
    raise ValueError(f"the schema refers to {address}; only references inside it are allowed")


def _place(path: Sequence[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "parameters" + "".join(steps)


def _reason(error: Any) -> str:
    path = error.instance_path
    is_type = bool(path) and path[-1] == "type" and path[-2:-1] != ["properties"]
    if is_type and isinstance(error.instance, str):
        return f"unknown type {error.instance!r} (known: {', '.join(TYPES)})"
    return str(error.message).partition("\n")[0][:300]


def _endless(root: Schema) -> str | None:
    """Returns the place of a schema that refers to itself before any value is checked."""
    done: set[int] = set()

    def leads_back(schema: Schema, path: tuple[int, ...]) -> bool:
        if id(schema) in path:
            return True
        if id(schema) in done:
            return False
        found = any(leads_back(each, (*path, id(schema))) for each in _alternatives(schema, root))
        done.add(id(schema))
        return found

    for place, schema in _places(root, "parameters"):
        if leads_back(schema, ()):
            return place
    return None


def _alternatives(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yields the alternatives of the schema and of the schemas that it refers to."""
    seen: set[int] = set()
    while id(schema) not in seen:
        seen.add(id(schema))
        yield from options(schema)
        if isinstance(reference := schema.get("$ref"), str):
            schema = pointed_at(reference, root)


def _places(schema: Any, place: str) -> Iterator[tuple[str, Schema]]:
    if not isinstance(schema, dict):
        return
    fields = cast("Schema", schema)
    yield place, fields
    for key in SINGLE_SCHEMAS:
        yield from _places(fields.get(key), f"{place}.{key}")
    for key in SCHEMA_LISTS:
        for index, item in enumerate(fields.get(key) or ()):
            yield from _places(item, f"{place}.{key}[{index}]")
    for key in NAMED_SCHEMAS:
        for name, item in cast("Schema", fields.get(key) or {}).items():
            yield from _places(item, f"{place}.{key}.{name}")


# Keywords by which a schema decides about properties that it does not list.
_DECIDES_ABOUT_OTHERS = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
)


class SchemaArguments:
    """Validates the arguments of a function with a declared schema."""

    def __init__(self, name: str, schema: Schema, *, open: bool) -> None:
        """`open` means that the function accepts arguments that the schema does not list."""
        self.schema = schema
        self._name = name
        closed = not open and not any(key in schema for key in _DECIDES_ABOUT_OTHERS)
        self._checked = {**schema, "additionalProperties": False} if closed else schema

    def validate(self, json_text: str) -> dict[str, Any]:
        """Returns the arguments, repaired and with defaults. Raises `InvalidArguments`."""
        try:
            value: Any = from_json(json_text) if json_text.strip() else {}
        except (ValueError, TypeError) as error:  # TypeError: half a surrogate pair
            raise unreadable(str(error)) from None
        try:
            return self._checked_value(value)
        except RecursionError:
            raise ConfigError(f"{self._name}: the parameters refer to themselves") from None

    def _checked_value(self, value: Any) -> dict[str, Any]:
        value = coerced({} if value is None else value, {"type": "object", **self._checked})
        if not isinstance(value, dict):
            raise not_an_object(value)
        arguments: dict[str, Any] = with_defaults(value, self._checked)
        if not self._validator.is_valid(arguments):
            errors = self._validator.iter_errors(arguments)
            raise invalid_arguments(
                problem for error in errors for problem in schema_problems(error, self._checked)
            )
        return arguments

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        # For a tool without a function, the schema was checked less strictly before.
        return validator_of(self._name, self._checked)


_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def schema_problems(error: ValidationError, schema: Schema) -> list[ArgumentProblem]:
    path: Path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(property=name):
            return [missing((*path, name))]
        case Kind.AdditionalProperties(unexpected=names):
            return [unknown((*path, name), schema) for name in names]
        case Kind.UnevaluatedProperties(unexpected=names):
            return [unknown((*path, name), schema) for name in names]
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            branches = [
                [problem for inner in branch for problem in schema_problems(inner, schema)]
                for branch in context
            ]
            return no_alternative(path, branches, error.instance)
        case _:
            return [expected(path, _wanted(error), error.instance)]


def _wanted(error: ValidationError) -> str:
    match error.kind:
        case Kind.Type(types=types):
            return " or ".join(word for kind, word in _TYPES.items() if kind in types)
        case Kind.Enum(options=members):
            return one_of(members)
        case Kind.Constant(expected_value=value):
            return one_of([value])
        case Kind.Minimum(limit=limit):
            return f"at least {limit}"
        case Kind.Maximum(limit=limit):
            return f"at most {limit}"
        case Kind.ExclusiveMinimum(limit=limit):
            return f"more than {limit}"
        case Kind.ExclusiveMaximum(limit=limit):
            return f"less than {limit}"
        case Kind.MultipleOf(multiple_of=factor):
            return f"a multiple of {factor}"
        case Kind.MinLength(limit=limit):
            return f"at least {limit} characters"
        case Kind.MaxLength(limit=limit):
            return f"at most {limit} characters"
        case Kind.MinItems(limit=limit):
            return f"at least {limit} items"
        case Kind.MaxItems(limit=limit):
            return f"at most {limit} items"
        case Kind.UniqueItems():
            return "items without duplicates"
        case Kind.Pattern(pattern=pattern):
            return f"text that matches {pattern}"
        case Kind.Format(format=name):
            return f"the format {name}"
        case kind:
            return f"a value that matches the schema's {kind.name!r}"
