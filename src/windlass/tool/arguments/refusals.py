"""pydantic's errors as problems: places as JSON has them, expectations in a model's words."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from pydantic_core import ErrorDetails, ValidationError

from windlass.content import Schema
from windlass.schema import schema_at
from windlass.tool.arguments.problems import (
    Path,
    Problem,
    expected,
    missing,
    no_alternative,
    one_of,
    shown,
    unknown,
)

__all__ = ["problems_in"]

_MISSING = (
    "missing",
    "missing_argument",
    "missing_keyword_only_argument",
    "missing_positional_only_argument",
)
_UNKNOWN = (
    "extra_forbidden",
    "unexpected_keyword_argument",
    "unexpected_positional_argument",
)
_WANTED = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "bytes_too_short": "at least {min_length} bytes",
    "bytes_too_long": "at most {max_length} bytes",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "finite_number": "a finite number",
    "none_required": "null",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "mapping_type": "an object",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "arguments_type": "an object",
    "named_tuple_type": "an object",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "iterable_type": "an array",
    "set_item_not_hashable": "an item that is no array or object",
    "union_tag_invalid": "{discriminator} to be one of {expected_tags}",
    "union_tag_not_found": "an object with {discriminator}",
}
# By what the type of the error begins with; pydantic has several for each.
_WANTED_KINDS = {
    "int_": "an integer",
    "float_": "a number",
    "decimal_": "a number",
    "bool_": "true or false",
    "string_": "a string",
    "bytes_": "a string",
    "datetime_": "a date and time such as 2025-01-31T12:00:00Z",
    "timezone_": "a date and time such as 2025-01-31T12:00:00Z",
    "date_": "a date such as 2025-01-31",
    "time_delta_": "a duration such as PT1H30M",
    "time_": "a time such as 12:30:00",
    "uuid_": "a UUID",
    "url_": "a URL",
    "path_": "a path",
}


class _Located(NamedTuple):
    """An error at its place; `union` is where its path entered an alternative, named `branch`."""

    problem: Problem
    union: Path | None
    branch: str


def problems_in(error: ValidationError, value: Any, schema: Schema) -> Iterator[Problem]:
    """What pydantic found wrong with the value. All alternatives of a union make one problem."""
    unions: dict[Path, dict[str, list[Problem]]] = {}
    for details in error.errors(include_url=False):
        located = _located(details, value, schema)
        if located.union is None:
            yield located.problem
        else:
            branches = unions.setdefault(located.union, {})
            branches.setdefault(located.branch, []).append(located.problem)
    for path, branches in unions.items():
        yield from no_alternative(path, list(branches.values()), _found(value, path))


def _located(details: ErrorDetails, value: Any, schema: Schema) -> _Located:
    """Follows the error into the value. A step that leads nowhere names an alternative instead."""
    steps = details["loc"]
    leaf = details["type"] in _MISSING
    path: Path = ()
    union: Path | None = None
    branch = ""
    place: Any = value
    for index, step in enumerate(steps):
        last = index == len(steps) - 1
        if (leaf and last) or _has(place, step):
            path = (*path, step)
            place = None if leaf and last else place[step]
        elif step != "[key]" and union is None:
            union, branch = path, str(step)
    return _Located(_problem(details, path, schema), union, branch)


def _problem(details: ErrorDetails, path: Path, schema: Schema) -> Problem:
    kind = details["type"]
    got = details["input"]
    if kind in _MISSING:
        return missing(path)
    if kind in _UNKNOWN:
        return unknown(path, schema)
    if kind in ("value_error", "assertion_error"):
        # What the author of a validator says, without pydantic's "Value error, ".
        said = details["msg"].partition(", ")[2] or details["msg"]
        return Problem(path, f"{said}, got {shown(got)}")
    wanted = _wanted(details, path, schema)
    if details["loc"] and details["loc"][-1] == "[key]":
        wanted = f"a key that is {wanted}"
    return expected(path, wanted, got)


def _wanted(details: ErrorDetails, path: Path, schema: Schema) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in ("enum", "literal_error"):
        members = schema_at(schema, path).get("enum")
        return one_of(members) if members else str(context.get("expected"))
    if kind in _WANTED:
        return _WANTED[kind].format_map({key: _short(item) for key, item in context.items()})
    for start, wanted in _WANTED_KINDS.items():
        if kind.startswith(start):
            return wanted
    return details["msg"].removeprefix("Input should be ").replace(" a valid ", " a ")


def _short(limit: Any) -> Any:
    """0 rather than 0.0"""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _has(place: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(place, list) and step < len(cast("list[Any]", place))
    return isinstance(place, dict) and step in place


def _found(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
