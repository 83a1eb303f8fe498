"""What a run says while it goes: one tagged union, numbered.

"Call" is what the model says, "run" is what Windlass does. A model yields `ModelEvent`s; the run
adds its own and numbers them all, so that any reader can go on from any number. An event is
unnumbered (`seq` 0) until a run's log has taken it.
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
    "Event",
    "EventType",
    "FinishReason",
    "ModelEvent",
    "Outcome",
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
    "thought",  # text that the model writes to itself, in `text`
    "status",  # a sentence for the person who waits, in `message`
    "progress",  # what a running tool reports
    "tool_call",  # a call, as the model writes it and as it starts
    "tool_result",  # a call's answer
    "control",  # everything else
]
"""A handler of two branches is safe: `content` always has `text`, `status` always has `message`."""

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "malformed_call", "other"]
"""Why the model ended its turn. Whether tools are needed is told by the calls, never by this."""

StopReason = Literal[
    "answer",  # the model answered without asking for more tools
    "calls",  # calls are handed back to the caller, who runs them
    "max_rounds",  # the round limit was reached
    "repetition",  # the model kept repeating a call that keeps failing
    "length",  # the model's output limit cut the answer
    "content_filter",  # the provider withheld the answer
    "malformed_call",  # the provider could not read its own model's call
    "deadline",  # the run's time was up
    "stopped",  # somebody stopped the run
    "error",  # the run failed; the error says why
]

Phase = Literal["awaiting_model_call", "executing_tools", "awaiting_final_response", "ended"]

Outcome = Literal[
    "ok",
    "error",  # the tool failed, or said so with ToolError
    "invalid_arguments",
    "unknown_tool",
    "timeout",
    "denied",  # a person or policy said no
    "stopped",  # the run was stopped while the tool ran
    "interrupted",  # the process ended while the tool ran, and it is not run again
    "not_run",  # the call was never started, for the reason in the response
]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    """The head of every event: its number in the run and when it happened (Unix seconds)."""

    type: ClassVar[EventType] = "control"
    done: ClassVar[bool] = False
    """True for the last event of a run alone: a turn that ends in calls is not the end."""

    seq: int = 0
    time: float = 0.0


# What a model says.


class TextDelta(Event, frozen=True, omit_defaults=True, tag="text_delta"):
    """A signed delta is a part of its own: signatures are never merged or moved."""

    type: ClassVar[EventType] = "content"
    text: str
    signature: str | None = None
    extra: dict[str, Any] | None = None
    logprobs: dict[str, Any] | None = None
    """Of its tokens, if they were asked for: `{"content": [{"token", "logprob", ...}]}`."""
    about: dict[str, Any] | None = None
    """What the service says of its whole answer (`system_fingerprint`); on a turn's first event."""


class ThoughtDelta(Event, frozen=True, omit_defaults=True, tag="thought_delta"):
    type: ClassVar[EventType] = "thought"
    text: str
    signature: str | None = None
    extra: dict[str, Any] | None = None
    about: dict[str, Any] | None = None


class PartReceived(Event, frozen=True, omit_defaults=True, tag="part_received"):
    """A whole part that does not come in pieces: an image, or a provider's own kind.

    It has no text, and so is not of the type `content`.
    """

    part: AnyPart


class ToolCallStarted(Event, frozen=True, omit_defaults=True, tag="tool_call_started"):
    """The model begins call number `index` of this turn (0, 1, ...)."""

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
    """The call is complete: `call.json` is all of its pieces."""

    type: ClassVar[EventType] = "tool_call"
    index: int
    call: FunctionCall


class TurnEnded(Event, frozen=True, omit_defaults=True, tag="turn_ended"):
    """The model's turn is over, though not necessarily the run. Always a turn's last event."""

    finish: FinishReason
    usage: Usage = Usage()
    detail: str | None = None
    """The provider's own word for the finish, or its message about it."""
    message_extra: dict[str, Any] | None = None
    """Provider fields of the whole message, returned to it with the history."""
    about: dict[str, Any] | None = None
    """What the service says of its whole answer that was not on the first event."""
    logprobs: dict[str, Any] | None = None
    """Those that belong to no text."""


