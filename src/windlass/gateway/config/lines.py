"""The line numbers of values in a TOML file, which `tomllib` does not report."""

import tomllib
from collections.abc import Iterator
from typing import Any, cast

from windlass.gateway.config.problems import Place


class Lines:
    """The line numbers of a text that is valid TOML."""

    def __init__(self, text: str) -> None:
        self._first: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}  # tables of each [[list]]
        table: Place = ()
        for line, statement, is_header in _statements(text):
            if is_header:
                table = self._table(statement)
                self._note(table, line)
            else:
                for place in _places(statement):
                    self._note((*table, *place), line)

    def of(self, place: Place) -> int | None:
        """The line of the value, or of the innermost table or list around it."""
        for end in range(len(place), 0, -1):
            if (line := self._first.get(place[:end])) is not None:
                return line
        return None

    def _note(self, place: Place, line: int) -> None:
        for end in range(1, len(place) + 1):
            self._first.setdefault(place[:end], line)

    def _table(self, header: dict[str, Any]) -> Place:
        """The place of a header; each `[[list]]` header is the next table of its list."""
        place: Place = ()
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


def _places(value: Any, outer: Place = ()) -> Iterator[Place]:
    if outer:
        yield outer
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _places(inner, (*outer, name))
    elif isinstance(value, list):
        for position, inner in enumerate(cast("list[Any]", value)):
            yield from _places(inner, (*outer, position))
