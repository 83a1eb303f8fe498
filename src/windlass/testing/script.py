"""What a scripted model says: turns and faults, as values.

A script is a list of steps, one for each request; or a function from the request to a step; or one
step, which then answers every request. A plain string is a step that says it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, Text, Thought, Usage
from windlass.events import FinishReason
from windlass.jsontext import compact_json
from windlass.testing.gate import Gate

__all__ = [
    "Cut",
    "Disconnect",
    "Fault",
    "Hang",
    "Interrupt",
    "MalformedJson",
    "MalformedSse",
    "Pieces",
    "Refuse",
    "Script",
    "Slow",
    "Step",
    "Turn",
    "call",
    "calls",
    "cut",
    "disconnect",
    "hang",
    "interrupt",
    "malformed_json",
    "malformed_sse",
    "raw_call",
    "refuse",
    "say",
    "slow",
    "think",
]

Pieces: TypeAlias = Literal["words", "whole"] | int
"""How a turn is streamed: word by word, in one piece, or in pieces of so many characters."""

DEFAULT_USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)


class Turn(Struct, frozen=True, kw_only=True):
    """One answer of the model: its thoughts, then its text, then its calls.

    `parts` says the same in any other order, and cannot stand beside the three. A `finish` that is
    not one of Windlass's words goes over the wire as it is. Calls without an id get one.
    """

    text: str = ""
    thoughts: str = ""
    calls: tuple[FunctionCall, ...] = ()
    parts: tuple[AnyPart, ...] = ()
    finish: FinishReason | str | None = None
    usage: Usage = DEFAULT_USAGE
    pieces: Pieces = "words"
    signature: str | None = None
    """The signature of the text, which Gemini sends on its last part."""

    def __post_init__(self) -> None:
        if self.parts and (self.text or self.thoughts or self.calls):
            raise ValueError("a turn has either parts, or text, thoughts and calls")
        if isinstance(self.pieces, int) and self.pieces < 1:
            raise ValueError("a piece has at least one character")

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The parts of the turn, in order."""
        if self.parts:
            return self.parts
        thoughts = (Thought(self.thoughts),) if self.thoughts else ()
        signed = self.text or self.signature is not None
        text = (Text(self.text, self.signature),) if signed else ()
        return (*thoughts, *text, *self.calls)

    @property
    def finish_word(self) -> FinishReason | str:
        """Why the turn ended; `tool_calls` or `stop` unless the script says otherwise."""
        if self.finish is not None:
            return self.finish
        return "tool_calls" if any(isinstance(p, FunctionCall) for p in self.content) else "stop"


class Fault(Struct, frozen=True):
    """Something that goes wrong in place of a turn, or around it."""


class Cut(Fault, frozen=True):
    """The connection closes after so many pieces, in the middle of the next, or after `byte`."""

    turn: Turn
    after: int
    byte: int | None = None


class Refuse(Fault, frozen=True):
    """The service answers with an error."""

    status: int
    message: str
    retry_after: float | None = None
    code: str | None = None


class Interrupt(Fault, frozen=True):
    """The service reports an error in the stream, after so many pieces."""

    turn: Turn
    after: int
    error: Refuse


class Slow(Fault, frozen=True):
    """The step waits for its gate, or some seconds, before a piece; 0 is before the first byte."""

    step: "Turn | Fault"
    gate: Gate | None
    seconds: float
    after: int


class MalformedJson(Fault, frozen=True):
    """The answer breaks off in the middle of its JSON, and ends as if all were well."""


class MalformedSse(Fault, frozen=True):
    """The stream's framing is broken: an empty line stands where none belongs."""

    turn: Turn
    byte: int | None = None


class Hang(Fault, frozen=True):
    """No answer, ever; the connection stays open."""


class Disconnect(Fault, frozen=True):
    """The connection is dropped before any answer."""


Step: TypeAlias = Turn | Fault | Exception | str
"""What answers one request. An exception is raised, or over HTTP becomes an error answer."""

