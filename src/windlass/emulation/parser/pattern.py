"""Patterns that know when more text could still complete them.

A marker that a stream cuts in two is neither there nor absent. Each part of a pattern is kept as
two regular expressions, of the whole and of its beginnings, and so is everything built from parts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final


class More(Enum):
    """What is there is the beginning of a match; more text will tell."""

    MORE = "more"


MORE: Final = More.MORE
Found = re.Match[str] | More | None


@dataclass(frozen=True, slots=True)
class Part:
    full: str
    prefix: str
    """Matches every beginning that is not empty."""
    firsts: tuple[str, ...] = ()
    """The literal texts that a match can begin with."""
    empty: bool = False
    """Whether nothing at all is a match too."""
    exact: bool = False
    """Whether `firsts` are all that matches."""
    final: bool = False
    """Whether more text cannot make a match longer."""
    reach: int = 0
    """The most characters that tell whether there is a match."""


_MANY = 12
_GROUP = re.compile(r"\(\?P<\w+>")


def _part(part: "Part | str") -> Part:
    return lit(part) if isinstance(part, str) else part


def lit(text: str) -> Part:
    letters = [re.escape(letter) for letter in text]
    prefix = letters[-1]
    for letter in reversed(letters[:-1]):
        prefix = f"{letter}(?:{prefix})?"
    return Part(re.escape(text), prefix, (text,), exact=True, final=True, reach=len(text))


def chars(kind: str, least: int, most: int, group: str = "") -> Part:
    """A run of characters of one class; lazy, so that what follows decides where it ends."""
    full = f"{kind}{{{least},{most}}}?"
    return Part(
        f"(?P<{group}>{full})" if group else full,
        f"{kind}{{1,{most}}}",
        empty=not least,
        reach=most,
    )


def seq(*parts: Part | str) -> Part:
    made = [_part(part) for part in parts]
    prefix = made[-1].prefix
    for part in reversed(made[:-1]):
        prefix = f"(?:{part.full}(?:{prefix})?|{part.prefix})"
    full, empty = "".join(part.full for part in made), all(part.empty for part in made)
    exact = all(part.exact for part in made)
    exact = exact and len(_firsts(made)) <= _MANY
    reach = sum(part.reach for part in made)
    return Part(full, prefix, _firsts(made), empty, exact, made[-1].final, reach)


def _firsts(parts: list[Part]) -> tuple[str, ...]:
    if not parts:
        return ("",)
    part, after = parts[0], _firsts(parts[1:])
    found = part.firsts or ("",)
    if part.exact and len(part.firsts) * len(after) <= _MANY:
        found = tuple(first + more for first in part.firsts for more in after)
    every = sorted({*found, *after} if part.empty else set(found), key=len)
    return tuple(
        first for place, first in enumerate(every) if not first.startswith(tuple(every[:place]))
    )


def alt(*parts: Part | str) -> Part:
    made = [_part(part) for part in parts]
    return Part(
        f"(?:{'|'.join(part.full for part in made)})",
        f"(?:{'|'.join(part.prefix for part in made)})",
        tuple(first for part in made for first in part.firsts),
        any(part.empty for part in made),
        all(part.exact for part in made),
        all(part.final for part in made),
        max(part.reach for part in made),
    )


def opt(*parts: Part | str) -> Part:
    part = seq(*parts)
    return Part(f"(?:{part.full})?", part.prefix, part.firsts, True, part.exact, reach=part.reach)


def ahead(*parts: Part | str) -> Part:
    """What must come next and stays unread."""
    part = seq(*parts)
    return Part(f"(?={part.full})", part.prefix, part.firsts, final=True, reach=part.reach)


def named(group: str, *parts: Part | str) -> Part:
    """The parts, with a name for what matches them."""
    part = seq(*parts)
    return replace(part, full=f"(?P<{group}>{part.full})")


WS: Final = chars(r"\s", 0, 99)
NAME: Final = chars(r"""[^\s<>{}\[\]()"'`|,;=]""", 1, 99, "name")


class Pattern:
    """A compiled part. It ends in a literal or in `ahead`, so that no match can still grow."""

    def __init__(self, *parts: Part | str) -> None:
        self.part = seq(*parts)
        assert self.part.final, self.part.full

    @cached_property
    def letters(self) -> frozenset[str]:
        """The characters that a match can begin with."""
        return frozenset(first[0] for first in self.part.firsts)

    @cached_property
    def bare(self) -> str:
        """The expression of the whole, without names for its groups."""
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
        """The match that begins at the place."""
        found = self.full.match(text, place)
        if found or ended or len(text) - place >= self.part.reach:
            return found
        return MORE if place == len(text) or self.prefix.match(text, place) else None

    def find(self, text: str, place: int, ended: bool) -> tuple[re.Match[str] | None, int]:
        """The first match, and the place before which there is none."""
        if found := self.full.search(text, place):
            return found, found.start()
        tail = max(place, len(text) - self.part.reach)
        if not ended and (begun := self.prefix.search(text, tail)):
            return None, begun.start()
        return None, len(text)


class _Node(dict[str, "_Node"]):
    """The letters that can come next; the empty one where a word ends."""


def trie(words: Iterable[str], *, whole: bool = True) -> str:
    """A regular expression for the longest of the words, or for any beginning of one of them."""
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
