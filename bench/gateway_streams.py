"""Measures many concurrent streams: the gaps between tokens, and the memory of idle readers.

    make bench ARGS="--only streams"      1,000 streams, compared with a pass-through
    make bench ARGS="--only readers"      10,000 readers of one waiting run

A gap is the time between two tokens of a stream, measured at the client. Tokens that arrive
together have a gap of 0.
"""

import asyncio
import json
import resource
import time
from statistics import median
from typing import Any, cast

import gateway
import uvloop
from gateway_load import REQUEST, cpu_seconds
from gateway_servers import KEY, resident_mb
from report import Verdict

STREAMS, QUICK_STREAMS = 1_000, 200
READERS, QUICK_READERS = 10_000, 1_000
MAX_GAP_RATIO = 3.0
MAX_READERS_MB = 300.0
TOKEN = b'"content":'
COMPARED = ("floor", "windlass", "llms")
READ_EVENTS = (
    b"GET /v1/runs/%s/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n"
)


class Reader(asyncio.Protocol):
    """Sends one request, and measures when tokens arrive."""

    def __init__(self, request: bytes, until: bytes) -> None:
        self.request, self.until = request, until
        self.gaps: list[float] = []
        self.last = 0.0
        self.tail = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now, count = time.perf_counter(), data.count(TOKEN)
        if count:
            if self.last:
                self.gaps.append(now - self.last)
            self.gaps += [0.0] * (count - 1)
            self.last = now
        self.tail = (self.tail + data)[-2_000:]
        if self.until in self.tail and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(SystemExit(f"the server closed a stream: {self.tail!r}"))


async def connect_readers(port: int, request: bytes, until: bytes, count: int) -> list[Reader]:
    loop = asyncio.get_running_loop()
    readers: list[Reader] = []
    for _ in range(count):
        _, reader = await loop.create_connection(lambda: Reader(request, until), "127.0.0.1", port)
        readers.append(reader)
    return readers


async def token_gaps(port: int, request: bytes, streams: int) -> list[float]:
    readers = await connect_readers(port, request, b"[DONE]", streams)
    await asyncio.gather(*(reader.done for reader in readers))
    for reader in readers:
        reader.transport.abort()
    return sorted(gap for reader in readers for gap in reader.gaps)


def show_streams(quick: bool) -> list[Verdict]:
    streams = QUICK_STREAMS if quick else STREAMS
    samples = 1 if quick else 3
    scenario = gateway.Scenario("paced", "paced", True, {})
    title = f"{streams:,} streams of 100 tokens per second"
    print(f"\n{title:<40}{'p50 ms':>10}{'p99 ms':>10}{'CPU s':>10}")
    p99s: dict[str, list[float]] = {}
    with gateway.bench("floor", "windlass", "llms") as bench_run:
        names = [name for name in COMPARED if gateway.CONTENDERS[name].server in bench_run.servers]
        for _ in range(samples):
            for name in names:
                contender = gateway.CONTENDERS[name]
                server = bench_run.servers[contender.server]
                body = gateway.body(contender, scenario).encode()
                head = REQUEST % (
                    gateway.path(contender, scenario).encode(),
                    KEY.encode(),
                    len(body),
                    body,
                )
                before = cpu_seconds(server.pid)
                gaps = uvloop.run(token_gaps(server.port, head, streams))
                cpu = cpu_seconds(server.pid) - before
                p50, p99 = (gaps[int(len(gaps) * part)] * 1e3 for part in (0.5, 0.99))
                p99s.setdefault(name, []).append(p99)
                print(f"  {contender.title:<38}{p50:>10.1f}{p99:>10.1f}{cpu:>10.2f}", flush=True)
    ratio = median(p99s["windlass"]) / median(p99s["floor"])
    return [Verdict("p99 gap between tokens", ratio, MAX_GAP_RATIO, "x floor")]


def show_readers(quick: bool) -> list[Verdict]:
    readers = QUICK_READERS if quick else READERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the server inherits it
    try:
        with gateway.bench("windlass") as bench_run:
            server = bench_run.servers["windlass"]
            before = resident_mb(server.pid)
            after = uvloop.run(memory_with_readers(server.port, server.pid, readers))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    each = (after - before) * 1024 / readers
    print(f"\n{readers:,} idle readers: {after:.0f} MB, {before:.0f} before, {each:.1f} kB each")
    return [Verdict(f"{readers:,} idle readers", after, MAX_READERS_MB, " MB")]


async def memory_with_readers(port: int, pid: int, count: int) -> float:
    """Returns the server's memory while this many clients follow a run that waits for its model."""
    run_id = await start_run(port)
    request = READ_EVENTS % (run_id.encode(), KEY.encode())
    readers = await connect_readers(port, request, b"round_started", count)
    await asyncio.gather(*(reader.done for reader in readers))
    await asyncio.sleep(1)
    megabytes = resident_mb(pid)
    for reader in readers:
        reader.transport.abort()
    return megabytes


async def start_run(port: int) -> str:
    fields: dict[str, Any] = {
        "model": "openai-idle",
        "messages": [{"role": "user", "content": gateway.PROMPT}],
    }
    body = json.dumps(fields).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST % (b"/v1/runs", KEY.encode(), len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    run = json.loads(await reader.readexactly(length))
    writer.close()
    return run["id"]
