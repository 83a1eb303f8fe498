"""The events of a run: one tagged union, with numbers.

A "call" is what the model asks for; a "run" is what Windlass executes. A model yields
`ModelEvent`s. The run adds its own events and numbers all of them, so that a reader can continue
after any number. An event has `seq` 0 until it is in a run's log.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, FunctionResponse, Message, Usage
from windlass.jsontext import encode_json

__all__ = [
    "ApprovalRequested",
    "ApprovalResolved",
    "BudgetName",
    "Event",
    "EventType",
    "FinishReason",
    "ModelEvent",
    "Outcome",
    "OutputRejected",
    "PartReceived",
    "Phase",
    "RoundRestarted",
    "RoundStarted",
    "RunEnded",
    "RunEvent",
    "RunResumed",
    "RunStarted",
    "Status",
    "StopReason",
    "TextDelta",
    "ThoughtDelta",
    "ToolCallDelta",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolRunEnded",
    "ToolRunProgress",
    "ToolRunStarted",
    "TurnEnded",
    "event_from_json",
    "event_to_dict",
    "event_to_json",
    "event_to_json_bytes",
    "event_to_sse",
    "joined_logprobs",
]

EventType = Literal[
    "content",  # text of the answer, in `text`
    "thought",  # the model's reasoning, in `text`
    "status",  # a sentence for the user, in `message`
    "progress",  # a report of a running tool
    "tool_call",  # a call, while the model writes it and when it starts
    "tool_result",  # the result of a call
    "control",  # everything else
]
"""A handler with two branches works: `content` always has `text`, `status` has `message`."""

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "malformed_call", "other"]
"""Why the model ended its turn. The calls, and not this reason, decide whether tools run."""

StopReason = Literal[
    "answer",  # the model answered without further calls
    "calls",  # calls were returned to the caller, who runs them
    "max_rounds",  # the round limit was reached
    "budget",  # a budget of tokens or cost was used up
    "repetition",  # the model repeated a failing call too often
    "length",  # the output limit truncated the answer
    "content_filter",  # the provider withheld the answer
    "malformed_call",  # the provider could not parse its model's call
    "deadline",  # the run's time limit was reached
    "stopped",  # a client stopped the run
    "error",  # the run failed; `error` has the reason
]

BudgetName = Literal["max_tokens_total", "max_cost", "key"]
"""The budget that ended a run: one of its own, or that of its key in a gateway."""

Phase = Literal["awaiting_model_call", "executing_tools", "awaiting_final_response", "ended"]

Outcome = Literal[
    "ok",
    "error",  # the tool failed, or raised ToolError
    "invalid_arguments",
    "unknown_tool",
    "timeout",
    "denied",  # a person or a policy denied the call
    "stopped",  # the run was stopped while the tool was running
    "interrupted",  # the process exited while the tool was running; it does not run again
    "not_run",  # the call did not start; the response has the reason
]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    """The fields of every event: its number in the run and its time (Unix seconds)."""

    type: ClassVar[EventType] = "control"
    done: ClassVar[bool] = False
    """True only for the last event of a run."""

    seq: int = 0
    time: float = 0.0


# Events of a model.


class TextDelta(Event, frozen=True, omit_defaults=True, tag="text_delta"):
    """A piece of text. A delta with a signature is a separate part: signatures never move."""

    type: ClassVar[EventType] = "content"
    text: str
    signature: str | None = None
    extra: dict[str, Any] | None = None
    logprobs: dict[str, Any] | None = None
    """Log probabilities, if requested: `{"content": [{"token", "logprob", ...}]}`."""
    about: dict[str, Any] | None = None
    """Facts about the whole answer (`system_fingerprint`); on a turn's first event."""


class ThoughtDelta(Event, frozen=True, omit_defaults=True, tag="thought_delta"):
    """A piece of the model's reasoning."""

    type: ClassVar[EventType] = "thought"
    text: str
    signature: str | None = None
    extra: dict[str, Any] | None = None
    about: dict[str, Any] | None = None


class PartReceived(Event, frozen=True, omit_defaults=True, tag="part_received"):
    """A whole part that is not streamed in pieces: an image, or a provider's own kind.

    It has no text, so its type is not `content`.
    """

    part: AnyPart


class ToolCallStarted(Event, frozen=True, omit_defaults=True, tag="tool_call_started"):
    """The model starts call number `index` of this turn (0, 1, ...)."""

    type: ClassVar[EventType] = "tool_call"
    index: int
    id: str
    name: str
    about: dict[str, Any] | None = None


class ToolCallDelta(Event, frozen=True, omit_defaults=True, tag="tool_call_delta"):
    """The next piece of the call's argument text."""

    type: ClassVar[EventType] = "tool_call"
    index: int
    json: str


class ToolCallEnded(Event, frozen=True, omit_defaults=True, tag="tool_call_ended"):
    """The call is complete: `call.json` has all of its pieces."""

    type: ClassVar[EventType] = "tool_call"
    index: int
    call: FunctionCall


class TurnEnded(Event, frozen=True, omit_defaults=True, tag="turn_ended"):
    """The last event of every turn. The run may continue."""

    finish: FinishReason
    usage: Usage = Usage()
    detail: str | None = None
    """The provider's own finish reason, or its message about it."""
    message_extra: dict[str, Any] | None = None
    """Provider fields of the whole message, sent back to the provider with the history."""
    about: dict[str, Any] | None = None
    """Facts about the whole answer that were not on the first event."""
    logprobs: dict[str, Any] | None = None
    """Log probabilities that belong to no text."""


