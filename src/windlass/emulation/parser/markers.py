"""Where markers may begin: the index of a format's openings."""

import re
from collections.abc import Iterable
from functools import lru_cache

from windlass.emulation.parser.format import Format, Head, Noise, Thoughts
from windlass.emulation.parser.pattern import MORE, More, trie

__all__ = ["FENCES", "NEWLINE", "Entry", "Index", "Markers", "markers_of"]

Entry = Head | Thoughts | Noise

NEWLINE = "\n"
FENCES = ("```", "~~~")


class Index:
    """Finds the words that openings begin with, and what begins with each."""

    def __init__(self, openings: Iterable[tuple[str, Entry]], others: Iterable[str] = ()) -> None:
        entries: dict[str, list[Entry]] = {word: [] for word in others}
        for word, entry in openings:
            entries.setdefault(word, []).append(entry)
        self._entries = {
            word: tuple(
                entry
                for shorter in sorted(entries, key=len, reverse=True)
                if word.startswith(shorter)
                for entry in entries[shorter]
            )
            for word in entries
        }
        words = self._entries or {"\0": ()}
        self._reach = max(map(len, words))
        self._word = re.compile(trie(words))
        self._beginning = re.compile(rf"(?:{trie(words, whole=False)})\Z")
        letters = re.escape("".join(sorted({word[0] for word in words})))
        self.may_begin = re.compile(f"[{letters}]").search
        """Whether a word could begin in the text: quick, and mostly no."""

    def find(self, text: str, place: int, ended: bool) -> tuple[re.Match[str] | None, int]:
        """The first word, and the place before which none begins."""
        found = self._word.search(text, place)
        if found and (ended or len(text) - found.start() >= self._reach):
            return found, found.start()
        begun = len(text) if ended else self.begun(text, place)
        if found and found.start() <= begun:
            return found, found.start()
        return None, begun

    def at(self, text: str, place: int) -> re.Match[str] | None:
        return self._word.match(text, place)

    def entries(self, word: str) -> tuple[Entry, ...]:
        return self._entries[word]

    def begun(self, text: str, place: int) -> int:
        """Where a word may have begun that the text ends in; the text's length if none has."""
        tail = max(place, len(text) - self._reach + 1)
        found = self._beginning.search(text, tail)
        return found.start() if found else len(text)

    def choose(
        self, text: str, place: int, ended: bool, entries: Iterable[Entry]
    ) -> tuple[Entry, re.Match[str]] | More | None:
        """The first entry whose opening is at the place."""
        for entry in entries:
            found = entry.opening.at(text, place, ended)
            if found is MORE:
                return MORE
            if found:
                return entry, found
        if not ended and self.begun(text, place) == place:
            return MORE
        return None


class Markers:
    def __init__(self, format: Format) -> None:
        self.inline = Index(
            [
                (first, entry)
                for entry in (*format.heads, *format.thoughts, *format.noise)
                if not (isinstance(entry, Head) and entry.line)
                for first in entry.opening.part.firsts
            ],
            [NEWLINE],
        )
        self.line = Index(
            [
                (first, head)
                for head in format.heads
                if head.line
                for first in head.opening.part.firsts
            ],
            FENCES,
        )
        self._heads = format.heads
        self._within: dict[Thoughts, Index] = {}

    def within(self, thoughts: Thoughts) -> Index:
        """What may end thoughts: their own end, or the marker of a call."""
        if thoughts not in self._within:
            self._within[thoughts] = Index(
                [
                    (first, head)
                    for head in self._heads
                    if head.trust != "declared" and not head.line
                    for first in head.opening.part.firsts
                ],
                thoughts.closing.part.firsts,
            )
        return self._within[thoughts]


@lru_cache(maxsize=64)
def markers_of(format: Format) -> Markers:
    return Markers(format)