_Request = TypeVar("_Request")
Script: TypeAlias = Iterable[Step] | Callable[[_Request], Step] | Step


def say(
    text: str,
    *,
    usage: Usage = DEFAULT_USAGE,
    finish: FinishReason | str | None = None,
    pieces: Pieces = "words",
) -> Turn:
    """A turn that answers with text."""
    return Turn(text=text, usage=usage, finish=finish, pieces=pieces)


def think(thoughts: str, then: Turn | str = "") -> Turn:
    """The turn `then`, with thoughts before it."""
    turn = turn_of(then)
    if turn.parts:
        return msgspec.structs.replace(turn, parts=(Thought(thoughts), *turn.parts))
    return msgspec.structs.replace(turn, thoughts=thoughts + turn.thoughts)


def call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    id: str | None = None,
    signature: str | None = None,
    **more: Any,
) -> Turn:
    """A turn that asks for one tool: `call("get_weather", city="Paris")`.

    Arguments that are themselves named `id` or `signature` go into the mapping.
    """
    return raw_call(name, compact_json({**(arguments or {}), **more}), id=id, signature=signature)


def raw_call(
    name: str,
    json: str,
    /,
    *,
    id: str | None = None,
    signature: str | None = None,
) -> Turn:
    """A turn that asks for one tool with this argument text, which need not be JSON."""
    return Turn(calls=(FunctionCall(name, json, id or "", signature),))


def calls(
    *turns: Turn,
    text: str = "",
    thoughts: str = "",
    usage: Usage = DEFAULT_USAGE,
    finish: FinishReason | str | None = None,
    pieces: Pieces = "words",
) -> Turn:
    """One turn that asks for several tools at once: `calls(call("a"), call("b"))`."""
    return Turn(
        text=text,
        thoughts=thoughts,
        calls=tuple(made for turn in turns for made in turn.calls),
        usage=usage,
        finish=finish,
        pieces=pieces,
    )


def cut(turn: Turn | str, after: int = 0, *, byte: int | None = None) -> Cut:
    """The turn's answer, broken off after so many pieces, or over HTTP after so many bytes.

    A piece is a delta: some text or thought, the start of a call, or some of its arguments. Gemini
    sends each call in one piece.
    """
    return Cut(turn_of(turn), after, byte)


def refuse(
    status: int,
    message: str = "refused by the script",
    *,
    retry_after: float | None = None,
    code: str | None = None,
) -> Refuse:
    """An error answer, in the shape that the service has for it."""
    return Refuse(status, message, retry_after, code)


def interrupt(turn: Turn | str, after: int = 0, *, error: Refuse | None = None) -> Interrupt:
    """The turn's stream with an error event in place of the rest; without a stream, the error."""
    return Interrupt(turn_of(turn), after, error or refuse(500, "interrupted by the script"))


def slow(
    step: "Turn | Fault | str", gate: Gate | None = None, *, seconds: float = 0.0, after: int = 0
) -> Slow:
    """The step, held back before its first byte, or after so many pieces, until `.gate` is opened.

    With `seconds` it comes by itself.
    """
    held = turn_of(step) if isinstance(step, str) else step
    return Slow(held, gate if gate or seconds else Gate(), seconds, after)


def malformed_json() -> MalformedJson:
    """An answer, or in a stream an event, that is no valid JSON."""
    return MalformedJson()


def malformed_sse(
    turn: Turn | str = "This never arrives.", *, byte: int | None = None
) -> MalformedSse:
    """The turn's stream with an empty line in the middle of its first event, or at `byte`."""
    return MalformedSse(turn_of(turn), byte)


def hang() -> Hang:
    """No answer, ever."""
    return Hang()


def disconnect() -> Disconnect:
    """The connection dropped before any answer."""
    return Disconnect()


def turn_of(turn: Turn | str) -> Turn:
    return say(turn) if isinstance(turn, str) else turn
