"""The history of a run, folded from its log. A resumed run continues from it. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from windlass.content import FunctionCall, Message
from windlass.errors import WindlassError
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    OutputRejected,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    StopReason,
    TextDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.loop.approval import Approval
from windlass.loop.transcript import Transcript
from windlass.loop.turn import Turn, TurnBuilder
from windlass.reply import Reply, ToolAnswer, interrupted, not_begun
from windlass.tool import Tool


class RecordedCall(Struct):
    """The recorded progress of a call."""

    started: ToolRunStarted | None = None
    asked_at: float | None = None
    """When an approval was requested, in seconds since the run began."""
    decision: Approval | None = None
    answer: ToolAnswer | None = None


_UNKNOWN = RecordedCall()
_HANDS_BACK: tuple[StopReason, ...] = ("calls", "max_rounds", "budget", "error")
"""The stop reasons of runs that may leave calls to the caller."""


class RecordedRound(Struct):
    """One request to the model. Without a turn it was interrupted, and is requested again."""

    number: int
    calls: dict[str, RecordedCall]
    turn: Turn | None = None
    partial: Message | None = None
    announced: bool = False
    added_text: str = ""
    """The text with which the run replaced an empty answer."""
    rejected: OutputRejected | None = None


class History:
    """The events of one run, folded. `refusal`, if set, is why the run may do nothing new."""

    def __init__(self, events: Iterable[RunEvent], refusal: WindlassError | None = None) -> None:
        self.refusal = refusal
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.rounds: dict[int, RecordedRound] = {}
        self.call_ids: set[str] = set()
        self.resumptions = 0
        """How often the run was resumed since it last made progress."""
        self.seconds = 0.0
        """Time from the first event to the last. A clock that steps back subtracts nothing."""
        self.last_time: float | None = None
        """The time of the last event."""
        self._round = RecordedRound(0, {})
        self._builder = TurnBuilder()
        for event in events:
            self._add(event)
        if self._round.turn is None:
            self._round.partial = self._builder.partial()

    @property
    def input_count(self) -> int:
        """The number of messages that the run began with."""
        return len(self.started.messages) if self.started else 0

    @property
    def waiting_calls(self) -> list[str]:
        """The ids of the calls that wait for an approval."""
        calls = self._round.turn.calls if self._round.turn else ()
        known = [(call.id, self._round.calls.get(call.id)) for call in calls]
        return [
            call_id
            for call_id, record in known
            if record and record.asked_at is not None and not (record.decision or record.answer)
        ]

    def waits_for(self, call_id: str) -> bool:
        """Whether the call waits for an approval, also while its turn is incomplete."""
        calls = (each.calls[call_id] for each in self.rounds.values() if call_id in each.calls)
        return any(
            call.asked_at is not None and call.decision is None and call.answer is None
            for call in calls
        )

    @property
    def only_waits(self) -> bool:
        """Whether the run only waits for approvals: neither a tool nor a turn was interrupted."""
        cut = any(each.started and not each.answer for each in self._round.calls.values())
        return bool(self.waiting_calls) and not cut

    def reply(
        self, tools: Mapping[str, Tool] | None = None, max_result_chars: int = 50_000
    ) -> Reply:
        """Returns the reply of an ended run, equal to the one that the run itself returned."""
        assert self.started is not None
        transcript = Transcript(self.started.messages, tools or {}, max_result_chars)
        for record in self.rounds.values():
            if record.turn is None:
                if record.partial is not None:
                    transcript.add_partial(record.partial)
                continue
            transcript.add_turn(record.turn)
            if record.turn.calls:
                given = [(call, self._answer(record, call)) for call in record.turn.calls]
                answers = [answer for _, answer in given if answer is not None]
                pending = [call for call, answer in given if answer is None]
                transcript.add_answers(answers, pending)
            if record.added_text:
                transcript.add_text(record.added_text)
            if record.rejected is not None:
                transcript.add_feedback(record.rejected.message)
        reason = self.ended.reason if self.ended else "stopped"
        return transcript.reply(reason, self.started.run_id, self.started.model)

    def _answer(self, record: RecordedRound, call: FunctionCall) -> ToolAnswer | None:
        """Returns the call's answer; None if the caller has to answer it.

        Older versions could stop a run before all its calls had answers. Its chat must still work.
        """
        known = record.calls.get(call.id, _UNKNOWN)
        if known.answer is not None or self.ended is None or self.ended.reason in _HANDS_BACK:
            return known.answer
        return interrupted(call) if known.started else not_begun(call)

    def _add(self, event: RunEvent) -> None:
        if self.last_time is not None and event.time > self.last_time:
            self.seconds += event.time - self.last_time
        self.last_time = event.time
        match event:
            case RunStarted():
                self.started = event
            case RunResumed():
                self.resumptions = event.attempt
            case RunEnded():
                self.ended = event
            case RoundStarted() | RoundRestarted():
                self._round = self.rounds[event.round] = RecordedRound(event.round, {})
                self._builder = TurnBuilder()
            case Status():
                self._round.announced = self._round.turn is not None
            case TextDelta() if self._round.turn is not None:
                self._round.added_text += event.text
            case TurnEnded():
                self._builder.add(event)
                self._round.turn = self._builder.turn()
                self.resumptions = 0
            case ToolRunStarted():
                self._call(event.call.id).started = event
            case ToolRunEnded():
                self._call(event.response.id).answer = ToolAnswer(
                    event.response,
                    event.outcome,
                    event.seconds,
                    event.attempts,
                    event.cached,
                    event.effect_unknown,
                    event.crashed,
                )
                if event.outcome != "interrupted":  # a tool that crashes its process is no progress
                    self.resumptions = 0
            case ApprovalRequested():
                self._call(event.call.id).asked_at = self.seconds
            case ApprovalResolved():
                self._call(event.call_id).decision = Approval(
                    event.approved, event.arguments, event.reason
                )
            case OutputRejected():
                self._round.rejected = event
            case ToolRunProgress():
                pass
            case _:
                if isinstance(event, ToolCallStarted):
                    self.call_ids.add(event.id)
                elif isinstance(event, ToolCallEnded):
                    self.call_ids.add(event.call.id)
                self._builder.add(event)

    def _call(self, call_id: str) -> RecordedCall:
        return self._round.calls.setdefault(call_id, RecordedCall())
