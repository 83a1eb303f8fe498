"""From a step of the script to the bytes that answer a request: where faults become real."""

from collections.abc import Callable

import msgspec

from windlass.testing.exchange import Answer, Exchange, Frames
from windlass.testing.pace import Pace, unwrapped
from windlass.testing.script import (
    Cut,
    Disconnect,
    Fault,
    Hang,
    Interrupt,
    MalformedJson,
    MalformedSse,
    Refuse,
    Turn,
)
from windlass.testing.sse import Transport, closing_writes, event_bytes, writes_of

__all__ = ["answer_to", "json_answer"]

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
