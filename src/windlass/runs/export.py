"""A run as one JSON file: what was said and done, when, and the events themselves. Pure."""

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

__all__ = [
    "FORMAT",
    "VERSION",
    "Export",
    "ToldApproval",
    "ToldCall",
    "ToldRound",
    "exported",
    "read_export",
    "told_rounds",
]

FORMAT = "windlass.run"
VERSION = 1


class ToldApproval(Struct, kw_only=True):
    """Somebody's yes or no; without an answer, it is waited for or never came."""

    asked: float
    answered: float | None = None
    approved: bool | None = None
    arguments: dict[str, Any] | None = None
    """What the person put in place of the model's arguments."""
    reason: str | None = None


class ToldCall(Struct, kw_only=True):
    """A call, from the model's words to the answer that it got. Times are Unix seconds."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """As the model wrote them; the text alone where that is no JSON object."""
    approval: ToldApproval | None = None
    started: float | None = None
    ended: float | None = None
    seconds: float = 0.0
    """What the tool itself took."""
    outcome: Outcome | None = None
    response: dict[str, Any] | None = None
    """`{"output": value}` or `{"error": text}`, whole."""
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    crashed: bool = False
    """It raised an unexpected exception: the log of its process has the traceback."""


class ToldRound(Struct, kw_only=True):
    """One request to the model and what came of it."""

    number: int
    started: float
    ended: float | None = None
    """When the model's turn was over; its tools may have run on."""
    superseded: bool = False
    """It was cut off, and the model was asked again: the next round has the same number."""
    text: str = ""
    thoughts: str = ""
    finish: FinishReason | None = None
    usage: Usage = Usage()
    calls: list[ToldCall] = []


class Export(Struct, kw_only=True):
    """What an export holds."""

    format: str
    version: int
    run: RunRecord
    messages: list[dict[str, Any]]
    """The conversation, each message as `Message.from_dict` reads it."""
    rounds: list[ToldRound]
    resumed: list[float]
    """When another process went on with the run."""
    usage: Usage
    events: list[RunEvent]


class _Head(Struct):
    format: str
    version: int


def exported(
    record: RunRecord, events: Sequence[RunEvent], messages: Iterable[Message]
) -> dict[str, Any]:
    """The export of a run in plain JSON values; `messages` are the conversation at its end."""
    rounds = told_rounds(events)
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
    """The export in a file's bytes. Raises `ConfigError` for anything else."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.ValidationError:
        head = _Head("", 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not an export of a run: it is not JSON ({error})") from error
    if head.format != FORMAT:
        raise ConfigError(
            f'not an export of a run: it has no "format": "{FORMAT}";'
            " `windlass runs export ID -o FILE` writes one"
        )
    if head.version > VERSION:
        raise ConfigError(
            f"an export of a later version ({head.version}, and this Windlass knows {VERSION}):"
            " update Windlass"
        )
    try:
        return msgspec.json.decode(data, type=Export)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"an export of a run, but damaged: {error}") from error


def told_rounds(events: Iterable[RunEvent]) -> list[ToldRound]:
    """The rounds of a run; one that was cut off and asked again is there twice."""
    told = _Rounds()
    for event in events:
        told.add(event)
    told.finish()
    return told.rounds


class _Rounds:
    """The events of a run, folded. What comes before the first round belongs to none."""

    def __init__(self) -> None:
        self.rounds: list[ToldRound] = []
        self._last = ToldRound(number=0, started=0.0)
        self._text: list[str] = []
        self._thoughts: list[str] = []

    def add(self, event: RunEvent) -> None:
        match event:
            case RoundStarted() | RoundRestarted():
                self.finish()
                self._last.superseded = isinstance(event, RoundRestarted)
                self._last = ToldRound(number=event.round, started=event.time)
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
                self._call(call).approval = ToldApproval(asked=event.time)
            case ApprovalResolved():
                self._decide(event)
            case ToolRunStarted(call=call):
                self._call(call).started = event.time
            case ToolRunEnded():
                self._answer(event)
            case _:
                pass

    def finish(self) -> None:
        """Puts together what the last round has said."""
        self._last.text, self._last.thoughts = "".join(self._text), "".join(self._thoughts)
        self._text, self._thoughts = [], []

    def _call(self, call: FunctionCall) -> ToldCall:
        known = next((each for each in self._last.calls if each.id == call.id), None)
        if known is None:
            known = ToldCall(id=call.id, name=call.name, arguments=call.arguments)
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


def _sum(rounds: Iterable[ToldRound]) -> Usage:
    return sum((each.usage for each in rounds), Usage())


def _plain(round_: ToldRound) -> dict[str, Any]:
    """With every field: whoever reads it asks for `.usage.input_tokens`."""
    plain = msgspec.to_builtins(round_, enc_hook=str)
    return {**plain, "usage": msgspec.structs.asdict(round_.usage)}
