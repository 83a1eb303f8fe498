"""Arguments checked against a JSON Schema that came with a declaration."""

from functools import cached_property
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind
from pydantic_core import from_json

from windlass.content import Schema
from windlass.errors import ConfigError
from windlass.tool.arguments.checking import validator_of
from windlass.tool.arguments.coercion import coerced, with_defaults
from windlass.tool.arguments.problems import (
    Path,
    Problem,
    expected,
    invalid_arguments,
    missing,
    no_alternative,
    not_an_object,
    one_of,
    unknown,
    unreadable,
)

__all__ = ["DeclaredArguments"]

# With one of these the schema itself speaks of properties that it does not list.
_SPEAKS_OF_OTHERS = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
)


class DeclaredArguments:
    """The arguments of a function that was declared apart from its code."""

    def __init__(self, name: str, schema: Schema, *, open: bool) -> None:
        """`open`: the function takes arguments that the schema does not list."""
        self.schema = schema
        self._name = name
        closed = not open and not any(key in schema for key in _SPEAKS_OF_OTHERS)
        self._checked = {**schema, "additionalProperties": False} if closed else schema

    def validate(self, json_text: str) -> dict[str, Any]:
        """The arguments, coerced and complete. Raises `InvalidArguments`."""
        try:
            value: Any = from_json(json_text) if json_text.strip() else {}
        except (ValueError, TypeError) as error:  # TypeError: half a surrogate pair
            raise unreadable(str(error)) from None
        try:
            return self._checked_value(value)
        except RecursionError:
            raise ConfigError(f"{self._name}: its parameters refer to themselves") from None

    def _checked_value(self, value: Any) -> dict[str, Any]:
        value = coerced({} if value is None else value, {"type": "object", **self._checked})
        if not isinstance(value, dict):
            raise not_an_object(value)
        arguments: dict[str, Any] = with_defaults(value, self._checked)
        if not self._validator.is_valid(arguments):
            errors = self._validator.iter_errors(arguments)
            raise invalid_arguments(
                problem for error in errors for problem in _problems(error, self._checked)
            )
        return arguments

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        # A tool that is only declared was not checked as far as this.
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


def _problems(error: ValidationError, schema: Schema) -> list[Problem]:
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
                [problem for inner in branch for problem in _problems(inner, schema)]
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
            return "items that all differ"
        case Kind.Pattern(pattern=pattern):
            return f"text that matches {pattern}"
        case Kind.Format(format=name):
            return f"the format {name}"
        case kind:
            return f"something that fits the schema's {kind.name!r}"
