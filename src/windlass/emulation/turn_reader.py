"""The reader of one turn: the model's events in, the events of a turn with calls out."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from msgspec.structs import replace

from windlass.content import FunctionDeclaration, Usage
from windlass.events import (
    FinishReason,
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import offloaded, text_slices

_INVENTED = (
    "<tool_response",
    "<tool_result",
    "<function_result",
    "[TOOL_RESULTS]",
    "\nObservation:",
)
_INVENTION = re.compile("|".join(map(re.escape, _INVENTED)))


class Inventions:
    """Finds where a model, after its call, goes on to write the result itself."""

    def __init__(self) -> None:
        self._pending = "\n"  # a call ends a line; this end of it is not text
        self._begun = False

    def feed(self, text: str) -> tuple[str, bool]:
        """What may pass, and whether an invention begins after it."""
        self._pending += text
        found = _INVENTION.search(self._pending)
        end = found.start() if found else len(self._pending) - held_back(self._pending, _INVENTED)
        return self._taken(end), found is not None

    def finish(self) -> str:
        return self._taken(len(self._pending))

    def _taken(self, end: int) -> str:
        taken, self._pending = self._pending[:end], self._pending[end:]
        if self._begun or not taken:
            return taken
        self._begun = True
        return taken[1:]


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """How many characters at the end of the text may be the beginning of a marker."""
    longest = max(map(len, markers)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return size
    return 0


TurnMode = Literal["native", "emulated"]

Wanted = Literal["anything", "call", "words"]
"""What `tool_choice` asks of the turn. What comes before it is held back: it may be asked again."""

_PIECE = 2**15
"""Characters that the parser is given at a time: no regular expression then runs long."""
_EVENT = 64
"""Characters that take about as long as an event without any."""
_LONG = 2**13
"""Characters that the parser reads in less than 10 ms, whatever they are."""
_CALL_EVENTS = (ToolCallStarted, ToolCallDelta, ToolCallEnded)
_ASKED_AGAIN: frozenset[FinishReason] = frozenset({"stop", "tool_calls", "other"})


class TextParser(Protocol):
    """Text, piece by piece, into text, thoughts and calls."""

    def feed(self, text: str) -> list[ModelEvent]: ...

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]: ...


ParserMaker: TypeAlias = Callable[[tuple[FunctionDeclaration, ...]], TextParser]
"""Makes the parser of one turn, given the functions that may be called."""


class TurnReader:
    """Reads one turn of a model that writes its calls as text.

    Text goes through the parser; calls that the server has read by itself pass as they are. After a
    call, a result that the model invents ends the turn, and so does a second call if only one is
    allowed.
    """

    mode: TurnMode = "emulated"

    def __init__(
        self, parser: TextParser, *, wanted: Wanted = "anything", one_call: bool = False
    ) -> None:
        self._parser, self._wanted, self._one_call = parser, wanted, one_call
        self._held: list[ModelEvent] | None = None if wanted == "anything" else []
        self._numbers: dict[tuple[str, int], int] = {}
        self._inventions: Inventions | None = None
        self._swallowed = False
        self._end: TurnEnded | None = None
        self._about: dict[str, Any] | None = None
        self.over = False
        """Whether the turn is complete although the model goes on."""
        self._unread = 0
        """Characters that the parser has taken since anything last came out of it."""
        self._since_pause = 0
        """Characters that were read on the event loop without a pause."""
        self.text_calls = 0
        """How many calls were read from text."""

    def feed(self, event: ModelEvent) -> list[ModelEvent]:
        if (about := getattr(event, "about", None)) is not None:
            self._about = {**(self._about or {}), **about}
        if isinstance(event, TurnEnded):
            self._end = event
            return [] if self.over else self._passed(self._finished(event.finish == "length"))
        if self.over:
            return []
        match event:
            case TextDelta():
                return self._passed(self._text(event))
            case ThoughtDelta() | PartReceived():
                return self._passed(self._other(event))
            case _:
                return self._passed(self._other(*self._call("native", event)))

    async def read(self, event: ModelEvent) -> list[ModelEvent]:
        """The same as `feed`, without holding the event loop for long."""
        size = len(event.text) if isinstance(event, TextDelta) else 0
        if self._unread + size > _LONG and (size or isinstance(event, TurnEnded)):
            return await offloaded(self.feed, event)
        self._since_pause += size + _EVENT
        if self._since_pause > _LONG:
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
    def said(self) -> str:
        """The text that is held back."""
        return "".join(event.text for event in self._held or () if isinstance(event, TextDelta))

    @property
    def unmet(self) -> bool:
        """Whether the turn is not what was wanted, and nothing of it has been let through."""
        if self._held is None or self.finish not in _ASKED_AGAIN:
            return False
        return self._wanted == "call" or self._swallowed

    def ending(self, spent: Usage) -> list[ModelEvent]:
        """The last events of the turn. `spent` was used by attempts that nobody has seen."""
        held, self._held = self._held or [], None
        end = self._end or TurnEnded("tool_calls")
        # A model inside may be of another mode, and knows better.
        extra = {"windlass": {"mode": self.mode}, **(end.message_extra or {})}
        usage = spent + end.usage
        end = replace(end, finish=self._finish(), usage=usage, message_extra=extra)
        return [*held, replace(end, about=self._about)]

    def _finish(self) -> FinishReason:
        if self.finish not in _ASKED_AGAIN:
            return self.finish
        if self._numbers:
            return "tool_calls"
        return "stop" if self.finish == "tool_calls" else self.finish

    def _text(self, event: TextDelta) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for piece in text_slices(event.text, _PIECE):
            found = self._parser.feed(piece)
            self._unread = 0 if found else self._unread + len(piece)
            events += self._parsed(found)
            if self.over:
                break
        return events

    def _other(self, *events: ModelEvent) -> list[ModelEvent]:
        return list(events)

    def _finished(self, truncated: bool) -> list[ModelEvent]:
        events = self._parsed(self._parser.finish(truncated=truncated))
        if self._inventions and not self.over and (rest := self._inventions.finish()):
            events.append(TextDelta(rest))
        return events

    def _parsed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """What the parser has found, up to the place where the model should have stopped."""
        passed: list[ModelEvent] = []
        for event in events:
            if isinstance(event, _CALL_EVENTS):
                if self._inventions and (text := self._inventions.finish()):
                    passed.append(TextDelta(text))
                passed += self._call("text", event)
                if isinstance(event, ToolCallEnded):
                    self.text_calls += 1
                    self._inventions = Inventions()
            elif isinstance(event, TextDelta) and self._inventions:
                text, self.over = self._inventions.feed(event.text)
                if text:
                    passed.append(TextDelta(text))
            else:
                passed.append(event)
            if self.over:
                break
        return passed

    def _call(self, source: str, event: ModelEvent) -> list[ModelEvent]:
        """The event with the call's number in this turn, whoever found the call."""
        assert isinstance(event, _CALL_EVENTS)
        if self._wanted == "words":
            self._swallowed = True
            return []
        key = (source, event.index)
        if key not in self._numbers:
            if self._one_call and self._numbers:
                self.over = True
                return []
            self._numbers[key] = len(self._numbers)
        number = self._numbers[key]
        return [event if number == event.index else replace(event, index=number)]

    def _passed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """The events, or nothing as long as what is wanted has not come."""
        if self._held is None:
            return events
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
_LONGEST_WAIT = 100
"""Characters; more blank space than that is somebody's layout."""


