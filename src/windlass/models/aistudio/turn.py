"""What the page shows, turned into a model's events. Pure.

The observer in the page sends a snapshot whenever something of the new turn has changed; texts come
as the part that differs from the last snapshot. Calls are told once, when the turn has settled:
until then the page may still draw them anew.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, Usage, new_call_id
from windlass.errors import ModelError
from windlass.events import (
    ModelEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import decode_json
from windlass.models.aistudio.written import WrittenCalls, clean_arguments, clean_name

__all__ = [
    "Grown",
    "PageTurn",
    "Patience",
    "ShownCall",
    "Snapshot",
    "Wait",
    "problem_shown",
    "snapshot_of",
    "usage_shown",
]

Wait: TypeAlias = Literal["busy", "quiet", "late_call"]
"""For what a turn waits: its end, quiet, or a call that may still be drawn."""


class Patience(Struct, frozen=True):
    """Seconds without a change until an idle page is believed to be done."""

    quiet: float = 0.2
    """When all that can be expected is there."""
    late_call: float = 3.2
    """When a call may still be drawn or filled: pages were seen to take up to three seconds."""


class ShownCall(Struct, frozen=True, array_like=True):
    name: str
    arguments: str

    @property
    def readable(self) -> bool:
        return FunctionCall(self.name, clean_arguments(self.arguments)).error is None and bool(
            self.arguments.strip()
        )


class Grown(Struct, frozen=True, array_like=True):
    """A text that has changed from character `at` on."""

    at: int
    text: str

    def applied(self, old: str) -> str:
        # The page counts UTF-16 units.
        before = old.encode("utf-16-le", "surrogatepass")[: self.at * 2]
        return before.decode("utf-16-le", "surrogatepass") + self.text


class Snapshot(Struct, frozen=True):
    """The new turn as it is shown at one moment."""

    busy: bool
    begun: bool = False
    """Whether the page has drawn any of the answer."""
    text: Grown | None = None
    thought: Grown | None = None
    calls: tuple[ShownCall, ...] = ()
    problem: str = ""
    standing: str = ""
    """A problem that was shown before the turn, and still is."""
    tokens: str = ""


def snapshot_of(report: str) -> tuple[int, Snapshot]:
    """The number of the turn that was watched, and what was seen."""
    return msgspec.convert(decode_json(report.encode("utf-8", "replace")), tuple[int, Snapshot])


class PageTurn:
    """One turn of the model, from snapshots. `known` are the functions that it may call."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        self._text = _Told()
        self._thought = _Told()
        self._written = WrittenCalls(known)
        self._last = Snapshot(busy=False)
        self._was_busy = False
        self._called = False

    def feed(self, snapshot: Snapshot) -> list[ModelEvent]:
        """What is new. Raises `ModelError` if the page shows an error."""
        self._last = snapshot
        self._was_busy = self._was_busy or snapshot.busy
        if snapshot.problem:
            raise problem_shown(snapshot.problem)
        events: list[ModelEvent] = []
        if snapshot.thought and (new := self._thought.new(snapshot.thought)):
            events.append(ThoughtDelta(new))
        if snapshot.text and (said := self._written.feed(self._text.new(snapshot.text))):
            events.append(TextDelta(said))
        return events

    @property
    def waits_for(self) -> Wait:
        """What the turn waits for; anything but `busy` ends it if nothing more is shown."""
        shown = self._last
        if shown.busy or not (self._was_busy or shown.begun):
            return "busy"
        if shown.calls:
            return "quiet" if all(call.readable for call in shown.calls) else "late_call"
        return "quiet" if self._text.whole.strip() and not self._known else "late_call"

    @property
    def is_answerable(self) -> bool:
        """Whether the page has a field for the answer to each of the turn's calls."""
        return bool(self._last.calls) or not self._called

    def finish(self) -> list[ModelEvent]:
        """The rest: held text, the calls, the end. Raises `ModelError` if the page says why there
        is none of them."""
        rest, written = self._written.finish()
        if behind := self._text.behind():
            rest += behind
        events: list[ModelEvent] = [TextDelta(rest)] if rest else []
        shown = [self._call(call) for call in self._last.calls]
        calls = shown or written
        events += _call_events(calls)
        self._called = bool(calls)
        if self._last.standing and not (calls or self._text.whole.strip()):
            raise problem_shown(self._last.standing)
        usage = usage_shown(self._last.tokens)
        events.append(TurnEnded("tool_calls" if calls else "stop", usage))
        return events

    def _call(self, shown: ShownCall) -> FunctionCall:
        arguments = clean_arguments(shown.arguments)
        return FunctionCall(clean_name(shown.name, self._known), arguments, new_call_id())


class _Told:
    """A text on the page and how much of it has been told.

    The page formats as it writes, so that a text may change where it has been told already. That
    cannot be taken back: the telling goes on where the text is longer than what was told.
    """

    def __init__(self) -> None:
        self.whole = ""
        self._told = ""

    def new(self, grown: Grown) -> str:
        self.whole = grown.applied(self.whole)
        if not self.whole.startswith(self._told):
            return ""
        new = self.whole[len(self._told) :]
        self._told = self.whole
        return new

    def behind(self) -> str:
        """What is left to tell at the end, of a text that was changed after it was told."""
        behind = self.whole[len(self._told) :]
        self._told = self.whole
        return behind


def _call_events(calls: Sequence[FunctionCall]) -> list[ModelEvent]:
    events: list[ModelEvent] = []
    for index, call in enumerate(calls):
        events.append(ToolCallStarted(index, call.id, call.name))
        events.append(ToolCallDelta(index, call.json))
        events.append(ToolCallEnded(index, call))
    return events


_TOTAL = re.compile(r"(\d[\d,.]*)\s*(?:/|tokens?)", re.IGNORECASE)
_PARTS = re.compile(r"input:?\s*(\d[\d,.]*)\W+output:?\s*(\d[\d,.]*)", re.IGNORECASE)


def usage_shown(text: str) -> Usage:
    """The tokens that the page counts, as far as it shows them. Nothing is made up."""
    total, parts = _TOTAL.search(text), _PARTS.search(text)
    return Usage(
        input_tokens=_count(parts[1]) if parts else 0,
        output_tokens=_count(parts[2]) if parts else 0,
        total_tokens=_count(total[1]) if total else 0,
    )


def _count(text: str) -> int:
    return int(re.sub(r"\D", "", text))


_QUOTA = re.compile(r"quota|rate.?limit|too many requests|resource.?exhausted", re.IGNORECASE)


def problem_shown(text: str) -> ModelError:
    """The error that the page shows; whether it passes is told by its words."""
    text = " ".join(text.split())
    if _QUOTA.search(text):
        return ModelError(text, status=429, retryable=False, code="quota")
    return ModelError(text, status=503, retryable=True, code="page_error")
