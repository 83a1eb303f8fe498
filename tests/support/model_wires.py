"""Shared by the tests of the models: turns, a server that sends raw bytes, and waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

from windlass.content import FunctionDeclaration, Message
from windlass.events import ModelEvent, TextDelta, ThoughtDelta, ToolCallEnded, TurnEnded
from windlass.model import Model, ModelRequest
from windlass.models.retry import Retry, Waiting
from windlass.models.turn import TurnDecoder

HELLO = ModelRequest((Message.user("Hello"),))
ONE_BODY = ModelRequest((Message.user("Hello"),), live=False)
WEATHER = FunctionDeclaration(
    "get_weather",
    "Current weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


async def turn(model: Model, request: ModelRequest = HELLO) -> list[ModelEvent]:
    """Returns all events of one turn."""
    async with model.stream(request) as events:
        return [event async for event in events]


def decoded(decoder: TurnDecoder, *payloads: bytes) -> list[ModelEvent]:
    """Returns the events of these streamed payloads and of their end."""
    events = [event for payload in payloads for event in decoder.feed(payload)]
    return [*events, *decoder.finish()]


def text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thoughts(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ThoughtDelta))


def called(events: list[ModelEvent]) -> list[tuple[str, str]]:
    """Returns the name and the argument text of every call."""
    ended = [event.call for event in events if isinstance(event, ToolCallEnded)]
    return [(call.name, call.json) for call in ended]


def end(events: list[ModelEvent]) -> TurnEnded:
    """Returns the last event. There must be no other of its kind."""
    ends = [event for event in events if isinstance(event, TurnEnded)]
    assert ends == events[-1:]
    return ends[0]


class Waits:
    """Sleeps that take no time and are recorded; the jitter is constant."""

    def __init__(self, jitter: float = 0.5) -> None:
        self.seconds: list[float] = []
        self._jitter = jitter

    def __call__(self, retry: Retry) -> Waiting:
        async def sleep(seconds: float) -> None:
            self.seconds.append(seconds)

        return Waiting(retry, sleep, lambda: self._jitter)


class RawServer:
    """Answers each connection's request with raw bytes, then closes it (or leaves it open)."""

    def __init__(self, answers: list[bytes], *, hold: bool) -> None:
        self._answers, self._hold = answers, hold
        self.requests: list[bytes] = []
        self.base_url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        writer.write(self._answers[min(len(self.requests), len(self._answers)) - 1])
        await writer.drain()
        if self._hold:
            await reader.read()
        writer.close()
        await writer.wait_closed()

    async def ended(self) -> None:
        """Waits until every connection is closed."""
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def raw_server(*answers: bytes, hold: bool = False) -> AsyncIterator[RawServer]:
    """Serves the answers in order, and repeats the last one."""
    server = RawServer(list(answers), hold=hold)
    listening = await asyncio.start_server(server.respond, "127.0.0.1", 0)
    server.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server
        await server.ended()


def http(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    """Returns an HTTP response with a length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def unfinished_response(body: bytes, content_type: str = "text/event-stream") -> bytes:
    """Returns the beginning of a chunked response without its end."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n"


def splits(data: bytes, cuts: list[int]) -> list[bytes]:
    """Splits the data at these positions."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in pairwise(places)]
