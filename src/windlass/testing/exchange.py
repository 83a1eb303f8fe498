"""One HTTP exchange."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict

import msgspec
from msgspec import Struct

from windlass.testing.script import (
    Cut,
    Disconnect,
    Fault,
    Hang,
    Interrupt,
    MalformedJson,
    MalformedSse,
    Pace,
    Refuse,
    Turn,
    unwrapped,
)


class Received(Struct, frozen=True):
    """A request as it came: header names in lower case, the body decoded if it is JSON."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: bytes


class Frames(Struct, frozen=True):
    """The payloads of a stream: what opens it, one for each piece of the turn, what ends it."""

    head: list[bytes]
    pieces: list[bytes]
    tail: list[bytes]


class Exchange(Protocol):
    """One accepted request, and how its service would write the answer."""

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream."""
        ...

    def body(self, turn: Turn) -> bytes:
        """The turn as one JSON body."""
        ...

    def frames(self, turn: Turn) -> Frames:
        """The turn as the payloads of server-sent events."""
        ...


class Answer(Struct, frozen=True):
    """What goes back over the connection, write by write."""

    writes: list[bytes]
    pace: Pace
    status: int = 200
    headers: dict[str, str] = {}
    length: int | None = None
    """The declared length; None for a stream."""
    end: Literal["complete", "close", "never"] = "complete"
    """Whether the answer is finished, its connection closed in the middle, or left hanging."""


class Refused(Exception):
    """The service does not accept the request."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)


DONE = b"[DONE]"


class TransportOptions(TypedDict, total=False):
    """How a fake upstream writes; each leaves the content as it is.

    `write_size`: bytes per write (1 splits the stream at every byte). `crlf`: lines end in CR LF.
    `heartbeats`: a comment before every event. `done`: whether `[DONE]` ends an OpenAI stream.
    `answer_in`: a JSON body or a stream, whatever was asked for. `content_type`: says another one.
    """

    write_size: int | None
    crlf: bool
    heartbeats: bool
    done: bool
    answer_in: Literal["json", "sse"] | None
    content_type: str | None


class Transport(Struct, frozen=True, kw_only=True):
    """`TransportOptions` with the defaults filled in."""

    write_size: int | None = None
    crlf: bool = False
    heartbeats: bool = False
    done: bool = True
    answer_in: Literal["json", "sse"] | None = None
    content_type: str | None = None


def event_bytes(payload: bytes, transport: Transport) -> bytes:
    end = b"\r\n" if transport.crlf else b"\n"
    comment = b": keep-alive" + end + end if transport.heartbeats else b""
    return comment + b"data: " + payload + end + end


def writes_of(frames: Frames, transport: Transport) -> list[bytes]:
    """One write for each piece, the head in front of the first; the last write ends the stream."""
    tail = [payload for payload in frames.tail if transport.done or payload != DONE]
    groups = [*([piece] for piece in frames.pieces), tail]
    groups[0] = [*frames.head, *groups[0]]
    return [b"".join(event_bytes(p, transport) for p in group) for group in groups]


def closing_writes(frames: Frames, transport: Transport, after: int) -> list[bytes]:
    """The writes of the first pieces, then half of the event that follows them."""
    following = [*frames.pieces, *frames.tail][min(after, len(frames.pieces))]
    kept = writes_of(Frames(frames.head, frames.pieces[:after], []), transport)
    event = event_bytes(following, transport)
    return [*kept, event[: len(event) // 2]]


_NOTHING = Turn()


def answer_to(
    step: Turn | Fault,
    exchange: Exchange,
    transport: Transport,
    error: Callable[[Refuse], Answer],
) -> Answer:
    """The answer to one request. `error` writes an error answer in the service's shape."""
    said, pace = unwrapped(step)
    streams = exchange.streams if transport.answer_in is None else transport.answer_in == "sse"
    match said:
        case Refuse():
            return msgspec.structs.replace(error(said), pace=pace)
        case Interrupt() if not streams:
            return msgspec.structs.replace(error(said.error), pace=pace)
        case Interrupt(turn=turn, after=after):
            frames = exchange.frames(turn)
            reported = Frames(frames.head, frames.pieces[:after], error(said.error).writes)
            answer = stream_answer(writes_of(reported, transport))
        case _:
            answer = _answer(said, exchange, streams, transport)
    content_type = {"Content-Type": transport.content_type} if transport.content_type else {}
    return msgspec.structs.replace(answer, pace=pace, headers={**answer.headers, **content_type})


def _answer(said: Turn | Fault, exchange: Exchange, streams: bool, transport: Transport) -> Answer:
    match said:
        case Hang():
            return Answer([], Pace([]), end="never")
        case Disconnect():
            return Answer([], Pace([]), end="close")
        case Turn() if streams:
            return stream_answer(writes_of(exchange.frames(said), transport))
        case Turn():
            return json_answer(exchange.body(said))
        case Cut() if streams:
            return _cut_stream(said, exchange.frames(said.turn), transport)
        case Cut(turn=turn, byte=byte):
            body = exchange.body(turn)
            return _broken_off([body], len(body) // 2 if byte is None else byte, json_answer(body))
        case MalformedJson() if streams:
            return stream_answer(_malformed_events(exchange.frames(_NOTHING), transport))
        case MalformedSse() if streams:
            return stream_answer(_misframed(exchange.frames(said.turn), transport, said.byte))
        case _:
            body = exchange.body(_NOTHING)
            return json_answer(body[: len(body) // 2])


def json_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    content_type = {"Content-Type": "application/json; charset=utf-8"}
    return Answer(
        [body],
        Pace([]),
        status=status,
        headers={**content_type, **(headers or {})},
        length=len(body),
    )


def stream_answer(writes: list[bytes]) -> Answer:
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    return Answer(writes, Pace([]), headers=headers)


def _cut_stream(said: Cut, frames: Frames, transport: Transport) -> Answer:
    if said.byte is None:
        writes = closing_writes(frames, transport, said.after)
        return msgspec.structs.replace(stream_answer(writes), end="close")
    writes = writes_of(frames, transport)
    return _broken_off(writes, said.byte, stream_answer(writes))


def _broken_off(writes: list[bytes], size: int, answer: Answer) -> Answer:
    """The answer with only the first bytes of its writes. It never ends well, however many."""
    kept: list[bytes] = []
    for write in writes:
        kept.append(write[:size])
        size = max(0, size - len(write))
    return msgspec.structs.replace(answer, writes=kept, end="close")


def _malformed_events(frames: Frames, transport: Transport) -> list[bytes]:
    first, *others = [*frames.head, *frames.pieces, *frames.tail]
    broken = event_bytes(first[: len(first) // 2], transport)
    return [broken, *(event_bytes(payload, transport) for payload in others)]


def _misframed(frames: Frames, transport: Transport, byte: int | None) -> list[bytes]:
    whole = b"".join(writes_of(frames, transport))
    if byte is None:
        byte = whole.index(b"data: ") + 20
    return [whole[:byte], b"\n\n" + whole[byte:]]
