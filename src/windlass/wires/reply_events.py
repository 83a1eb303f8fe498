"""The events of a run from its reply, so that a body is written like a stream. Pure."""

from collections.abc import Iterator

from windlass.content import FunctionCall, Text, Thought
from windlass.events import (
    ModelEvent,
    PartReceived,
    RoundStarted,
    RunEnded,
    RunEvent,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.reply import Reply, RoundRecord

_WITHOUT_CALLS: frozenset[StopReason] = frozenset(
    {"answer", "max_rounds", "budget", "repetition", "content_filter", "malformed_call"}
)
"""When a run ends like this, the calls of its last turn were not run."""


def events_of(reply: Reply, ended_at: float = 0.0) -> Iterator[RunEvent]:
    """The events of a run that ended with this reply, in whole pieces."""
    is_refused = not reply.pending and reply.stop_reason in _WITHOUT_CALLS
    for record in reply.rounds:
        is_last = record is reply.rounds[-1]
        yield RoundStarted(record.number, "awaiting_model_call", is_last and is_refused)
        yield from _turn_events(record)
        for answer in record.answers:
            yield ToolRunEnded(answer.response, answer.outcome)
        if is_last and reply.text != record.message.text:
            yield TextDelta(reply.text)  # the run has replaced an empty answer
    yield RunEnded(reply.stop_reason, reply.usage, len(reply.rounds), time=ended_at)


def _turn_events(record: RoundRecord) -> Iterator[ModelEvent]:
    message, logprobs = record.message, record.logprobs
    number = 0
    for part in message.parts:
        match part:
            case Text():
                yield TextDelta(part.text, part.signature, part.extra or None, logprobs)
                logprobs = None
            case Thought():
                yield ThoughtDelta(part.text, part.signature, part.extra or None)
            case FunctionCall():
                yield ToolCallStarted(number, part.id, part.name)
                yield ToolCallDelta(number, part.json)
                yield ToolCallEnded(number, part)
                number += 1
            case _:
                yield PartReceived(part)
    extra = message.extra or None
    yield TurnEnded(record.finish, record.usage, message_extra=extra, logprobs=logprobs)
