"""Problems with arguments, as messages that a model can act on.

`problems_in` converts pydantic's errors: to paths in the JSON, and to expectations in plain words.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic_core import ErrorDetails, ValidationError

from windlass.content import Schema
from windlass.errors import InvalidArguments
from windlass.jsontext import compact_json
from windlass.schema import schema_at

Path: TypeAlias = tuple[str | int, ...]

_MAX_PROBLEMS = 10
_MAX_VALUE_CHARS = 60


class ArgumentProblem(NamedTuple):
    path: Path
    text: str
    wanted: str = ""
    """The expected value at this path, if the given one is wrong."""

    def __str__(self) -> str:
        return f"{written(self.path)}: {self.text}" if self.path else self.text


def written(path: Sequence[str | int]) -> str:
    """`items[2].price`"""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """Returns the value as text, shortened to keep the message readable."""
    text = repr(value) if isinstance(value, str) else compact_json(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 3]}..."


def one_of(members: Iterable[Any]) -> str:
    listed = [shown(member) for member in members]
    return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"


def expected(path: Path, wanted: str, got: Any) -> ArgumentProblem:
    return ArgumentProblem(path, f"expected {wanted}, got {shown(got)}", wanted)


def missing(path: Path) -> ArgumentProblem:
    return ArgumentProblem(path, "required, but missing")


def unknown(path: Path, schema: Schema) -> ArgumentProblem:
    """Returns the problem of an unknown argument, with the known names."""
    names: list[str] = list(schema_at(schema, path[:-1]).get("properties", {}))
    known = f"; known: {', '.join(names)}" if names else "; it takes none" if len(path) == 1 else ""
    return ArgumentProblem(path, f"no such argument{known}")


def no_alternative(
    path: Path, branches: Sequence[Sequence[ArgumentProblem]], got: Any
) -> list[ArgumentProblem]:
    """Returns why no alternative matches. Only the alternatives that nearly match are listed."""
    close = [
        branch
        for branch in branches
        if any(not item.wanted or item.path != path for item in branch)
    ]
    if not close:
        wanted = dict.fromkeys(item.wanted for branch in branches for item in branch)
        return [expected(path, " or ".join(wanted), got)]
    if len(close) == 1:
        return list(close[0])
    reasons = " | ".join("; ".join(str(problem) for problem in branch) for branch in close)
    return [ArgumentProblem(path, f"fits none of its {len(close)} alternatives: {reasons}")]


def unreadable(reason: str) -> InvalidArguments:
    return InvalidArguments(f"the arguments are not valid JSON: {reason}")


def not_an_object(value: Any) -> InvalidArguments:
    return InvalidArguments(f"the arguments must be a JSON object, got {shown(value)}")


def invalid_arguments(problems: Iterable[ArgumentProblem]) -> InvalidArguments:
    """Returns the error that the model sees."""
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    if len(lines) > _MAX_PROBLEMS:
        lines = [*lines[:_MAX_PROBLEMS], f"... and {len(lines) - _MAX_PROBLEMS} more"]
    return InvalidArguments("\n".join(lines))


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
    "set_item_not_hashable": "an item that is not an array or object",
    "union_tag_invalid": "{discriminator} to be one of {expected_tags}",
    "union_tag_not_found": "an object with {discriminator}",
}
# By the prefix of the error's type; pydantic has several types for each.
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
    """An error with its path; `union` is where the path entered the alternative `branch`."""

    problem: ArgumentProblem
    union: Path | None
    branch: str


def problems_in(error: ValidationError, value: Any, schema: Schema) -> Iterator[ArgumentProblem]:
    """Yields pydantic's errors as problems. All alternatives of a union make one problem."""
    unions: dict[Path, dict[str, list[ArgumentProblem]]] = {}
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
    """Follows the error's path in the value. A step that is not in the value is an alternative."""
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


def _problem(details: ErrorDetails, path: Path, schema: Schema) -> ArgumentProblem:
    kind = details["type"]
    got = details["input"]
    if kind in _MISSING:
        return missing(path)
    if kind in _UNKNOWN:
        return unknown(path, schema)
    if kind in ("value_error", "assertion_error"):
        # The validator's own message, without pydantic's "Value error, ".
        message = details["msg"].partition(", ")[2] or details["msg"]
        return ArgumentProblem(path, f"{message}, got {shown(got)}")
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
    """Returns 0 for 0.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _has(place: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(place, list) and step < len(cast("list[Any]", place))
    return isinstance(place, dict) and step in place


def _found(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
