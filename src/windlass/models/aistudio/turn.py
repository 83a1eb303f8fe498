"""The model's turn, read from snapshots of the page. Pure.

The observer in the page sends a snapshot whenever the new turn changes; texts are sent as the
difference to the last snapshot. Calls are reported once, when the turn has settled, because the
page may redraw them until then.

A turn that cannot be read is an error, never an empty or a partial answer: it names the element of
the table (selectors.py) that no longer matches the page.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, Usage, new_call_id
from windlass.errors import ModelError, NativeModeUnavailable
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
from windlass.models.aistudio.selectors import VERSION, selectors_of
from windlass.models.aistudio.written import WrittenCalls, clean_arguments, clean_name

Wait: TypeAlias = Literal["busy", "quiet", "late_call"]
"""What a turn waits for: its end, no more changes, or a call that may still appear."""


class Patience(Struct, frozen=True):
    """Seconds without a change after which the turn of an idle page counts as complete."""

    quiet: float = 0.5
    """If everything expected is there."""
    late_call: float = 3.2
    """If a call may still appear or be filled, which can take up to three seconds."""


class ShownCall(Struct, frozen=True, array_like=True):
    name: str
    arguments: str
    missing: str = ""
    """The element of the call that is not found; empty if all are."""

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
    """The answer, as Markdown."""
    tail: int = 0
    """How many characters at the end of the text only close its marks."""
    thought: Grown | None = None
    calls: tuple[ShownCall, ...] = ()
    problem: str = ""
    standing: str = ""
    """An error that was visible before the turn and still is."""
    tokens: str = ""
    unread: str = ""
    """What the new turn shows beside the parts that were read."""
    unsure: str = ""
    """Why the new turn cannot be told from earlier ones."""


def snapshot_of(report: str) -> tuple[int, Snapshot]:
    """The number of the observed turn, and its snapshot."""
    return msgspec.convert(decode_json(report.encode("utf-8", "replace")), tuple[int, Snapshot])


class PageTurn:
    """One turn of the model, from snapshots. `known` are the functions that it can call.

    `bare` are those of them that have no parameters. `others` are functions of the request that it
    cannot call now: the loop refuses their calls. Without `live`, the text is sent at the end.
    """

    def __init__(
        self,
        known: tuple[str, ...],
        *,
        bare: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        live: bool = True,
    ) -> None:
        self._known, self._bare, self._live = known, bare, live
        self._named = (*known, *others)
        self._text = SentText()
        self._thought = SentText()
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
        if snapshot.thought:
            self._thought.grow(snapshot.thought)
            if new := self._thought.new(self._thought.whole):
                events.append(ThoughtDelta(new))
        if snapshot.text:
            self._text.grow(snapshot.text)
        if self._live:
            new = self._text.new(self._text.settled(snapshot.tail))
            if new and (said := self._written.feed(new)):
                events.append(TextDelta(said))
        return events

    @property
    def waits_for(self) -> Wait:
        """What the turn waits for. Unless `busy`, the turn ends if nothing changes in time."""
        shown = self._last
        if shown.busy or not (self._was_busy or shown.begun):
            return "busy"
        if shown.unread or shown.unsure:
            return "late_call"
        if shown.calls:
            return "quiet" if all(call.readable for call in shown.calls) else "late_call"
        return "quiet" if self._text.whole.strip() and not self._known else "late_call"

    @property
    def is_answerable(self) -> bool:
        """Whether the page has a field for the result of each call of the turn."""
        return bool(self._last.calls) or not self._called

    def finish(self) -> list[ModelEvent]:
        """The remaining text, the calls and the end.

        Raises `ModelError` if the turn is empty or a part of it cannot be read, and
        `NativeModeUnavailable` if that part is a call.
        """
        self._check_readable()
        calls = [self._call(call) for call in self._last.calls]
        rest = self._written.feed(self._text.rest())
        more, written = self._written.finish()
        rest += more
        calls = calls or written
        if not calls and not self._text.whole.strip():
            raise self._empty()
        events: list[ModelEvent] = [TextDelta(rest)] if rest else []
        events += _call_events(calls)
        self._called = bool(calls)
        usage = usage_shown(self._last.tokens)
        events.append(TurnEnded("tool_calls" if calls else "stop", usage))
        return events

    def _check_readable(self) -> None:
        shown = self._last
        if shown.unsure:
            raise unreadable(
                f"the new turn cannot be told from earlier ones: {shown.unsure}", "turn"
            )
        if shown.unread:
            raise unreadable(
                f"a part of the answer cannot be read: {shown.unread}", "text", "call", "thought"
            )
        if not self._was_busy and (shown.begun or shown.calls):
            raise unreadable(
                "the page never showed that it was generating, so the answer may be incomplete",
                "generating",
                "run_button",
            )

    def _empty(self) -> ModelError:
        """The error of a turn without an answer: the page's own, if it shows one."""
        if self._last.standing:
            return problem_shown(self._last.standing)
        return unreadable(
            "the page finished without an answer that can be read", "turn", "text", "call"
        )

    def _call(self, shown: ShownCall) -> FunctionCall:
        if shown.missing:
            raise _call_unreadable("the page shows a call that cannot be read", shown.missing)
        name = clean_name(shown.name, self._named)
        if name not in self._named:
            known = ", ".join(self._named) or "none"
            raise _call_unreadable(
                f"the page shows a call of {shown.name[:80]!r}, which is no function of this"
                f" request ({known})",
                "call_name",
            )
        arguments = clean_arguments(shown.arguments)
        if not arguments:
            if name not in self._bare:
                raise _call_unreadable(
                    f"the page shows a call of {name!r} without its arguments", "call_arguments"
                )
            arguments = "{}"
        return FunctionCall(name, arguments, new_call_id())


