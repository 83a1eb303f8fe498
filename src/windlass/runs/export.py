"""Exports a run as one JSON file: its messages, rounds, calls and events. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, Message, Usage
from windlass.errors import ConfigError
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    FinishReason,
    Outcome,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    RunResumed,
    TextDelta,
    ThoughtDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
    event_to_dict,
)
from windlass.runs.records import RunRecord

FORMAT = "windlass.run"
VERSION = 1


class ExportedApproval(Struct, kw_only=True):
    """An approval of a call. Without `answered`, it is pending or was never decided."""

    asked: float
    answered: float | None = None
    approved: bool | None = None
    arguments: dict[str, Any] | None = None
    """The arguments that replaced those of the model, if any."""
    reason: str | None = None


class ExportedCall(Struct, kw_only=True):
    """A call and its result. Times are Unix seconds."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """The model's arguments; the text if it is not a JSON object."""
    approval: ExportedApproval | None = None
    started: float | None = None
    ended: float | None = None
    seconds: float = 0.0
    """The duration of the tool itself."""
    outcome: Outcome | None = None
    response: dict[str, Any] | None = None
    """`{"output": value}` or `{"error": text}`, not shortened."""
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    crashed: bool = False
    """Whether the tool raised an unexpected exception. The process logs have the traceback."""


class ExportedRound(Struct, kw_only=True):
    """One request to the model, the model's turn, and its calls."""

    number: int
    started: float
    ended: float | None = None
    """When the model's turn ended; its tools may have ended later."""
    superseded: bool = False
    """Whether the round was interrupted and restarted: the next round has the same number."""
    text: str = ""
    thoughts: str = ""
    finish: FinishReason | None = None
    usage: Usage = Usage()
    calls: list[ExportedCall] = []


class Export(Struct, kw_only=True):
    """The contents of an export file."""

    format: str
    version: int
    run: RunRecord
    messages: list[dict[str, Any]]
    """The conversation. `Message.from_dict` reads each message."""
    rounds: list[ExportedRound]
    resumed: list[float]
    """When another process resumed the run."""
    usage: Usage
    events: list[RunEvent]


class _Head(Struct):
    format: str
    version: int


def exported(
    record: RunRecord, events: Sequence[RunEvent], messages: Iterable[Message]
) -> dict[str, Any]:
    """Returns the export of a run as JSON values; `messages` is the conversation at its end."""
    rounds = exported_rounds(events)
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": msgspec.to_builtins(record),
        "messages": [message.to_dict() for message in messages],
        "rounds": [_plain(each) for each in rounds],
        "resumed": [event.time for event in events if isinstance(event, RunResumed)],
        "usage": msgspec.structs.asdict(_sum(rounds)),
        "events": [event_to_dict(event) for event in events],
    }


def read_export(data: bytes) -> Export:
    """Reads an export file. Raises `ConfigError` if the data is not a valid export."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.ValidationError:
        head = _Head("", 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not a run export: it is not JSON ({error})") from error
    if head.format != FORMAT:
        raise ConfigError(
            f'not a run export: it has no "format": "{FORMAT}";'
            " `windlass runs export ID -o FILE` writes one"
        )
    if head.version > VERSION:
        raise ConfigError(
            f"the run export has version {head.version}, but this Windlass reads up to {VERSION}:"
            " update Windlass"
        )
    try:
        return msgspec.json.decode(data, type=Export)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"the run export is damaged: {error}") from error


def exported_rounds(events: Iterable[RunEvent]) -> list[ExportedRound]:
    """Returns the rounds of a run. A restarted round appears twice: interrupted, then complete."""
    folded = _Rounds()
    for event in events:
        folded.add(event)
    folded.finish()
    return folded.rounds


class _Rounds:
    """Folds the events of a run into rounds. Events before the first round belong to none."""

    def __init__(self) -> None:
        self.rounds: list[ExportedRound] = []
        self._last = ExportedRound(number=0, started=0.0)
        self._text: list[str] = []
        self._thoughts: list[str] = []

    def add(self, event: RunEvent) -> None:
        match event:
            case RoundStarted() | RoundRestarted():
                self.finish()
                self._last.superseded = isinstance(event, RoundRestarted)
                self._last = ExportedRound(number=event.round, started=event.time)
                self.rounds.append(self._last)
            case TextDelta():
                self._text.append(event.text)
            case ThoughtDelta():
                self._thoughts.append(event.text)
            case TurnEnded():
                self._last.ended, self._last.finish = event.time, event.finish
                self._last.usage = event.usage
            case ToolCallEnded(call=call):
                self._call(call)
            case ApprovalRequested(call=call):
                self._call(call).approval = ExportedApproval(asked=event.time)
            case ApprovalResolved():
                self._decide(event)
            case ToolRunStarted(call=call):
                self._call(call).started = event.time
            case ToolRunEnded():
                self._answer(event)
            case _:
                pass

    def finish(self) -> None:
        """Joins the text and the thoughts of the last round."""
        self._last.text, self._last.thoughts = "".join(self._text), "".join(self._thoughts)
        self._text, self._thoughts = [], []

    def _call(self, call: FunctionCall) -> ExportedCall:
        known = next((each for each in self._last.calls if each.id == call.id), None)
        if known is None:
            known = ExportedCall(id=call.id, name=call.name, arguments=call.arguments)
            self._last.calls.append(known)
        return known

    def _decide(self, event: ApprovalResolved) -> None:
        for call in self._last.calls:
            if call.id == event.call_id and call.approval is not None:
                call.approval.answered, call.approval.approved = event.time, event.approved
                call.approval.arguments = event.arguments
                call.approval.reason = event.reason

    def _answer(self, event: ToolRunEnded) -> None:
        call = self._call(FunctionCall(event.response.name, id=event.response.id))
        call.ended, call.seconds = event.time, event.seconds
        call.outcome, call.response = event.outcome, event.response.response
        call.attempts, call.cached = event.attempts, event.cached
        call.effect_unknown, call.crashed = event.effect_unknown, event.crashed


def _sum(rounds: Iterable[ExportedRound]) -> Usage:
    return sum((each.usage for each in rounds), Usage())


def _plain(round_: ExportedRound) -> dict[str, Any]:
    """Converts the round to JSON values, with all fields of `usage`, also those that are 0."""
    plain = msgspec.to_builtins(round_, enc_hook=str)
    return {**plain, "usage": msgspec.structs.asdict(round_.usage)}
