"""The memory of a waiting run and of its reader in a gateway, and the CPU of each event."""

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
AT_ONCE = 32
SETTLE_SECONDS = 1.0
IDLE_SECONDS = 6.0
"""Several times the interval at which gateways look for interrupted runs."""
READING = 100
"""Readers of one active run."""


class Figures(NamedTuple):
    gateway_mb: float  # with nothing to do
    nats_mb: float
    worker_mb: float
    run_kb: float  # a run that waits for its tool
    run_nats_kb: float
    idle: float  # CPU seconds a second of a gateway that does nothing
    idle_beside: float  # and beside another gateway that has all these runs
    here_kb: float  # a reader of a run of the same gateway
    there_kb: float  # a reader of a run of another gateway
    here_event: float  # CPU seconds of one event for one reader
    there_event: float
    there_nats: float


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
        """A reader that has seen the run's first event, and waits for more until all is over."""
        url = f"{root(gateway)}/v1/runs/{run_id}/events"
        answer = await self._stack.enter_async_context(self._session.get(url))
        answer.raise_for_status()
        await answer.content.readuntil(b"\n\n")

    async def read(self, gateway: Server, run_id: str) -> int:
        """How many events the run has had at its end."""
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
    idle = await load(second.pid)
    sizes = [resident_mb(pid) for pid in (first.pid, nats)]
    ids = await several(runs, lambda _: clients.start(first, "held"))
    await asyncio.sleep(SETTLE_SECONDS)
    held = [resident_mb(pid) for pid in (first.pid, nats)]
    run_kb, run_nats_kb = (
        (after - before) * 1024 / runs for before, after in zip(sizes, held, strict=True)
    )
    idle_beside = await load(second.pid)
    reader_kb: list[float] = []
    for gateway in (first, second):
        before = resident_mb(gateway.pid)
        await several(readers, lambda number, at=gateway: clients.open(at, ids[number % runs]))
        await asyncio.sleep(SETTLE_SECONDS)
        reader_kb.append((resident_mb(gateway.pid) - before) * 1024 / readers)
    here_event, _ = await per_event(clients, first, first, nats)
    there_event, there_nats = await per_event(clients, first, second, nats)
    return Figures(
        gateway_mb=sizes[0],
        nats_mb=sizes[1],
        worker_mb=resident_mb(running.worker),
        run_kb=run_kb,
        run_nats_kb=run_nats_kb,
        idle=idle,
        idle_beside=idle_beside,
        here_kb=reader_kb[0],
        there_kb=reader_kb[1],
        here_event=here_event,
        there_event=there_event,
        there_nats=there_nats,
    )


async def several(count: int, what: Callable[[int], Coroutine[Any, Any, T]]) -> list[T]:
    """Starts this many, a few at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> T:
        async with places:
            return await what(number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def load(pid: int) -> float:
    """CPU seconds a second, without requests."""
    before = cpu_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / IDLE_SECONDS


async def per_event(
    clients: Clients, writer: Server, reader: Server, nats: int
) -> tuple[float, float]:
    """CPU seconds of the readers' gateway and of NATS: one event, one reader."""
    run_id = await clients.start(writer, "live")
    processes = (reader.pid, nats)
    before = [cpu_seconds(pid) for pid in processes]
    counts = await asyncio.gather(*(clients.read(reader, run_id) for _ in range(READING)))
    assert len(set(counts)) == 1, counts
    gateway, server = (
        (cpu_seconds(pid) - spent) / sum(counts)
        for pid, spent in zip(processes, before, strict=True)
    )
    return gateway, server