ModelEvent: TypeAlias = (
    TextDelta
    | ThoughtDelta
    | PartReceived
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallEnded
    | TurnEnded
)


# Events of the run.


class RunStarted(Event, frozen=True, omit_defaults=True, tag="run_started"):
    """The first event of every run."""

    run_id: str
    model: str
    messages: tuple[Message, ...]
    max_rounds: int | None = None
    """The maximum number of rounds with tools; None in older logs."""


class RoundStarted(Event, frozen=True, omit_defaults=True, tag="round_started"):
    """The run sends a request to the model. The first round is 1."""

    round: int
    phase: Phase
    tools_off: bool = False
    """Whether the round offers no tools, so that the model must answer."""


class RunResumed(Event, frozen=True, omit_defaults=True, tag="run_resumed"):
    """A process resumed the interrupted run."""

    attempt: int


class RoundRestarted(Event, frozen=True, omit_defaults=True, tag="round_restarted"):
    """The run repeats its request to the model. Discard all earlier events of this round."""

    round: int
    phase: Phase
    tools_off: bool = False


class Status(Event, frozen=True, omit_defaults=True, tag="status"):
    """A sentence for the user about what the run does."""

    type: ClassVar[EventType] = "status"
    message: str


class ToolRunStarted(Event, frozen=True, omit_defaults=True, tag="tool_run_started"):
    """The tool of a call starts."""

    type: ClassVar[EventType] = "tool_call"
    call: FunctionCall
    round: int


class ToolRunProgress(Event, frozen=True, omit_defaults=True, tag="tool_run_progress"):
    """A report of a running tool: a fraction of the work, a message, or any JSON value."""

    type: ClassVar[EventType] = "progress"
    call_id: str
    name: str
    progress: float | None = None
    message: str | None = None
    data: Any = None


class ToolRunEnded(Event, frozen=True, omit_defaults=True, tag="tool_run_ended"):
    """The full result of a call; the model's copy may be shorter."""

    type: ClassVar[EventType] = "tool_result"
    response: FunctionResponse
    outcome: Outcome
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    """The tool was interrupted while it was running: it may or may not have had its effect."""
    crashed: bool = False
    """The tool raised an unexpected exception: its process logged the traceback."""


class ApprovalRequested(Event, frozen=True, omit_defaults=True, tag="approval_requested"):
    """A call waits for a decision."""

    call: FunctionCall
    reason: str | None = None


class ApprovalResolved(Event, frozen=True, omit_defaults=True, tag="approval_resolved"):
    """The decision about a call that was waiting."""

    call_id: str
    approved: bool
    arguments: dict[str, Any] | None = None
    """The arguments that replace the model's, if the approver changed them."""
    reason: str | None = None


class OutputRejected(Event, frozen=True, omit_defaults=True, tag="output_rejected"):
    """The answer of this round is not a valid value. The next round asks the model again."""

    round: int
    errors: tuple[str, ...]
    """What is wrong with the answer, one text for each field."""
    message: Message
    """The message about it that the model gets."""


class RunEnded(Event, frozen=True, omit_defaults=True, tag="run_ended"):
    """The last event of every run."""

    done: ClassVar[bool] = True
    reason: StopReason
    usage: Usage = Usage()
    rounds: int = 0
    error: str | None = None
    budget: BudgetName | None = None
    """The budget that was used up, if the reason is `budget`."""


RunEvent: TypeAlias = (
    ModelEvent
    | RunStarted
    | RunResumed
    | RoundStarted
    | RoundRestarted
    | Status
    | ToolRunStarted
    | ToolRunProgress
    | ToolRunEnded
    | ApprovalRequested
    | ApprovalResolved
    | OutputRejected
    | RunEnded
)

_decoder = msgspec.json.Decoder(RunEvent)


def event_to_dict(event: Event) -> dict[str, Any]:
    """Returns the event as plain JSON values, with its `type` and `done`."""
    return {**msgspec.to_builtins(event, enc_hook=str), "type": event.type, "done": event.done}


def event_to_json(event: Event) -> str:
    """Returns the event as one line of JSON."""
    return event_to_json_bytes(event).decode()


def event_to_json_bytes(event: Event) -> bytes:
    """Returns the event as one line of JSON in UTF-8."""
    return encode_json(event_to_dict(event))


def event_to_sse(event: Event) -> str:
    """Returns the event as a server-sent event of the gateway; its `id` is the event's number."""
    name = event.__struct_config__.tag
    return f"id: {event.seq}\nevent: {name}\ndata: {event_to_json(event)}\n\n"


def event_from_json(data: bytes | str) -> RunEvent:
    """Reads the output of `event_to_json`. Raises `msgspec.ValidationError` for anything else."""
    return _decoder.decode(data)


def joined_logprobs(pieces: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Joins the log probabilities of several pieces of text; None if there are none."""
    joined: dict[str, Any] = {}
    for piece in pieces:
        for name, tokens in piece.items():
            if isinstance(tokens, list):
                joined[name] = [*(joined.get(name) or ()), *cast("list[Any]", tokens)]
            else:
                joined.setdefault(name, tokens)
    return joined or None
