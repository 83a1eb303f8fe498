"""Readers of one turn: they turn a model's events into a turn's events, with calls found in text.

`TurnReader` reads a model that writes its calls as text. `NativeReader` reads a model with native
calls, and finds the calls that its server left in the text.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from msgspec.structs import replace

from windlass.content import FunctionDeclaration, Usage
from windlass.events import (
    FinishReason,
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import offloaded, text_slices

_RESULT_MARKERS = (
    "<tool_response",
    "<tool_result",
    "<function_result",
    "[TOOL_RESULTS]",
    "\nObservation:",
)
_RESULT_MARKER = re.compile("|".join(map(re.escape, _RESULT_MARKERS)))


class InventedResults:
    """Finds where a model invents a tool result in the text after its call."""

    def __init__(self) -> None:
        self._pending = "\n"  # a call ends a line; this newline is not text
        self._has_text = False

    def feed(self, text: str) -> tuple[str, bool]:
        """Returns the text that may pass, and whether an invented result follows it."""
        self._pending += text
        found = _RESULT_MARKER.search(self._pending)
        unsure = 0 if found else held_back(self._pending, _RESULT_MARKERS)
        end = found.start() if found else len(self._pending) - unsure
        return self._taken(end), found is not None

    def finish(self) -> str:
        return self._taken(len(self._pending))

    def _taken(self, end: int) -> str:
        taken, self._pending = self._pending[:end], self._pending[end:]
        if self._has_text or not taken:
            return taken
        self._has_text = True
        return taken[1:]


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """Returns how many characters at the end of the text may be the start of a marker."""
    longest = max(map(len, markers)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return size
    return 0


TurnMode = Literal["native", "emulated"]

Wanted = Literal["anything", "call", "text"]
"""What `tool_choice` demands of the turn. Events before it are held back, to allow a retry."""

_PIECE_CHARS = 2**15
"""Characters that the parser reads at a time, to limit the time of one regular expression."""
_EVENT_COST = 64
"""The number of characters that take as long to read as an event without text."""
_MAX_UNREAD = 2**13
"""Characters that the parser reads in less than 10 ms, whatever they are."""
_CALL_EVENTS = (ToolCallStarted, ToolCallDelta, ToolCallEnded)
_RETRIED_FINISHES: frozenset[FinishReason] = frozenset({"stop", "tool_calls", "other"})


class TextParser(Protocol):
    """Parses text, piece by piece, into text, thoughts and calls."""

    def feed(self, text: str) -> list[ModelEvent]: ...

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]: ...


ParserMaker: TypeAlias = Callable[[tuple[FunctionDeclaration, ...]], TextParser]
"""Creates the parser of one turn for the functions that may be called."""


class TurnReader:
    """Reads one turn of a model that writes its calls as text.

    Text goes through the parser; calls that the server has already parsed pass unchanged. After a
    call, an invented result ends the turn. So does a second call if only one is allowed.
    """

    mode: TurnMode = "emulated"

    def __init__(
        self, parser: TextParser, *, wanted: Wanted = "anything", one_call: bool = False
    ) -> None:
        self._parser, self._wanted, self._one_call = parser, wanted, one_call
        self._held: list[ModelEvent] | None = None if wanted == "anything" else []
        self._numbers: dict[tuple[str, int], int] = {}
        self._invented: InventedResults | None = None
        self._dropped_call = False
        self._end: TurnEnded | None = None
        self._about: dict[str, Any] | None = None
        self.over = False
        """Whether the turn is complete although the model is still writing."""
        self._unread = 0
        """Characters that the parser has received since its last event."""
        self._since_pause = 0
        """Characters read on the event loop since the last pause."""
        self.text_calls = 0
        """The number of calls found in text."""

    def feed(self, event: ModelEvent) -> list[ModelEvent]:
        if (about := getattr(event, "about", None)) is not None:
            self._about = {**(self._about or {}), **about}
        if type(event) is TurnEnded:
            self._end = event
        if self.over:
            return []
        events = self._read(event)
        return events if self._held is None else self._passed(events)

    def _read(self, event: ModelEvent) -> list[ModelEvent]:
        match event:
            case ToolCallDelta() | ToolCallEnded() | ToolCallStarted():
                return self._other(self._call("native", event))
            case TurnEnded(finish=finish):
                return self._finished(finish == "length")
            case TextDelta():
                return self._text(event)
            case _:
                return self._other([event])

    def is_quick(self, event: ModelEvent) -> bool:
        """Whether `feed` reads no text for this event, so that it needs no `read`."""
        return type(event) is not TextDelta and not self._unread

    async def read(self, event: ModelEvent) -> list[ModelEvent]:
        """Does the same as `feed` without blocking the event loop for long."""
        size = len(event.text) if isinstance(event, TextDelta) else 0
        if self._unread + size > _MAX_UNREAD and (size or isinstance(event, TurnEnded)):
            return await offloaded(self.feed, event)
        self._since_pause += size + _EVENT_COST
        if self._since_pause > _MAX_UNREAD:
            self._since_pause = 0
            await asyncio.sleep(0)
        return self.feed(event)

    @property
    def usage(self) -> Usage:
        return self._end.usage if self._end else Usage()

    @property
    def finish(self) -> FinishReason:
        return self._end.finish if self._end else "tool_calls"

    @property
    def held_text(self) -> str:
        return "".join(event.text for event in self._held or () if isinstance(event, TextDelta))

    @property
    def breaks_choice(self) -> bool:
        """Whether the turn breaks `tool_choice` and the caller has received nothing of it."""
        if self._held is None or self.finish not in _RETRIED_FINISHES:
            return False
        return self._wanted == "call" or self._dropped_call

    def last_events(self, spent: Usage) -> list[ModelEvent]:
        """Returns the last events of the turn. `spent` is the usage of discarded attempts."""
        held, self._held = self._held or [], None
        end = self._end or TurnEnded("tool_calls")
        # The mode that a wrapped model reports overrides this one.
        extra = {"windlass": {"mode": self.mode}, **(end.message_extra or {})}
        usage = spent + end.usage
        finish, about = self._finish(), self._about
        held.append(replace(end, finish=finish, usage=usage, message_extra=extra, about=about))
        return held

    def _finish(self) -> FinishReason:
        if self.finish not in _RETRIED_FINISHES:
            return self.finish
        if self._numbers:
            return "tool_calls"
        return "stop" if self.finish == "tool_calls" else self.finish

    def _text(self, event: TextDelta) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for piece in text_slices(event.text, _PIECE_CHARS):
            found = self._parser.feed(piece)
            self._unread = 0 if found else self._unread + len(piece)
            events += self._parsed(found)
            if self.over:
                break
        return events

    def _other(self, events: list[ModelEvent]) -> list[ModelEvent]:
        return events

    def _finished(self, truncated: bool) -> list[ModelEvent]:
        events = self._parsed(self._parser.finish(truncated=truncated))
        if self._invented and not self.over and (rest := self._invented.finish()):
            events.append(TextDelta(rest))
        return events

    def _parsed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """Returns the parser's events up to the place where the model should have stopped."""
        passed: list[ModelEvent] = []
        for event in events:
            if isinstance(event, _CALL_EVENTS):
                if self._invented and (text := self._invented.finish()):
                    passed.append(TextDelta(text))
                passed += self._call("text", event)
                if isinstance(event, ToolCallEnded):
                    self.text_calls += 1
                    self._invented = InventedResults()
            elif isinstance(event, TextDelta) and self._invented:
                text, self.over = self._invented.feed(event.text)
                if text:
                    passed.append(TextDelta(text))
            else:
                passed.append(event)
            if self.over:
                break
        return passed

    def _call(self, source: str, event: ModelEvent) -> list[ModelEvent]:
        """Returns the event with the call's index in this turn, counting both sources of calls."""
        assert isinstance(event, _CALL_EVENTS)
        if self._wanted == "text":
            self._dropped_call = True
            return []
        key = (source, event.index)
        number = self._numbers.get(key)
        if number is None:
            if self._one_call and self._numbers:
                self.over = True
                return []
            number = self._numbers[key] = len(self._numbers)
        return [event if number == event.index else replace(event, index=number)]

    def _passed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """Holds the events back, and returns them all when the wanted kind of event arrives."""
        assert self._held is not None
        self._held += events
        if not any(map(self._is_wanted, events)):
            return []
        passed, self._held = self._held, None
        return passed

    def _is_wanted(self, event: ModelEvent) -> bool:
        if self._wanted == "call":
            return isinstance(event, ToolCallStarted)
        return isinstance(event, TextDelta) and bool(event.text.strip())


