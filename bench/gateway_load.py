"""The load: connections that send a request as soon as the previous one is answered.

Runs in a separate process. Each line on stdin is a job as JSON. Prints the figures to stdout.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import uvloop
from upstream import tokens

TOKENS = tokens(100)
LAST_CHUNK = b"\r\n0\r\n\r\n"
REQUEST = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
)


class Job(msgspec.Struct):
    port: int
    pid: int  # the process whose CPU counts
    body: str
    concurrency: int
    requests: int
    key: str
    path: str = "/v1/chat/completions"


class Figures(msgspec.Struct):
    seconds: float
    cpu: float  # seconds of a request
    p50: float
    p99: float
    first: float  # median seconds to the first token


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time of another process, from its CPU clock on Linux."""
    return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) returns


class Connection(asyncio.Protocol):
    """Sends one request at a time. Reads only as much HTTP/1.1 as it needs to find the end."""

    transport: asyncio.Transport

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.pieces: list[bytes] = []
        self.waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport has another class

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.connections.remove(self)
        if self.waiting:
            self.load.failed(f"the server closed a connection during an answer: {exc}")

    def send(self) -> None:
        self.waiting = True
        self.pieces.clear()
        self.received = 0
        self.length: int | None = None  # 0 for an answer in chunks
        self.tail = b""
        self.first = 0.0
        self.started_at = time.perf_counter()
        self.transport.write(self.load.request)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.received += len(data)
        self.tail = (self.tail + data)[-len(LAST_CHUNK) :]
        if not self.first and TOKENS[0].encode() in data:
            self.first = time.perf_counter() - self.started_at
        if self.length is None:
            self.read_head()
        if self.received >= self.length if self.length else self.tail == LAST_CHUNK:
            self.waiting = False
            self.load.answered(self)

    def read_head(self) -> None:
        start = b"".join(self.pieces)
        head, end, _ = start.partition(b"\r\n\r\n")
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.load.failed(f"the server refused the request: {start[:1000]!r}")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        self.length = len(head) + 4 + int(length[1]) if length else 0


class Load:
    def __init__(self, job: Job) -> None:
        body = job.body.encode()
        self.job = job
        self.request = REQUEST % (job.path.encode(), job.key.encode(), len(body), body)
        self.connections: list[Connection] = []

    async def figures(self) -> Figures:
        await self.connect()
        await self.run(self.job.concurrency)  # a warm-up, which does not count
        await self.connect()  # a slow server may have closed the first connections
        cpu, started_at = cpu_seconds(self.job.pid), time.perf_counter()
        await self.run(self.job.requests)
        seconds = time.perf_counter() - started_at
        cpu = (cpu_seconds(self.job.pid) - cpu) / self.job.requests
        for connection in self.connections:
            check(b"".join(connection.pieces))
            connection.transport.abort()
        latencies, firsts = sorted(self.latencies), sorted(self.firsts)
        p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
        return Figures(seconds, cpu, p50, p99, firsts[len(firsts) // 2])

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self.connections) < self.job.concurrency:
            _, connection = await loop.create_connection(
                lambda: Connection(self), "127.0.0.1", self.job.port
            )
            self.connections.append(connection)

    async def run(self, requests: int) -> None:
        self.unsent = self.unanswered = requests
        self.latencies: list[float] = []
        self.firsts: list[float] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for connection in self.connections:
            self.send_next(connection)
        await self.finished

    def send_next(self, connection: Connection) -> None:
        if self.unsent:
            self.unsent -= 1
            connection.send()

    def answered(self, connection: Connection) -> None:
        latency = time.perf_counter() - connection.started_at
        self.latencies.append(latency)
        self.firsts.append(connection.first or latency)
        self.unanswered -= 1
        if not self.unanswered:
            self.finished.set_result(None)
        self.send_next(connection)

    def failed(self, why: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(SystemExit(why))


def check(response: bytes) -> None:
    """Raises `SystemExit` if the response does not contain all tokens."""
    head, _, body = response.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        body = b"".join(chunks(body))
    if not text_of(body).endswith("".join(TOKENS)):
        raise SystemExit(f"wrong answer: {body[:1000]!r}")


def chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


def text_of(body: bytes) -> str:
    """Returns the text of an answer on any wire, complete or streamed."""
    if body.startswith(b"{"):
        return piece_of(json.loads(body))
    events = re.findall(rb"^data: ?({.*)$", body, re.MULTILINE)
    return "".join(piece_of(json.loads(event)) for event in events)


def piece_of(data: Any) -> str:
    match data:
        case {"choices": [{"message": {"content": str(text)}}]}:
            return text
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text
        case {"object": "response", "output": [*_, {"content": [{"text": str(text)}]}]}:
            return text
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text
        case {"type": "message", "content": [*_, {"text": str(text)}]}:
            return text
        case {"candidates": [{"content": {"parts": parts}}, *_]}:
            return "".join(part.get("text", "") for part in parts)
        case _:
            return ""


def main() -> None:
    for line in sys.stdin:
        figures = uvloop.run(Load(msgspec.json.decode(line, type=Job)).figures())
        print(msgspec.json.encode(figures).decode(), flush=True)


if __name__ == "__main__":
    main()
