"""What a format is: a table of markers, and of how names and arguments are written between them."""

from dataclasses import dataclass
from re import Match
from typing import Protocol

from windlass.emulation.parser.call import Reading
from windlass.emulation.parser.declared import Trust
from windlass.emulation.parser.pattern import Part, Pattern, alt
from windlass.emulation.parser.source import Step

__all__ = ["Body", "Format", "Head", "Noise", "Thoughts", "ends"]


class Body(Protocol):
    """Reads what follows a marker: one call or several."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A way in which calls begin. `ends` may follow each call and belong to it."""

    opening: Pattern
    body: Body
    ends: Pattern | None = None
    trust: Trust = "marked"
    line: bool = False
    """Only at the beginning of a line."""
    fence: bool = False
    """Begins a fenced block: if it is no call, what follows is code."""


@dataclass(frozen=True, slots=True, eq=False)
class Thoughts:
    opening: Pattern
    closing: Pattern
    label: Pattern | None = None
    """A word after the opening that is not a thought."""
    plain: bool = False
    """Prose might hold the marker: it counts only where a block can begin."""
    line: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """A token that is neither text nor call."""

    opening: Pattern
    line: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    name: str
    heads: tuple[Head, ...] = ()
    thoughts: tuple[Thoughts, ...] = ()
    noise: tuple[Noise, ...] = ()


def ends(*texts: Part | str) -> Pattern:
    return Pattern(alt(*texts))
