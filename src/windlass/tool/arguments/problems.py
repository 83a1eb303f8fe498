"""What is wrong with a model's arguments, in words that it can act on: a line for each problem."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from windlass.content import Schema
from windlass.errors import InvalidArguments
from windlass.jsontext import compact_json
from windlass.schema import schema_at

__all__ = [
    "Path",
    "Problem",
    "expected",
    "invalid_arguments",
    "missing",
    "no_alternative",
    "not_an_object",
    "one_of",
    "shown",
    "unknown",
    "unreadable",
]

Path: TypeAlias = tuple[str | int, ...]

_MOST_SHOWN = 10
_LONGEST_VALUE = 60


class Problem(NamedTuple):
    path: Path
    text: str
    wanted: str = ""
    """What was expected in this very place, if that is the problem."""

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
    """The value as the model may recognise it, cut to a size that does not bury the message."""
    text = repr(value) if isinstance(value, str) else compact_json(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def one_of(members: Iterable[Any]) -> str:
    listed = [shown(member) for member in members]
    return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"


def expected(path: Path, wanted: str, got: Any) -> Problem:
    return Problem(path, f"expected {wanted}, got {shown(got)}", wanted)


def missing(path: Path) -> Problem:
    return Problem(path, "required, but missing")


def unknown(path: Path, schema: Schema) -> Problem:
    """An argument of a name that does not exist; tells the names that do."""
    names: list[str] = list(schema_at(schema, path[:-1]).get("properties", {}))
    known = f"; known: {', '.join(names)}" if names else "; it takes none" if len(path) == 1 else ""
    return Problem(path, f"no such argument{known}")


def no_alternative(path: Path, branches: Sequence[Sequence[Problem]], got: Any) -> list[Problem]:
    """Each branch says why one alternative does not fit; only those that come close are told."""
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
    return [Problem(path, f"fits none of its {len(close)} alternatives: {reasons}")]


def unreadable(reason: str) -> InvalidArguments:
    return InvalidArguments(f"the arguments are not valid JSON: {reason}")


def not_an_object(value: Any) -> InvalidArguments:
    return InvalidArguments(f"the arguments must be a JSON object, got {shown(value)}")


def invalid_arguments(problems: Iterable[Problem]) -> InvalidArguments:
    """The error that the model reads."""
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    if len(lines) > _MOST_SHOWN:
        lines = [*lines[:_MOST_SHOWN], f"... and {len(lines) - _MOST_SHOWN} more"]
    return InvalidArguments("\n".join(lines))
