"""What has been found, as events: adjoining text is joined, and space between blocks is layout."""

import re
from io import StringIO

import msgspec

from windlass.content import FunctionCall, new_call_id
from windlass.emulation.parser.line import Line
from windlass.emulation.parser.source import LONGEST_CALL
from windlass.events import (
    ModelEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)

__all__ = ["Output"]

_WIDEST_GAP = 256
_SURROGATES = re.compile("[\ud800-\udfff]")


class Output:
    def __init__(self) -> None:
        self.line = Line()
        self.calls = 0
        self.gap: str | None = ""
        """Space since a block ended or the text began; None once other text has come."""
        self._events: list[ModelEvent] = []
        self._text: list[str] = []
        self._pieces: list[str] = []
        self.write = self._pieces.append
        """Takes the next piece of the arguments of the call that has been started."""
        self._json = StringIO()
        self._call: tuple[str, str] | None = None
        self._closing = False
        """The call's arguments are all there; whether the call is, the next thing tells."""
        self._blocks = False

    def take(self) -> list[ModelEvent]:
        """The events since the last time."""
        if self._pieces:
            self._flush_pieces()
        if self._text:
            self._flush_text()
        events, self._events = self._events, []
        return events

    def is_flowing(self, event: type[ModelEvent]) -> bool:
        """Whether the next piece can follow the last one as it is."""
        return event is ThoughtDelta or self.gap is None

    def text(self, text: str) -> None:
        if self.gap is not None:
            if not (text := self._past_gap(text)):
                return
        elif not text:
            return
        self.settle()
        self._text.append(text)
        self.line.add(text)

    def thought(self, text: str) -> None:
        if text:
            self.settle()
            self.block()
            self._flush_text()
            self._events.append(ThoughtDelta(text))

    def block(self) -> None:
        """Something other than text begins or ends here: the space around it is not text."""
        self.gap, self._blocks = "", True
        self.line.begin()

    def finish(self, *, truncated: bool) -> None:
        if self._closing and truncated:
            self.spoil()
        self.settle()
        if self.gap and not self._blocks:
            self._text.append(self.gap)
        self.gap = ""

    def _past_gap(self, text: str) -> str:
        """The text with the space before it, or nothing if there is no more than space so far."""
        assert self.gap is not None
        gap = self.gap + text[: _WIDEST_GAP + 1]
        if len(gap) <= _WIDEST_GAP and not gap.strip():
            self.gap = gap
            return ""
        text, self.gap = self.gap + text, None
        return text

    # One call at a time.

    def start_call(self, name: str) -> None:
        self.settle()
        self.block()
        self._flush_text()
        self._call = (name, new_call_id())
        self._json = StringIO()
        self._events.append(ToolCallStarted(self.calls, self._call[1], name))

    def end_call(self) -> None:
        """The arguments end here; `settle` ends the call."""
        self._closing = True
        self.block()

    def settle(self) -> None:
        if self._closing and self._call:
            self._flush_pieces()
            name, call_id = self._call
            call = FunctionCall(name, self._json.getvalue(), call_id)
            self._events.append(ToolCallEnded(self.calls, call))
            self._call, self._closing = None, False
            self.calls += 1

    def spoil(self) -> None:
        """Makes sure that the call cannot run, whatever its text looks like."""
        while self._readable():
            self.write("}")

    def _readable(self) -> bool:
        self._flush_pieces()
        try:
            msgspec.json.decode(self._json.getvalue() or "{}")
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def _flush_text(self) -> None:
        if self._text:
            self._events.append(TextDelta("".join(self._text)))
            self._text.clear()

    def _flush_pieces(self) -> None:
        """What passes the limit is dropped: that spoils the call, since its end is missing."""
        json = "".join(self._pieces)[: LONGEST_CALL - self._json.tell()]
        self._pieces.clear()
        if json:
            self._json.write(json)
            self._events.append(ToolCallDelta(self.calls, json))