ModelEvent: TypeAlias = (
    TextDelta
    | ThoughtDelta
    | PartReceived
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallEnded
    | TurnEnded
)


# What the run does.


class RunStarted(Event, frozen=True, omit_defaults=True, tag="run_started"):
    run_id: str
    model: str
    messages: tuple[Message, ...]
    max_rounds: int | None = None
    """How many rounds of tools it may have; older logs do not say."""


class RoundStarted(Event, frozen=True, omit_defaults=True, tag="round_started"):
    """A request goes to the model. Rounds count from 1."""

    round: int
    phase: Phase
    tools_off: bool = False
    """It offers no tools: the model has to answer."""


class RunResumed(Event, frozen=True, omit_defaults=True, tag="run_resumed"):
    """Another process goes on with the run: its log ended without an end."""

    attempt: int


class RoundRestarted(Event, frozen=True, omit_defaults=True, tag="round_restarted"):
    """The model is asked again. All that this round has said and done so far is superseded."""

    round: int
    phase: Phase
    tools_off: bool = False


class Status(Event, frozen=True, omit_defaults=True, tag="status"):
    """A sentence for the person who waits."""

    type: ClassVar[EventType] = "status"
    message: str


class ToolRunStarted(Event, frozen=True, omit_defaults=True, tag="tool_run_started"):
    type: ClassVar[EventType] = "tool_call"
    call: FunctionCall
    round: int


class ToolRunProgress(Event, frozen=True, omit_defaults=True, tag="tool_run_progress"):
    """What a running tool reports: a fraction of the work, a message, or any JSON value."""

    type: ClassVar[EventType] = "progress"
    call_id: str
    name: str
    progress: float | None = None
    message: str | None = None
    data: Any = None


class ToolRunEnded(Event, frozen=True, omit_defaults=True, tag="tool_run_ended"):
    """The call's one answer, whole; the model's copy may be shorter."""

    type: ClassVar[EventType] = "tool_result"
    response: FunctionResponse
    outcome: Outcome
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    """The tool had started and was cut off: it may or may not have had its effect."""
    crashed: bool = False
    """The tool raised an unexpected exception: the log of its process has the traceback."""


class ApprovalRequested(Event, frozen=True, omit_defaults=True, tag="approval_requested"):
    call: FunctionCall
    reason: str | None = None


class ApprovalResolved(Event, frozen=True, omit_defaults=True, tag="approval_resolved"):
    call_id: str
    approved: bool
    arguments: dict[str, Any] | None = None
    """The arguments that the person put in place of the model's."""
    reason: str | None = None


class RunEnded(Event, frozen=True, omit_defaults=True, tag="run_ended"):
    """The last event of every run."""

    done: ClassVar[bool] = True
    reason: StopReason
    usage: Usage = Usage()
    rounds: int = 0
    error: str | None = None


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
    | RunEnded
)

_decoder = msgspec.json.Decoder(RunEvent)


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with its `type` and `done` spelled out for readers."""
    return {**msgspec.to_builtins(event, enc_hook=str), "type": event.type, "done": event.done}


def event_to_json(event: Event) -> str:
    """The event as one line of JSON."""
    return event_to_json_bytes(event).decode()


def event_to_json_bytes(event: Event) -> bytes:
    """The same as UTF-8."""
    return encode_json(event_to_dict(event))


def event_to_sse(event: Event) -> str:
    """The event as a server-sent event, as the gateway sends it; its `id` is the event's number."""
    name = event.__struct_config__.tag
    return f"id: {event.seq}\nevent: {name}\ndata: {event_to_json(event)}\n\n"


def event_from_json(data: bytes | str) -> RunEvent:
    """The event that `event_to_json` wrote. Raises `msgspec.ValidationError` for anything else."""
    return _decoder.decode(data)


def joined_logprobs(pieces: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The log probabilities of several pieces of text as those of one; None if there are none."""
    joined: dict[str, Any] = {}
    for piece in pieces:
        for name, tokens in piece.items():
            if isinstance(tokens, list):
                joined[name] = [*(joined.get(name) or ()), *cast("list[Any]", tokens)]
            else:
                joined.setdefault(name, tokens)
    return joined or None
