"""A run in words, as it goes: events in, pieces of text out. Pure: nothing is written here."""

from collections.abc import Iterable
from typing import NamedTuple

from windlass.cli.executing import Executing
from windlass.cli.runs.tones import Tone
from windlass.cli.runs.words import (
    OUTCOMES,
    duration,
    ended_words,
    outcome_notes,
    shortened,
    tokens,
)
from windlass.content import FileData, FunctionCall, InlineData
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    TextDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
)
from windlass.runs.records import title_of

__all__ = ["Piece", "Teller"]


class Piece(NamedTuple):
    """Something to write. What the model says goes to stdout, and all else is told about it."""

    text: str
    tone: Tone = "quiet"
    is_answer: bool = False


class Teller:
    """Tells one run to people. A line of the answer is ended before anything else is said."""

    def __init__(self, run_id: str, began: float = 0.0, *, live: bool = True) -> None:
        """`live` says that an approval which is asked for can still be given."""
        self._run_id = run_id
        self._began = began
        self._live = live
        self._calls: dict[str, FunctionCall] = {}
        self._executing = Executing()
        self._line_is_open = False
        self._has_spoken = False
        """In this round."""

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Knows the calls of events that are not told."""
        for event in events:
            if isinstance(event, ToolCallEnded | ToolRunStarted):
                self._calls[event.call.id] = event.call

    def tell(self, event: RunEvent) -> list[Piece]:
        """What to write of the next event."""
        if isinstance(event, TextDelta):
            return self._speak(event.text)
        if isinstance(event, RoundStarted):
            self._has_spoken = False
            self._executing.said(event)
            return self._line_ended()
        pieces = self._told(event)
        return [*self._line_ended(), *pieces] if pieces else []

    def finish(self) -> list[Piece]:
        """What to write when no more comes, for whatever reason."""
        return self._line_ended()

    def _speak(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._line_is_open = not text.endswith("\n")
        self._has_spoken = True
        return [Piece(text, "plain", is_answer=True)]

    def _line_ended(self) -> list[Piece]:
        if not self._line_is_open:
            return []
        self._line_is_open = False
        return [Piece("\n", "plain", is_answer=True)]

    def _told(self, event: RunEvent) -> list[Piece]:
        match event:
            case RunStarted():
                return self._begin(event)
            case RunResumed():
                said = "The process was gone. Another one goes on with the run."
                return [_line(said, "warning")]
            case RoundRestarted():
                return self._restart(event)
            case Status():
                return self._execute(event)
            case PartReceived():
                return [_line(_label(event))]
            case ToolCallEnded() | ToolRunStarted():
                self.remember([event])
                return self._execute(event)
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                return [_line("  " + shortened(f"{name}:{share} {message or ''}"))]
            case ToolRunEnded():
                return [self._tool_ended(event)]
            case ApprovalRequested() | ApprovalResolved():
                return [self._approval(event)]
            case RunEnded():
                return self._end(event)
            case _:
                return []

    def _execute(self, event: RunEvent) -> list[Piece]:
        words = self._executing.said(event)
        return [_line(shortened(words))] if words else []

    def _begin(self, event: RunStarted) -> list[Piece]:
        self._began = event.time
        asked = title_of(event.messages)
        return [_line(shortened(f"{event.run_id}, {event.model}: {asked}"))]

    def _restart(self, event: RoundRestarted) -> list[Piece]:
        """The mark stands where the text stands: whoever reads that reads this too."""
        said = f"[superseded: round {event.round} is asked again, and what it said above is void]"
        spoken, self._has_spoken = self._has_spoken, False
        if spoken:
            return [Piece(f"{said}\n", "warning", is_answer=True)]
        return [_line(f"Round {event.round} is asked again.")]

    def _tool_ended(self, event: ToolRunEnded) -> Piece:
        response = event.response
        call = self._calls.get(response.id)
        notes = outcome_notes(
            event.outcome,
            cached=event.cached,
            attempts=event.attempts,
            effect_unknown=event.effect_unknown,
            crashed=event.crashed,
        )
        how = ", ".join([*notes, duration(event.seconds)])
        called = f"{shortened(response.name)} {shortened(call.json) if call else ''}".rstrip()
        result = shortened(response.text if response.error is None else response.error)
        return _line(f"  {called} -> {result} ({how})", OUTCOMES[event.outcome][1])

    def _approval(self, event: ApprovalRequested | ApprovalResolved) -> Piece:
        if isinstance(event, ApprovalRequested):
            call = event.call
            asked = f"  {shortened(call.name)} {shortened(call.json)} waits for an approval"
            how = f": windlass runs approve {self._run_id} {shortened(call.id)}"
            return _line(asked + (how if self._live else ""), "warning")
        call = self._calls.get(event.call_id)
        name = shortened(call.name if call else event.call_id)
        reason = f": {shortened(event.reason)}" if event.reason else ""
        if not event.approved:
            return _line(f"  {name}: denied{reason}", "warning")
        changed = " with other arguments" if event.arguments is not None else ""
        return _line(f"  {name}: approved{changed}{reason}")

    def _end(self, event: RunEnded) -> list[Piece]:
        rounds = f"{event.rounds} {'round' if event.rounds == 1 else 'rounds'}"
        taken = [duration(event.time - self._began)] if self._began else []
        summary = _line(", ".join([tokens(event.usage), rounds, *taken]))
        words = ended_words(event.reason, event.error)
        if not words:
            return [summary]
        if event.reason == "error" and not event.usage.total_tokens:
            return [_line(shortened(words, None), "bad")]
        tone: Tone = "bad" if event.reason == "error" else "warning"
        return [summary, _line(shortened(words, None), tone)]


def _line(text: str, tone: Tone = "quiet") -> Piece:
    return Piece(f"{text}\n", tone)


def _label(event: PartReceived) -> str:
    match event.part:
        case InlineData(data=data, mime_type=kind):
            return shortened(f"[{kind}, {len(data)} bytes]")
        case FileData(uri=uri):
            return shortened(f"[{uri}]")
        case part:
            return f"[{type(part).__name__}]"
