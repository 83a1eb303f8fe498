"""The model's turn, read from snapshots of the page. Pure.

The observer in the page sends a snapshot whenever the new turn changes; texts are sent as the
difference to the last snapshot. Calls are reported once, when the turn has settled, because the
page may redraw them until then.

A model sometimes writes a call as text although the page supports function calling. The page then
shows `Request function call: name` with parameters, or a JSON object with a `function_call`.
`WrittenCalls` finds these calls.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

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
from windlass.jsontext import compact_json, decode_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

Wait: TypeAlias = Literal["busy", "quiet", "late_call"]
"""What a turn waits for: its end, no more changes, or a call that may still appear."""


class Patience(Struct, frozen=True):
    """Seconds without a change after which the turn of an idle page counts as complete."""

    quiet: float = 0.2
    """If everything expected is there."""
    late_call: float = 3.2
    """If a call may still appear or be filled, which can take up to three seconds."""


class ShownCall(Struct, frozen=True, array_like=True):
    name: str
    arguments: str

    @property
    def readable(self) -> bool:
        return FunctionCall(self.name, clean_arguments(self.arguments)).error is None and bool(
            self.arguments.strip()
        )


class Grown(Struct, frozen=True, array_like=True):
    """A text that has changed from position `at` on."""

    at: int
    text: str

    def applied(self, old: str) -> str:
        # The page counts UTF-16 units.
        before = old.encode("utf-16-le", "surrogatepass")[: self.at * 2]
        return before.decode("utf-16-le", "surrogatepass") + self.text


class Snapshot(Struct, frozen=True):
    """The new turn as the page shows it at one moment."""

    busy: bool
    begun: bool = False
    """Whether the page shows any part of the answer."""
    text: Grown | None = None
    thought: Grown | None = None
    calls: tuple[ShownCall, ...] = ()
    problem: str = ""
    standing: str = ""
    """An error that was visible before the turn and still is."""
    tokens: str = ""


def snapshot_of(report: str) -> tuple[int, Snapshot]:
    """The number of the observed turn, and its snapshot."""
    return msgspec.convert(decode_json(report.encode("utf-8", "replace")), tuple[int, Snapshot])


class PageTurn:
    """One turn of the model, from snapshots. `known` are the functions that it can call."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        self._text = _SentText()
        self._thought = _SentText()
        self._written = WrittenCalls(known)
        self._last = Snapshot(busy=False)
        self._was_busy = False
        self._called = False

    def feed(self, snapshot: Snapshot) -> list[ModelEvent]:
        """The new events. Raises `ModelError` if the page shows an error."""
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
        """What the turn waits for. Unless `busy`, the turn ends if nothing changes in time."""
        shown = self._last
        if shown.busy or not (self._was_busy or shown.begun):
            return "busy"
        if shown.calls:
            return "quiet" if all(call.readable for call in shown.calls) else "late_call"
        return "quiet" if self._text.whole.strip() and not self._known else "late_call"

    @property
    def is_answerable(self) -> bool:
        """Whether the page has a field for the result of each call of the turn."""
        return bool(self._last.calls) or not self._called

    def finish(self) -> list[ModelEvent]:
        """The remaining text, the calls and the end.

        Raises `ModelError` if the turn is empty and the page still shows an error.
        """
        rest, written = self._written.finish()
        if unsent := self._text.unsent():
            rest += unsent
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


class _SentText:
    """A text on the page, and how much of it has been sent as events.

    The page formats text while it writes, so text that was already sent can change. Sent text
    cannot be taken back: later events continue after its length.
    """

    def __init__(self) -> None:
        self.whole = ""
        self._sent = ""

    def new(self, grown: Grown) -> str:
        self.whole = grown.applied(self.whole)
        if not self.whole.startswith(self._sent):
            return ""
        new = self.whole[len(self._sent) :]
        self._sent = self.whole
        return new

    def unsent(self) -> str:
        """The unsent rest at the end of a text that changed after it was sent."""
        unsent = self.whole[len(self._sent) :]
        self._sent = self.whole
        return unsent


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
    """The token counts that the page shows; 0 for those that it does not show."""
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
    """The error that the page shows. Its text determines whether it is retryable."""
    text = " ".join(text.split())
    if _QUOTA.search(text):
        return ModelError(text, status=429, retryable=False, code="quota")
    return ModelError(text, status=503, retryable=True, code="page_error")


