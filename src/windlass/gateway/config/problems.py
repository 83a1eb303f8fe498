"""What is wrong with a configuration: said in words, with the place and the line."""

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Place", "Problem", "Problems", "nearest", "written"]

Place: TypeAlias = tuple[str | int, ...]
"""The names and the positions that lead to a value."""

Severity = Literal["error", "warning"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Problem(Struct, frozen=True):
    """One thing that is wrong. As a text it is a line: where, and what would be right."""

    place: str
    message: str
    severity: Severity = "error"
    line: int | None = None
    file: str | None = None
    """None if the file has nothing to do with it."""

    def __str__(self) -> str:
        where = self.file and (f"{self.file}:{self.line}" if self.line else self.file)
        kind = "warning" if self.severity == "warning" else None
        # An exception of a tool module may have several lines.
        said = " ".join(line.strip() for line in self.message.splitlines())
        return ": ".join(part for part in (where, kind, self.place, said) if part)


class Problems:
    """Collects problems."""

    def __init__(self, file: str | None, line_of: Callable[[Place], int | None]) -> None:
        self._file, self._line_of = file, line_of
        self._found: list[Problem] = []

    @property
    def found(self) -> list[Problem]:
        """Those of the file by line, then the others."""
        return sorted(self._found, key=lambda each: (each.file is None, each.line or 0))

    def add(self, place: Place, message: str, severity: Severity = "error") -> None:
        """A problem of the file, at that place in it."""
        line = self._line_of(place)
        self._found.append(Problem(written(place), message, severity, line, self._file))

    def add_outside(self, place: str, message: str, severity: Severity = "error") -> None:
        """A problem of the environment or the command line."""
        self._found.append(Problem(place, message, severity))


def written(place: Place) -> str:
    """A place as TOML would write it: `models."gpt 5".target`, `keys[0].hash`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f"{'.' if text else ''}{step if _BARE.fullmatch(step) else _quoted(step)}"
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which one was meant, or which there are."""
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; known are: {', '.join(names)}" if names else ""


def _quoted(name: str) -> str:
    return '"' + "".join(_escaped(letter) for letter in name) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\u{ord(letter):04x}"
