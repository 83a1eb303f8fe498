"""Server-sent events as bytes, with the oddities that real servers and proxies add."""

from typing import Literal, TypedDict

from msgspec import Struct

from windlass.testing.exchange import Frames

__all__ = ["Transport", "TransportOptions", "closing_writes", "event_bytes", "writes_of"]

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
