"""Errors and warnings about a configuration, with their setting, file and line."""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from windlass.errors import ConfigError

ConfigPath: TypeAlias = tuple[str | int, ...]
"""The path of a value in the file: names of tables and settings, positions in lists."""

Severity = Literal["error", "warning"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class ConfigProblem(Struct, frozen=True):
    """One error or warning. `str()` is one line: `file:line: place: message`."""

    place: str
    message: str
    severity: Severity = "error"
    line: int | None = None
    file: str | None = None
    """None for a problem of the environment or the command line."""

    def __str__(self) -> str:
        where = self.file and (f"{self.file}:{self.line}" if self.line else self.file)
        kind = "warning" if self.severity == "warning" else None
        # The message of a tool module's exception may have several lines.
        message = " ".join(line.strip() for line in self.message.splitlines())
        return ": ".join(part for part in (where, kind, self.place, message) if part)


def raise_errors(problems: Iterable[ConfigProblem]) -> None:
    """Raises `ConfigError` with all errors, one per line."""
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise ConfigError("\n".join(map(str, errors)))


class ConfigProblems:
    """Collects problems."""

    def __init__(self, file: str | None, line_of: Callable[[ConfigPath], int | None]) -> None:
        self._file, self._line_of = file, line_of
        self._found: list[ConfigProblem] = []

    @property
    def found(self) -> list[ConfigProblem]:
        """The problems of the file by line, then the others."""
        return sorted(self._found, key=lambda found: (found.file is None, found.line or 0))

    def add(self, place: ConfigPath, message: str, severity: Severity = "error") -> None:
        """Adds a problem at a place in the file."""
        line = self._line_of(place)
        self._found.append(ConfigProblem(toml_path(place), message, severity, line, self._file))

    def add_outside(self, place: str, message: str, severity: Severity = "error") -> None:
        """Adds a problem of the environment or the command line."""
        self._found.append(ConfigProblem(place, message, severity))


def toml_path(place: ConfigPath) -> str:
    """A place in TOML notation: `models."gpt 5".target`, `keys[0].hash`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f"{'.' if text else ''}{step if _BARE.fullmatch(step) else _quoted(step)}"
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: suggests a similar name, or lists all names."""
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f" (did you mean {near[0]!r}?)"
    return f" (known: {', '.join(names)})" if names else ""


def _quoted(name: str) -> str:
    return '"' + "".join(_escaped(char) for char in name) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\u{ord(char):04x}"


class LineNumbers:
    """The line numbers of a text that is valid TOML."""

    def __init__(self, text: str) -> None:
        self._first: dict[ConfigPath, int] = {}
        self._counts: dict[ConfigPath, int] = {}  # tables of each [[list]]
        table: ConfigPath = ()
        for line, statement, is_header in _statements(text):
            if is_header:
                table = self._table(statement)
                self._note(table, line)
            else:
                for place in _places(statement):
                    self._note((*table, *place), line)

    def of(self, place: ConfigPath) -> int | None:
        """The line of the value, or of the innermost table or list around it."""
        for end in range(len(place), 0, -1):
            if (line := self._first.get(place[:end])) is not None:
                return line
        return None

    def _note(self, place: ConfigPath, line: int) -> None:
        for end in range(1, len(place) + 1):
            self._first.setdefault(place[:end], line)

    def _table(self, header: dict[str, Any]) -> ConfigPath:
        """The place of a table header. Each `[[list]]` header starts the next table of its list."""
        place: ConfigPath = ()
        value: Any = header
        while isinstance(value, dict) and value:
            name, value = next(iter(cast("dict[str, Any]", value).items()))
            place = (*place, name)
            if isinstance(value, list):
                position = self._counts.get(place, 0)
                self._counts[place] = position + 1
                return (*place, position)
        return place


def _statements(text: str) -> Iterator[tuple[int, dict[str, Any], bool]]:
    """Each statement with its first line, and whether it is a table's header.

    A statement ends with the first line that makes it valid TOML by itself.
    """
    # `splitlines` splits at characters that are no line ends in TOML.
    lines = text.split("\n")
    start = 0
    for end in range(1, len(lines) + 1):
        try:
            statement = tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        if statement:
            yield start + 1, statement, lines[start].lstrip().startswith("[")
        start = end


def _places(value: Any, outer: ConfigPath = ()) -> Iterator[ConfigPath]:
    if outer:
        yield outer
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _places(inner, (*outer, name))
    elif isinstance(value, list):
        for position, inner in enumerate(cast("list[Any]", value)):
            yield from _places(inner, (*outer, position))