def unreadable(reason: str, *elements: str) -> ModelError:
    """The error for a turn that cannot be read; `elements` are the rows of the table to check."""
    return ModelError(
        f"{reason}; {rows_of(elements)}", status=502, retryable=False, code="page_unreadable"
    )


def _call_unreadable(reason: str, element: str) -> NativeModeUnavailable:
    text = f"{reason}; {rows_of((element,))}"
    return NativeModeUnavailable(text, ModelError(text, status=502))


def rows_of(elements: Sequence[str]) -> str:
    """The rows of the table that may no longer match the page, as a part of an error."""
    rows = ", ".join(f"{name!r} ({selectors_of(name)[0]})" for name in elements)
    return (
        f"the page may have changed: check the element{'s' if len(elements) > 1 else ''} {rows}"
        f" with `windlass aistudio doctor` (selectors of {VERSION})"
    )


class SentText:
    """A text on the page, and how much of it has been sent as events.

    The page formats text while it writes: `**bo` becomes a bold word when it is closed. Sent text
    cannot be taken back, so text that may still be formatted is held back.
    """

    def __init__(self) -> None:
        self.whole = ""
        self._sent = ""
        self._longest = self._beginning = ""

    def grow(self, grown: Grown) -> None:
        self.whole = grown.applied(self.whole)
        self._longest = max(self._longest, self.whole, key=len)
        if len(self.whole) > _PLACEHOLDER:
            self._beginning = self._beginning or self.whole[:_PLACEHOLDER]

    def settled(self, tail: int) -> str:
        """The text up to the first place in its last block that may still change."""
        text = self.whole[: len(self.whole) - tail] if tail else self.whole
        start = _last_block(text)
        block = text[start:]
        if _MAYBE_BLOCK.match(block):
            return text[:start]
        opened = _MAYBE_MARK.search(block)
        return text[: start + opened.start()] if opened else text

    def new(self, settled: str) -> str:
        """The part of the settled text that was not sent yet."""
        if not settled.startswith(self._sent):
            return ""
        new = settled[len(self._sent) :]
        self._sent = settled
        return new

    def rest(self) -> str:
        """The unsent rest at the end. Raises `ModelError` if the page changed the sent words."""
        at = _continuation(self._sent, self.whole)
        # A page that shows only the end of a long answer has lost the beginning.
        is_cut = self._beginning != "" and (
            _continuation(self._beginning, self.whole) is None
            or _continuation(self._longest, self.whole) is None
        )
        if at is None or is_cut:
            raise unreadable("the page changed words of the answer after they were sent", "text")
        self._sent = self.whole
        return self.whole[at:]


_PLACEHOLDER = 40
"""A text of this length may be only a placeholder, which the answer replaces."""
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})", re.MULTILINE)
_MAYBE_BLOCK = re.compile(
    r"\s*(?:[|#>]|[-*+](?:\s|\Z)|[-=*_`~$]{1,3}\Z|\d{1,9}[.)]?\Z|<|\[[ x]?\]?\Z)"
)
"""The start of a line that may still become a heading, a table, a list or a quotation."""
_MAYBE_MARK = re.compile(r"[*_`~\[\]!<$\\|]|https?:\S*\Z")
"""The start of what may still become bold, code, a link or a formula."""


def _last_block(text: str) -> int:
    """Where the last block of the text starts. A code block is one, whatever is in it."""
    fences = list(_FENCE.finditer(text))
    if len(fences) % 2:
        # The text in an open code block does not change: its last line is the last block.
        return max(text.rfind("\n") + 1, fences[-1].end())
    after = text.rfind("\n\n")
    return max(after + 2 if after >= 0 else 0, fences[-1].end() if fences else 0)


def _continuation(sent: str, whole: str) -> int | None:
    """Where `whole` continues after `sent`; marks and spaces may differ. None if words differ."""
    if whole.startswith(sent):
        return len(sent)
    at = 0
    for letter in filter(str.isalnum, sent):
        while at < len(whole) and not whole[at].isalnum():
            at += 1
        if at == len(whole) or whole[at] != letter:
            return None
        at += 1
    return at


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
