"""The text that was received and is not read yet.

A reader is a generator: it yields when it needs more text, and returns what it has read. It reads
the same text however the stream was split.
"""

import re
from collections.abc import Generator
from io import StringIO
from typing import Literal, TypeAlias, TypeVar

from windlass.emulation.parser.pattern import MORE, Pattern

T = TypeVar("T")
Step: TypeAlias = Generator[None, None, T]

MAX_CALL_CHARS = 8_000_000
"""Characters of one call that are kept. Longer text is not a call."""

_MAX_SPACE = 1_000
_SPACE = re.compile(r"\s*")


class Source:
    def __init__(self) -> None:
        self.text = ""
        self.place = 0
        self.ended = False
        self.truncated = False
        """Whether the text is incomplete, because the model was interrupted."""
        self._kept: list[str] | None = None
        self._kept_from = 0
        self._kept_before = 0

    def add(self, text: str) -> None:
        if self._kept is not None:
            if self._kept_before <= MAX_CALL_CHARS:
                self._kept.append(self.text[self._kept_from : self.place])
            self._kept_before += self.place - self._kept_from
            self._kept_from = 0
        self.text = self.text[self.place :] + text if self.place < len(self.text) else text
        self.place = 0

    def end(self, *, truncated: bool) -> None:
        self.add("")
        self.ended, self.truncated = True, truncated

    def keep(self) -> None:
        """Keeps the text that is read from here on, in case that it is not a call."""
        self._kept, self._kept_from, self._kept_before = [], self.place, 0

    def forget(self) -> None:
        self._kept = None

    def release(self) -> str:
        """Returns the text read since `keep`, and stops keeping it."""
        if self._kept is None:
            return ""
        text = "".join((*self._kept, self.text[self._kept_from : self.place]))
        self._kept = None
        return text

    def rewind(self) -> None:
        """Goes back to where `keep` was called, and stops keeping text."""
        self.text, self.place = self.release() + self.text[self.place :], 0

    @property
    def kept_size(self) -> int:
        """The number of characters read since `keep`."""
        return self._kept_before + self.place - self._kept_from if self._kept is not None else 0

    def at_end(self) -> Step[bool]:
        while self.place >= len(self.text):
            if self.ended:
                return True
            yield
        return False

    def peek(self) -> Step[str]:
        """Returns the next character without reading it; an empty string at the end."""
        while self.place >= len(self.text):
            if self.ended:
                return ""
            yield
        return self.text[self.place]

    def peek_past_space(self) -> Step[str]:
        """Skips space, and returns the next character without reading it."""
        while True:
            found = _SPACE.match(self.text, self.place)
            assert found  # it also matches the empty text
            self.place = found.end()
            if self.place < len(self.text):
                return self.text[self.place]
            if self.ended:
                return ""
            yield

    def match(self, pattern: Pattern) -> Step[re.Match[str] | None]:
        """Reads and returns the match at this place; None, and nothing is read, without a match."""
        while True:
            found = pattern.at(self.text, self.place, self.ended)
            if found is MORE:
                yield
                continue
            if found:
                self.place = found.end()
            return found

    def after_space(self, pattern: Pattern) -> Step[re.Match[str] | Literal["end"] | None]:
        """Returns the match after the next space, without reading it.

        Returns "end" if the text ends there, also in the middle of a match.
        """
        while True:
            space = _SPACE.match(self.text, self.place)
            assert space  # it also matches the empty text
            start = space.end()
            if start - self.place > _MAX_SPACE:
                return None
            found = pattern.at(self.text, start, self.ended)
            if found is not MORE:
                ends = start == len(self.text) or pattern.prefix.match(self.text, start)
                return found or ("end" if self.ended and ends else None)
            yield

    def look_for(self, pattern: Pattern, chars: int) -> Step[re.Match[str] | None]:
        """Returns the first match in the next characters, without reading it."""
        passed = 0
        while True:
            found, safe = pattern.find(self.text, self.place + passed, self.ended)
            passed = safe - self.place
            if found or self.ended or passed > chars:
                return found if passed <= chars else None
            yield

    def until(self, pattern: Pattern) -> Step[tuple[str, re.Match[str] | None]]:
        """Reads up to and including the first match; without a match, all the text."""
        before, room = StringIO(), MAX_CALL_CHARS
        while True:
            found, safe = pattern.find(self.text, self.place, self.ended)
            before.write(self.text[self.place : min(safe, self.place + room)])
            room = max(0, room - (safe - self.place))
            self.place = found.end() if found else safe
            if found or self.ended:
                return before.getvalue(), found
            yield


def finished(step: Step[T]) -> T:
    """Returns the result of a reader whose text is complete, so that it never waits."""
    try:
        next(step)
    except StopIteration as end:
        return end.value
    raise AssertionError("a reader waits for text after the end")