def begins_like_call(text: str) -> bool | None:
    """Whether an answer begins as a call in some format might; None while that is open."""
    begun = text.lstrip()
    if any(begun.startswith(opener) for opener in _OPENERS):
        return True
    if len(text) > _LONGEST_WAIT:
        return False
    return None if any(opener.startswith(begun) for opener in _OPENERS) else False


class NativeReader(TurnReader):
    """Reads one turn of a model with native calls, and notices those that it wrote as text.

    Some servers drop the tools, or do not read their own model's format. Only an answer that begins
    like a call is parsed; any other text passes as it comes.
    """

    mode: TurnMode = "native"

    def __init__(
        self, make_parser: Callable[[], TextParser] | None, *, wanted: Wanted = "anything"
    ) -> None:
        super().__init__(_NOTHING, wanted=wanted)
        self._make_parser = make_parser
        self._like_call: bool | None = None if make_parser else False
        self._waiting: list[TextDelta] = []

    @property
    def plain(self) -> bool:
        """Whether events pass as they are from here on, until the turn's end."""
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

    def _other(self, *events: ModelEvent) -> list[ModelEvent]:
        """Text that waits to be understood comes before what follows it."""
        waiting, self._waiting = self._waiting, []
        return [*waiting, *events]

    def _finished(self, truncated: bool) -> list[ModelEvent]:
        return [*self._other(), *super()._finished(truncated)]

    def _finish(self) -> FinishReason:
        return super()._finish() if self.text_calls else self.finish


class _Nothing:
    """The parser of a turn that is not parsed."""

    def feed(self, text: str) -> list[ModelEvent]:
        return [TextDelta(text)]

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        return []


_NOTHING = _Nothing()