_OPENERS = (
    "<",
    "{",
    "[",
    "```",
    ">>>",
    "✿",
    "Action:",
    "Thought:",
    "Request function call:",
    "functools[",
)
_LONGEST_OPENER = max(map(len, _OPENERS))
_MAX_LEADING_SPACE = 100
"""Characters of blank space that may come before a call."""


def begins_like_call(text: str) -> bool | None:
    """Returns whether an answer begins like a call in some format; None if more text is needed."""
    begun = text.lstrip()
    if begun.startswith(_OPENERS):
        return True
    if len(text) > _MAX_LEADING_SPACE or len(begun) >= _LONGEST_OPENER:
        return False
    return None if any(opener.startswith(begun) for opener in _OPENERS) else False


class NativeReader(TurnReader):
    """Reads one turn of a model with native calls, and finds calls that it wrote as text.

    Some servers drop the tools, or cannot parse their own model's format. Only an answer that
    begins like a call is parsed; any other text passes unchanged.
    """

    mode: TurnMode = "native"

    def __init__(
        self, make_parser: Callable[[], TextParser] | None, *, wanted: Wanted = "anything"
    ) -> None:
        super().__init__(_PASS_THROUGH, wanted=wanted)
        self._make_parser = make_parser
        self._like_call: bool | None = None if make_parser else False
        self._waiting: list[TextDelta] = []

    @property
    def is_passing(self) -> bool:
        """Whether all further events of the turn pass unchanged."""
        return self._like_call is False and self._held is None

    def _text(self, event: TextDelta) -> list[ModelEvent]:
        if self._like_call is False:
            return [event]
        if self._like_call is True:
            return super()._text(event)
        self._waiting.append(event)
        text = "".join(waiting.text for waiting in self._waiting)
        self._like_call = begins_like_call(text)
        if self._like_call is None:
            return []
        waiting, self._waiting = self._waiting, []
        if not self._like_call or self._make_parser is None:
            return [*waiting]
        self._parser = self._make_parser()
        return super()._text(TextDelta(text))

    def _other(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """Returns the held text first, to keep the order of events."""
        if not self._waiting:
            return events
        waiting, self._waiting = self._waiting, []
        return [*waiting, *events]

    def _finished(self, truncated: bool) -> list[ModelEvent]:
        return self._other(super()._finished(truncated))

    def _finish(self) -> FinishReason:
        return super()._finish() if self.text_calls else self.finish


class _PassThrough:
    """The parser of a turn that is not parsed."""

    def feed(self, text: str) -> list[ModelEvent]:
        return [TextDelta(text)]

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        return []


_PASS_THROUGH = _PassThrough()
