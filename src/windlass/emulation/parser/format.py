"""The table of a format, and the index of its markers.

A `Format` lists how calls and thoughts start and end. `Markers` finds its openings in text.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import Match
from typing import Protocol

from windlass.emulation.parser.call import CallReading, Trust
from windlass.emulation.parser.pattern import MORE, More, Pattern, PatternPart, alt, trie
from windlass.emulation.parser.source import Step


class Body(Protocol):
    """Reads the calls after a marker."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]: ...


@dataclass(frozen=True, slots=True, eq=False)
class CallHead:
    """How a call starts. `ends` are markers that may follow each call."""

    opening: Pattern
    body: Body
    ends: Pattern | None = None
    trust: Trust = "marked"
    line: bool = False
    """Only at the start of a line."""
    fence: bool = False
    """Opens a fenced block: if it is not a call, the following text is code."""


@dataclass(frozen=True, slots=True, eq=False)
class Thoughts:
    """How thoughts start and end."""

    opening: Pattern
    closing: Pattern
    label: Pattern | None = None
    """A word after the opening that is not part of the thought."""
    plain: bool = False
    """The marker may occur in prose, so it counts only at the start of a block."""
    line: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """A token that is neither text nor a call. The parser drops it."""

    opening: Pattern
    line: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    name: str
    heads: tuple[CallHead, ...] = ()
    thoughts: tuple[Thoughts, ...] = ()
    noise: tuple[Noise, ...] = ()


def ends(*texts: PatternPart | str) -> Pattern:
    return Pattern(alt(*texts))


Entry = CallHead | Thoughts | Noise
Hit = tuple[Entry, re.Match[str]]
Allowed = Callable[[Entry, re.Match[str] | More], bool]
"""Whether a complete or incomplete opening may count."""

NEWLINE = "\n"
FENCES = ("```", "~~~")
_NEVER = "\0"
"""A word that never occurs, for formats without openings inside lines."""


class Openings:
    """The openings that start with one word, with one regular expression for all of them."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        patterns = [entry.opening for entry in entries]
        self._reach = max((pattern.part.reach for pattern in patterns), default=0)
        self._any = re.compile("|".join(pattern.bare for pattern in patterns) or "(?!)")
        begun = "|".join(pattern.bare_prefix for pattern in patterns) or "(?!)"
        self._begun = re.compile(rf"(?:{begun})\Z")

    def are_likely(self, text: str, place: int, ended: bool) -> bool:
        if self._any.match(text, place):
            return True
        near = not ended and len(text) - place < self._reach
        return near and self._begun.match(text, place) is not None


class Index:
    """Finds openings by the words that they start with.

    `others` are words that open nothing; `besides` is one more regular expression to find.
    """

    def __init__(
        self, openings: Iterable[tuple[str, Entry]], others: Iterable[str], besides: str = ""
    ) -> None:
        self._entries: dict[str, list[Entry]] = {word: [] for word in others}
        for word, entry in openings:
            self._entries.setdefault(word, []).append(entry)
        self._openings: dict[str, Openings] = {}
        self._reach = max(map(len, self._entries))
        self._word = re.compile("|".join(filter(None, (trie(self._entries), besides))))
        self._beginning = re.compile(rf"(?:{trie(self._entries, whole=False)})\Z")
        self.letters = f"[{re.escape(''.join(sorted({word[0] for word in self._entries})))}]"
        self._letter = re.compile(self.letters)
        self.may_begin = re.compile("|".join(filter(None, (self.letters, besides))))
        """Finds a character that may start a word: a quick check, which mostly fails."""

    def _beginning_with(self, word: str) -> list[Entry]:
        """Returns the openings of the word, then those of its prefixes of two or more letters."""
        shorter = [each for each in self._entries if len(each) > 1 and word.startswith(each)]
        words = dict.fromkeys((word, *sorted(shorter, key=len, reverse=True)))
        return [entry for each in words for entry in self._entries.get(each, ())]

    def find(self, text: str, place: int, ended: bool) -> tuple[re.Match[str] | None, int]:
        """Returns the first word, and the place up to which no word starts."""
        found = self._word.search(text, place)
        if found and (ended or len(text) - found.start() >= self._reach):
            return found, found.start()
        if found and not self._letter.search(text, place, found.start()):
            return found, found.start()
        begun = len(text) if ended else self._begun(text, place)
        if found and found.start() <= begun:
            return found, found.start()
        return None, begun

    def _begun(self, text: str, place: int) -> int:
        """Returns where an incomplete word at the end of the text starts, or the text's length."""
        found = self._beginning.search(text, max(place, len(text) - self._reach + 1))
        return found.start() if found else len(text)

    def at(self, text: str, place: int) -> str:
        """Returns the word at the place, or an empty string."""
        found = self._word.match(text, place)
        return found.group() if found else ""

    def is_likely(self, text: str, place: int, ended: bool, word: str) -> bool:
        """Whether an opening may start at the word. This check is quick."""
        openings = self._openings.get(word)
        if openings is None:
            openings = self._openings[word] = Openings(self._beginning_with(word))
        return openings.are_likely(text, place, ended) or self._has_begun(text, place, ended)

    def hit(
        self, text: str, place: int, ended: bool, word: str, allowed: Allowed
    ) -> Hit | More | None:
        """Returns the first allowed opening at the word; None if there is none."""
        if not self.is_likely(text, place, ended, word):
            return None
        for entry in self._openings[word].entries:
            found = entry.opening.at(text, place, ended)
            if found and allowed(entry, found):
                return MORE if found is MORE else (entry, found)
        return MORE if self._has_begun(text, place, ended) else None

    def _has_begun(self, text: str, place: int, ended: bool) -> bool:
        """Whether more text could complete a word at the place."""
        if ended or len(text) - place >= self._reach:
            return False
        return place == len(text) or self._beginning.match(text, place) is not None


class Markers:
    """The indexes of one format's openings: at the start of a line, and inside lines."""

    def __init__(self, format: Format) -> None:
        entries: tuple[Entry, ...] = (*format.heads, *format.thoughts, *format.noise)
        self.line = Index(_openings(entry for entry in entries if entry.line), FENCES)
        self.inline = Index(
            _openings(entry for entry in entries if not entry.line),
            [_NEVER],
            rf"{NEWLINE}(?=[ \t]{{0,40}}(?:{self.line.letters}|\Z))",
        )
        self._explicit = [head for head in format.heads if head.trust != "declared"]
        self._within: dict[Thoughts, Index] = {}

    def within(self, thoughts: Thoughts) -> Index:
        """Returns the index of markers that may end the thoughts: their own end, or a call."""
        if thoughts not in self._within:
            openings = _openings(head for head in self._explicit if not head.line)
            self._within[thoughts] = Index(openings, thoughts.closing.part.firsts)
        return self._within[thoughts]


def _openings(entries: Iterable[Entry]) -> list[tuple[str, Entry]]:
    return [(first, entry) for entry in entries for first in entry.opening.part.firsts]


@lru_cache(maxsize=128)
def markers_of(format: Format) -> Markers:
    return Markers(format)
