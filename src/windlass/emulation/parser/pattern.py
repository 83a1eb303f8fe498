"""Patterns that know whether more text could complete a match.

A stream may split a marker. So each part of a pattern has two regular expressions: one for the
whole match, and one for the start of a match. Combined parts have both, too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final


class More(Enum):
    """The text is the start of a match; more text is needed."""

    MORE = "more"


MORE: Final = More.MORE
Found = re.Match[str] | More | None


@dataclass(frozen=True, slots=True)
class PatternPart:
    full: str
    prefix: str
    """Matches every start of a match that is not empty."""
    firsts: tuple[str, ...] = ()
    """The literal texts that a match can start with."""
    empty: bool = False
    """Whether the empty text matches."""
    exact: bool = False
    """Whether `firsts` are the only matches."""
    final: bool = False
    """Whether more text cannot make a match longer."""
    reach: int = 0
    """The maximum number of characters that decide whether there is a match."""


_MAX_FIRSTS = 12
_GROUP = re.compile(r"\(\?P<\w+>")


def _part(part: "PatternPart | str") -> PatternPart:
    return lit(part) if isinstance(part, str) else part


def lit(text: str) -> PatternPart:
    letters = [re.escape(letter) for letter in text]
    prefix = letters[-1]
    for letter in reversed(letters[:-1]):
        prefix = f"{letter}(?:{prefix})?"
    return PatternPart(re.escape(text), prefix, (text,), exact=True, final=True, reach=len(text))


def chars(kind: str, minimum: int, maximum: int, group: str = "") -> PatternPart:
    """Matches characters of one class, lazily: the next part decides where the match ends."""
    full = f"{kind}{{{minimum},{maximum}}}?"
    return PatternPart(
        f"(?P<{group}>{full})" if group else full,
        f"{kind}{{1,{maximum}}}",
        empty=not minimum,
        reach=maximum,
    )


def seq(*parts: PatternPart | str) -> PatternPart:
    made = [_part(part) for part in parts]
    prefix = made[-1].prefix
    for part in reversed(made[:-1]):
        prefix = f"(?:{part.full}(?:{prefix})?|{part.prefix})"
    full, empty = "".join(part.full for part in made), all(part.empty for part in made)
    exact = all(part.exact for part in made)
    exact = exact and len(_firsts(made)) <= _MAX_FIRSTS
    reach = sum(part.reach for part in made)
    return PatternPart(full, prefix, _firsts(made), empty, exact, made[-1].final, reach)


def _firsts(parts: list[PatternPart]) -> tuple[str, ...]:
    if not parts:
        return ("",)
    part, after = parts[0], _firsts(parts[1:])
    found = part.firsts or ("",)
    if part.exact and len(part.firsts) * len(after) <= _MAX_FIRSTS:
        found = tuple(first + more for first in part.firsts for more in after)
    every = sorted({*found, *after} if part.empty else set(found), key=len)
    return tuple(
        first for place, first in enumerate(every) if not first.startswith(tuple(every[:place]))
    )


def alt(*parts: PatternPart | str) -> PatternPart:
    made = [_part(part) for part in parts]
    return PatternPart(
        f"(?:{'|'.join(part.full for part in made)})",
        f"(?:{'|'.join(part.prefix for part in made)})",
        tuple(first for part in made for first in part.firsts),
        any(part.empty for part in made),
        all(part.exact for part in made),
        all(part.final for part in made),
        max(part.reach for part in made),
    )


def opt(*parts: PatternPart | str) -> PatternPart:
    part = seq(*parts)
    return PatternPart(
        f"(?:{part.full})?", part.prefix, part.firsts, True, part.exact, reach=part.reach
    )


def ahead(*parts: PatternPart | str) -> PatternPart:
    """Matches what must come next, without reading it."""
    part = seq(*parts)
    return PatternPart(f"(?={part.full})", part.prefix, part.firsts, final=True, reach=part.reach)


def named(group: str, *parts: PatternPart | str) -> PatternPart:
    """Returns the parts as a named group."""
    part = seq(*parts)
    return replace(part, full=f"(?P<{group}>{part.full})")


WS: Final = chars(r"\s", 0, 99)
NAME: Final = chars(r"""[^\s<>{}\[\]()"'`|,;=]""", 1, 99, "name")


class Pattern:
    """A compiled part. It ends with a literal or with `ahead`, so that no match can get longer."""

    def __init__(self, *parts: PatternPart | str) -> None:
        self.part = seq(*parts)
        assert self.part.final, self.part.full

    @cached_property
    def letters(self) -> frozenset[str]:
        """The characters that a match can start with."""
        return frozenset(first[0] for first in self.part.firsts)

    @cached_property
    def bare(self) -> str:
        """The regular expression of the whole match, without group names."""
        return _GROUP.sub("(?:", self.part.full)

    @cached_property
    def bare_prefix(self) -> str:
        return _GROUP.sub("(?:", self.part.prefix)

    @cached_property
    def full(self) -> re.Pattern[str]:
        return re.compile(self.part.full)

    @cached_property
    def prefix(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{self.bare_prefix})\Z")

    def at(self, text: str, place: int, ended: bool) -> Found:
        """Returns the match that starts at the place."""
        found = self.full.match(text, place)
        if found or ended or len(text) - place >= self.part.reach:
            return found
        return MORE if place == len(text) or self.prefix.match(text, place) else None

    def find(self, text: str, place: int, ended: bool) -> tuple[re.Match[str] | None, int]:
        """Returns the first match, and the place up to which there is none."""
        if found := self.full.search(text, place):
            return found, found.start()
        tail = max(place, len(text) - self.part.reach)
        if not ended and (begun := self.prefix.search(text, tail)):
            return None, begun.start()
        return None, len(text)


class _Node(dict[str, "_Node"]):
    """The letters that can come next; an empty key marks the end of a word."""


def trie(words: Iterable[str], *, whole: bool = True) -> str:
    """Returns a regular expression for the longest of the words, or for any start of a word."""
    root = _Node()
    for word in words:
        node = root
        for letter in word:
            node = node.setdefault(letter, _Node())
        node[""] = _Node()
    return _branches(root, whole).removesuffix("?")


def _branches(node: _Node, whole: bool) -> str:
    branches = [
        re.escape(letter) + _branches(below, whole) for letter, below in node.items() if letter
    ]
    if not branches:
        return ""
    may_end = "?" if "" in node or not whole else ""
    return f"(?:{'|'.join(branches)}){may_end}"