MARKER = "Request function call:"
_HEAD = re.compile(
    r"\**Request function call:\**\s*`?(?P<name>[\w.:-]+)`?\s*(?:\**Parameters:\**\s*)?"
    r"(?:```(?:json)?\s*)?"
)
_QUOTE = "<ctrl46>"
_NAMESPACE = "default_api"


def clean_name(name: str, known: tuple[str, ...]) -> str:
    """The declared name: without `default_api:`, and completed if the page truncated it."""
    name = name.strip()
    for mark in (":", "."):
        name = name.removeprefix(f"{_NAMESPACE}{mark}")
    if name in known:
        return name
    cut = re.sub(r"(…|\.\.\.)$", "", name)
    whole = [each for each in known if cut and each.startswith(cut)]
    return whole[0] if len(whole) == 1 else name


def clean_arguments(text: str) -> str:
    """The argument text with quotes instead of `<ctrl46>`."""
    return text.strip().replace(_QUOTE, '"')


class WrittenCalls:
    """Separates streamed text from the calls that are written in it.

    Text that may become a call is held back until it is known. The whole is feed + finish.
    """

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known
        self._held = ""
        self._begun = False
        """Whether a call has started: the rest is then held back until the end."""
        self._said = False

    def feed(self, text: str) -> str:
        """The text that is certainly not part of a call."""
        self._held += text
        if not self._known:
            return self._released(len(self._held))
        if self._begun:
            return ""
        start = self._start()
        if start is not None:
            self._begun = True
            return self._released(start)
        return self._released(len(self._held) - _held_back(self._held))

    def finish(self) -> tuple[str, list[FunctionCall]]:
        """The rest of the text, and the calls."""
        text, self._held = self._held, ""
        if not self._begun:
            return text, []
        found = self._from_json(text) or self._from_words(text)
        return found or (text, [])

    def _start(self) -> int | None:
        if not self._said and self._held.lstrip().startswith("{"):
            return 0
        at = self._held.find(MARKER)
        if at < 0:
            return None
        while at and self._held[at - 1] == "*":
            at -= 1
        return at

    def _released(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self._said = self._said or bool(text.strip())
        return text

    def _from_json(self, text: str) -> tuple[str, list[FunctionCall]] | None:
        fields = as_object(_json_of(clean_arguments(text)))
        if fields is None:
            return None
        single = as_object(fields.get("function_call")) or as_object(fields.get("functionCall"))
        several = [single] if single else as_list(fields.get("function_calls")) or []
        calls = [call for item in several if (call := self._call_of(as_object(item)))]
        return ("", calls) if calls else None

    def _call_of(self, item: JsonObject | None) -> FunctionCall | None:
        name = clean_name(as_text((item or {}).get("name")) or "", self._known)
        if item is None or name not in self._known:
            return None
        arguments = item.get("args", item.get("arguments", {}))
        json_text = arguments if isinstance(arguments, str) else compact_json(arguments)
        return FunctionCall(name, json_text, new_call_id())

    def _from_words(self, text: str) -> tuple[str, list[FunctionCall]] | None:
        said: list[str] = []
        calls: list[FunctionCall] = []
        text = text.replace(_QUOTE, '"')
        at = 0
        while (head := _HEAD.search(text, at)) is not None:
            name = clean_name(head["name"], self._known)
            if name not in self._known:
                said.append(text[at : head.end()])
                at = head.end()
                continue
            said.append(text[at : head.start()])
            arguments, at = _object_at(text, head.end())
            calls.append(FunctionCall(name, arguments, new_call_id()))
        said.append(text[at:])
        rest = "".join(said)
        return (rest if rest.strip() else "", calls) if calls else None


def _object_at(text: str, at: int) -> tuple[str, int]:
    """The JSON object at this position and where it ends; `{}` if there is none."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except (ValueError, RecursionError):
        # Invalid JSON: the model gets an error, and the user does not see it.
        return (text[at:].strip() or "{}", len(text)) if text[at : at + 1] == "{" else ("{}", at)
    arguments = text[at:end]
    fence = re.match(r"\s*```", text[end:])
    return arguments, end + (fence.end() if fence else 0)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _held_back(text: str) -> int:
    """How many of the last characters may be the start of a marker."""
    if not text.strip():
        return len(text)
    for length in range(min(len(text), len(MARKER) + 1), 0, -1):
        end = text[-length:]
        if MARKER.startswith(end.lstrip("*")):
            return length
    return 0
