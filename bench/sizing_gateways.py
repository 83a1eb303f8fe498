"""Measures the memory of a waiting run and of a reader in a gateway, and the CPU of an event."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

import aiohttp
from fleet_servers import Fleet, Setup, fleet
from gateway_load import cpu_seconds
from gateway_servers import KEY, Server, resident_mb

T = TypeVar("T")
SETUP = {"two": Setup("2 gateways", runs="nats", gateways=2)}
PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
CONCURRENCY = 32
SETTLE_SECONDS = 1.0
IDLE_SECONDS = 6.0
"""Several times the interval in which gateways look for interrupted runs."""
READERS_OF_ACTIVE_RUN = 100
"""The number of readers of one active run."""


class Figures(NamedTuple):
    gateway_mb: float  # idle
    nats_mb: float
    worker_mb: float
    run_kb: float  # a run that waits for its tool
    run_nats_kb: float
    idle: float  # CPU seconds per second of an idle gateway
    idle_with_runs: float  # the same, while another gateway has all the runs
    own_reader_kb: float  # a reader of a run of the same gateway
    other_reader_kb: float  # a reader of a run of another gateway
    own_event: float  # CPU seconds of one event for one reader
    other_event: float
    other_event_nats: float


class Clients:
    """The clients that start runs, and the readers."""

    def __init__(self, session: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        self._session, self._stack = session, stack

    async def start(self, gateway: Server, model: str) -> str:
        body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
        async with self._session.post(f"{root(gateway)}/v1/runs", json=body) as answer:
            answer.raise_for_status()
            return (await answer.json())["id"]

    async def open(self, gateway: Server, run_id: str) -> None:
        """Opens a reader and reads the run's first event. The reader stays open until the end."""
        url = f"{root(gateway)}/v1/runs/{run_id}/events"
        answer = await self._stack.enter_async_context(self._session.get(url))
        answer.raise_for_status()
        await answer.content.readuntil(b"\n\n")

    async def read(self, gateway: Server, run_id: str) -> int:
        """Reads the run to its end, and returns the number of its events."""
        url = f"{root(gateway)}/v1/runs/{run_id}/events"
        async with self._session.get(url) as answer:
            return (await answer.read()).count(b"\nevent: ")


def root(gateway: Server) -> str:
    return f"http://127.0.0.1:{gateway.port}"


def figures(runs: int, readers: int) -> Figures:
    with fleet(SETUP) as running:
        return asyncio.run(_figures(running, runs, readers))


async def _figures(running: Fleet, runs: int, readers: int) -> Figures:
    unlimited = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {KEY}"}
    patient = aiohttp.ClientTimeout(None)
    async with (
        aiohttp.ClientSession(connector=unlimited, headers=headers, timeout=patient) as session,
        AsyncExitStack() as stack,
    ):
        return await _measured(Clients(session, stack), running, runs, readers)


async def _measured(clients: Clients, running: Fleet, runs: int, readers: int) -> Figures:
    first, second = running.gateways["two"]
    nats = running.nats
    for gateway in (first, second):  # to warm up
        run_id = await clients.start(gateway, "live")
        await clients.read(gateway, run_id)
    idle = await idle_cpu(second.pid)
    before_runs = [resident_mb(pid) for pid in (first.pid, nats)]
    ids = await run_limited(runs, lambda _: clients.start(first, "held"))
    await asyncio.sleep(SETTLE_SECONDS)
    with_runs = [resident_mb(pid) for pid in (first.pid, nats)]
    run_kb, run_nats_kb = (
        (after - before) * 1024 / runs for before, after in zip(before_runs, with_runs, strict=True)
    )
    idle_with_runs = await idle_cpu(second.pid)
    reader_kb: list[float] = []
    for gateway in (first, second):
        before = resident_mb(gateway.pid)
        await run_limited(readers, lambda number, at=gateway: clients.open(at, ids[number % runs]))
        await asyncio.sleep(SETTLE_SECONDS)
        reader_kb.append((resident_mb(gateway.pid) - before) * 1024 / readers)
    own_event, _ = await per_event(clients, first, first, nats)
    other_event, other_event_nats = await per_event(clients, first, second, nats)
    return Figures(
        gateway_mb=before_runs[0],
        nats_mb=before_runs[1],
        worker_mb=resident_mb(running.worker),
        run_kb=run_kb,
        run_nats_kb=run_nats_kb,
        idle=idle,
        idle_with_runs=idle_with_runs,
        own_reader_kb=reader_kb[0],
        other_reader_kb=reader_kb[1],
        own_event=own_event,
        other_event=other_event,
        other_event_nats=other_event_nats,
    )


async def run_limited(count: int, start: Callable[[int], Coroutine[Any, Any, T]]) -> list[T]:
    """Runs this many coroutines, a few at a time."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def start_one(number: int) -> T:
        async with slots:
            return await start(number)

    return await asyncio.gather(*(start_one(number) for number in range(count)))


async def idle_cpu(pid: int) -> float:
    """Returns the CPU seconds per second of a process without requests."""
    before = cpu_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / IDLE_SECONDS


async def per_event(
    clients: Clients, writer: Server, reader: Server, nats: int
) -> tuple[float, float]:
    """Returns the CPU seconds of one event for one reader: of the reader's gateway, and of NATS."""
    run_id = await clients.start(writer, "live")
    processes = (reader.pid, nats)
    before = [cpu_seconds(pid) for pid in processes]
    counts = await asyncio.gather(
        *(clients.read(reader, run_id) for _ in range(READERS_OF_ACTIVE_RUN))
    )
    assert len(set(counts)) == 1, counts
    gateway, server = (
        (cpu_seconds(pid) - start) / sum(counts)
        for pid, start in zip(processes, before, strict=True)
    )
    return gateway, server
