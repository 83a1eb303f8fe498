"""One HTTP exchange with a fake upstream: the received request, and the bytes that answer it."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

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
    Refuse,
    StepDelays,
    Turn,
    unwrap_slow,
)


class Received(Struct, frozen=True):
    """A received request. Header names are in lower case; `body` is the decoded JSON."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: bytes


class Frames(Struct, frozen=True):
    """The payloads of a stream: its opening, one for each piece of the turn, its end."""

    head: list[bytes]
    pieces: list[bytes]
    tail: list[bytes]


class ResponseWriter(Protocol):
    """Writes the response to one accepted request in the format of its service."""

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


@runtime_checkable
class FailureWriter(Protocol):
    """A writer whose service reports an error within a stream in its own form."""

    def failure(self, error: Refuse) -> list[bytes]: ...


class PlannedResponse(Struct, frozen=True):
    """An HTTP response as a list of writes."""

    writes: list[bytes]
    pace: StepDelays
    status: int = 200
    headers: dict[str, str] = {}
    length: int | None = None
    """The `Content-Length`; None for a stream."""
    end: Literal["complete", "close", "never"] = "complete"
    """`close` closes the connection early; `never` leaves the response unfinished."""


class RequestRefused(Exception):
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
    """How a fake upstream writes its responses. None of the options changes their content.

    `write_size`: bytes per write (1 splits the stream at every byte). `crlf`: lines end in CR LF.
    `heartbeats`: a comment before every event. `done`: whether `[DONE]` ends an OpenAI stream.
    `answer_in`: respond with a JSON body or a stream, whatever the client asked for.
    `content_type`: overrides the `Content-Type` header.
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
    named: bool = False
    """Whether the events of the service have names."""


def event_bytes(payload: bytes, transport: Transport) -> bytes:
    """The payload as an event. A payload of several lines is an event for each of them.

    With `named`, the event's name is the type with which the payload starts.
    """
    end = b"\r\n" if transport.crlf else b"\n"
    comment = b": keep-alive" + end + end if transport.heartbeats else b""
    lines = payload.split(b"\n")
    names = [_event_name(line, end) if transport.named else b"" for line in lines]
    pairs = zip(names, lines, strict=True)
    return b"".join(comment + name + b"data: " + line + end + end for name, line in pairs)


_TYPE = b'{"type":"'


def _event_name(payload: bytes, end: bytes) -> bytes:
    if not payload.startswith(_TYPE):
        return b""
    return b"event: " + payload[len(_TYPE) :].partition(b'"')[0] + end


def writes_of(frames: Frames, transport: Transport) -> list[bytes]:
    """One write for each piece. The first also has the head; one more write has the tail."""
    tail = [payload for payload in frames.tail if transport.done or payload != DONE]
    groups = [*([piece] for piece in frames.pieces), tail]
    groups[0] = [*frames.head, *groups[0]]
    return [b"".join(event_bytes(p, transport) for p in group) for group in groups]


def writes_until_cut(frames: Frames, transport: Transport, after: int) -> list[bytes]:
    """The writes of the first `after` pieces, then half of the next event."""
    following = [*frames.pieces, *frames.tail][min(after, len(frames.pieces))]
    kept = writes_of(Frames(frames.head, frames.pieces[:after], []), transport)
    event = event_bytes(following, transport)
    return [*kept, event[: len(event) // 2]]


_EMPTY_TURN = Turn()


def response_to(
    step: Turn | Fault,
    writer: ResponseWriter,
    transport: Transport,
    error: Callable[[Refuse], PlannedResponse],
) -> PlannedResponse:
    """The response to one request. `error` writes an error in the format of the service."""
    step, pace = unwrap_slow(step)
    streams = writer.streams if transport.answer_in is None else transport.answer_in == "sse"
    match step:
        case Refuse():
            return msgspec.structs.replace(error(step), pace=pace)
        case Interrupt() if not streams:
            return msgspec.structs.replace(error(step.error), pace=pace)
        case Interrupt(turn=turn, after=after):
            frames = writer.frames(turn)
            own = writer.failure(step.error) if isinstance(writer, FailureWriter) else None
            tail = error(step.error).writes if own is None else own
            reported = Frames(frames.head, frames.pieces[:after], tail)
            response = stream_response(writes_of(reported, transport))
        case _:
            response = _response(step, writer, streams, transport)
    content_type = {"Content-Type": transport.content_type} if transport.content_type else {}
    return msgspec.structs.replace(
        response, pace=pace, headers={**response.headers, **content_type}
    )


def _response(
    step: Turn | Fault, writer: ResponseWriter, streams: bool, transport: Transport
) -> PlannedResponse:
    match step:
        case Hang():
            return PlannedResponse([], StepDelays([]), end="never")
        case Disconnect():
            return PlannedResponse([], StepDelays([]), end="close")
        case Turn() if streams:
            return stream_response(writes_of(writer.frames(step), transport))
        case Turn():
            return json_response(writer.body(step))
        case Cut() if streams:
            return _cut_stream(step, writer.frames(step.turn), transport)
        case Cut(turn=turn, byte=byte):
            body = writer.body(turn)
            return _truncated([body], len(body) // 2 if byte is None else byte, json_response(body))
        case MalformedJson() if streams:
            return stream_response(_malformed_events(writer.frames(_EMPTY_TURN), transport))
        case MalformedSse() if streams:
            return stream_response(
                _with_broken_framing(writer.frames(step.turn), transport, step.byte)
            )
        case _:
            body = writer.body(_EMPTY_TURN)
            return json_response(body[: len(body) // 2])


def json_response(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> PlannedResponse:
    content_type = {"Content-Type": "application/json; charset=utf-8"}
    return PlannedResponse(
        [body],
        StepDelays([]),
        status=status,
        headers={**content_type, **(headers or {})},
        length=len(body),
    )


def stream_response(writes: list[bytes]) -> PlannedResponse:
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    return PlannedResponse(writes, StepDelays([]), headers=headers)


def _cut_stream(step: Cut, frames: Frames, transport: Transport) -> PlannedResponse:
    if step.byte is None:
        writes = writes_until_cut(frames, transport, step.after)
        return msgspec.structs.replace(stream_response(writes), end="close")
    writes = writes_of(frames, transport)
    return _truncated(writes, step.byte, stream_response(writes))


def _truncated(writes: list[bytes], size: int, response: PlannedResponse) -> PlannedResponse:
    """The response with only the first `size` bytes. Its connection always closes early."""
    kept: list[bytes] = []
    for write in writes:
        kept.append(write[:size])
        size = max(0, size - len(write))
    return msgspec.structs.replace(response, writes=kept, end="close")


def _malformed_events(frames: Frames, transport: Transport) -> list[bytes]:
    first, *others = [*frames.head, *frames.pieces, *frames.tail]
    broken = event_bytes(first[: len(first) // 2], transport)
    return [broken, *(event_bytes(payload, transport) for payload in others)]


def _with_broken_framing(frames: Frames, transport: Transport, byte: int | None) -> list[bytes]:
    whole = b"".join(writes_of(frames, transport))
    if byte is None:
        byte = whole.index(b"data: ") + 20
    return [whole[:byte], b"\n\n" + whole[byte:]]
