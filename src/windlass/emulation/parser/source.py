"""The text that has come and is not read yet, and how a reader waits for more of it.

A reader is a generator: it yields when it needs more text and returns what it has read. It sees the
same text in the same order however the stream was cut, so the whole text is `feed` and `finish`.
"""

import re
from collections.abc import Generator
from io import StringIO
from typing import Literal, TypeAlias, TypeVar

from windlass.emulation.parser.pattern import MORE, Pattern

T = TypeVar("T")
Step: TypeAlias = Generator[None, None, T]

LONGEST_CALL = 8_000_000
"""Characters of one call that are kept. Whoever writes more does not write a call."""

_WIDEST_SPACE = 1_000
_SPACE = re.compile(r"\s*")


class Source:
    def __init__(self) -> None:
        self.text = ""
        self.place = 0
        self.ended = False
        self.truncated = False
        """The text ends because the model was cut off, not because it had finished."""
        self._kept: list[str] | None = None
        self._kept_from = 0
        self._kept_before = 0

    def add(self, text: str) -> None:
        if self._kept is not None:
            if self._kept_before <= LONGEST_CALL:
                self._kept.append(self.text[self._kept_from : self.place])
            self._kept_before += self.place - self._kept_from
            self._kept_from = 0
        self.text = self.text[self.place :] + text if self.place < len(self.text) else text
        self.place = 0

    def end(self, *, truncated: bool) -> None:
        self.add("")
        self.ended, self.truncated = True, truncated

    # What is read while it is unsure whether it is a call is kept, to be given back as text.

    def keep(self) -> None:
        self._kept, self._kept_from, self._kept_before = [], self.place, 0

    def forget(self) -> None:
        self._kept = None

    def release(self) -> str:
        """What has been read since `keep`; nothing is kept any longer."""
        if self._kept is None:
            return ""
        text = "".join((*self._kept, self.text[self._kept_from : self.place]))
        self._kept = None
        return text

    def rewind(self) -> None:
        """Unreads what has been read since `keep`, and keeps nothing."""
        self.text, self.place = self.release() + self.text[self.place :], 0

    @property
    def kept_size(self) -> int:
        """How many characters have been read since `keep`."""
        return self._kept_before + self.place - self._kept_from if self._kept is not None else 0

    # Reading.

    def at_end(self) -> Step[bool]:
        while self.place >= len(self.text):
            if self.ended:
                return True
            yield
        return False

    def peek(self) -> Step[str]:
        """The next character, still unread; nothing at the end."""
        while self.place >= len(self.text):
            if self.ended:
                return ""
            yield
        return self.text[self.place]

    def peek_past_space(self) -> Step[str]:
        """The next character that is not space, still unread, with all space before it read."""
        while True:
            found = _SPACE.match(self.text, self.place)
            assert found  # it matches nothing at all, too
            self.place = found.end()
            if self.place < len(self.text):
                return self.text[self.place]
            if self.ended:
                return ""
            yield

    def match(self, pattern: Pattern) -> Step[re.Match[str] | None]:
        """What the pattern matches here, read; None and nothing read if it does not."""
        while True:
            found = pattern.at(self.text, self.place, self.ended)
            if found is MORE:
                yield
                continue
            if found:
                self.place = found.end()
            return found

    def after_space(self, pattern: Pattern) -> Step[re.Match[str] | Literal["end"] | None]:
        """What the pattern matches after the space here, or that the text ends there, be it in the
        middle of a match. Nothing is read."""
        while True:
            space = _SPACE.match(self.text, self.place)
            assert space  # it matches nothing at all, too
            start = space.end()
            if start - self.place > _WIDEST_SPACE:
                return None
            found = pattern.at(self.text, start, self.ended)
            if found is not MORE:
                ends = start == len(self.text) or pattern.prefix.match(self.text, start)
                return found or ("end" if self.ended and ends else None)
            yield

    def until(self, pattern: Pattern) -> Step[tuple[str, re.Match[str] | None]]:
        """The text before the first match, and the match, both read. No match: all the text."""
        before, room = StringIO(), LONGEST_CALL
        while True:
            found, safe = pattern.find(self.text, self.place, self.ended)
            before.write(self.text[self.place : min(safe, self.place + room)])
            room = max(0, room - (safe - self.place))
            self.place = found.end() if found else safe
            if found or self.ended:
                return before.getvalue(), found
            yield


def finished(step: Step[T]) -> T:
    """What the reader returns. All of its text is there, so it never waits."""
    try:
        next(step)
    except StopIteration as end:
        return end.value
    raise AssertionError("a reader waits for text after the end")
