"""Measures a run in each kind of log, at the pace of a real model: bytes, messages and CPU."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from gateway_load import cpu_seconds
from gateway_servers import free_port
from remote_servers import get_weather
from upstream import tokens

from windlass import AsyncClient
from windlass.content import FunctionCall
from windlass.errors import StorageError
from windlass.events import ModelEvent, TextDelta, ToolCallEnded, ToolCallStarted, TurnEnded
from windlass.messaging.connection import connect
from windlass.messaging.embedded import NatsServer
from windlass.model import ModelRequest
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.memory import MemoryRunLog
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog

TOKENS = 100
PACE_SECONDS = 0.02
PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
CLUSTER_SECONDS = 30.0
WARM_UP_RUNS = 4
"""The number of runs whose CPU does not count. They are stored like the others."""


class RunCost(NamedTuple):
    """The cost of one run."""

    events: float
    messages: float
    stored: float  # bytes, of one replica
    cpu: float  # seconds in the process of the run
    nats: float  # seconds of all NATS servers


class PacedModel:
    """Calls one tool, then writes this many tokens, one every 20 ms."""

    name = "bench"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        yield self._answer() if request.messages[-1].role == "tool" else self._call()

    async def _call(self) -> AsyncIterator[ModelEvent]:
        call = FunctionCall("get_weather", '{"city":"Paris"}', "call_0")
        yield ToolCallStarted(0, call.id, call.name)
        yield ToolCallEnded(0, call)
        yield TurnEnded("tool_calls")

    async def _answer(self) -> AsyncIterator[ModelEvent]:
        for token in tokens(TOKENS):
            await asyncio.sleep(PACE_SECONDS)
            yield TextDelta(token)
        yield TurnEnded("stop")

    async def aclose(self) -> None: ...


async def cost_in_each_log(runs: int) -> dict[str, RunCost]:
    """Returns the cost of a run by kind of log."""
    with TemporaryDirectory() as folder:
        costs = {"memory": await measure_log(MemoryRunLog(), runs)}
        path = Path(folder, "runs.db")
        in_sqlite = await measure_log(SQLiteLog(path), runs)
        size = (await asyncio.to_thread(path.stat)).st_size
        costs["SQLite"] = in_sqlite._replace(stored=size / (runs + WARM_UP_RUNS))
        for replicas in (1, 3):
            async with cluster(replicas) as servers:
                title = f"JetStream, {replicas} replica{'s' * (replicas > 1)}"
                costs[title] = await measure_jetstream(servers, replicas, runs)
    return costs


async def measure_jetstream(servers: list[NatsServer], replicas: int, runs: int) -> RunCost:
    urls = [server.url for server in servers]
    log = JetStreamLog(urls, replicas=replicas)
    await wait_until_ready(log)
    cost = await measure_log(log, runs, [server.process_id for server in servers])
    connection = await connect(urls, "bench", {})
    states = [each.state for each in await connection.jetstream().streams_info()]
    await connection.close()
    return cost._replace(
        messages=sum(state.messages for state in states) / (runs + WARM_UP_RUNS),
        stored=sum(state.bytes for state in states) / (runs + WARM_UP_RUNS),
    )


async def measure_log(log: RunLog, runs: int, servers: list[int] | None = None) -> RunCost:
    """Executes this many runs at the same time, and returns the cost of one."""
    servers = servers or []
    async with AsyncClient(PacedModel(), tools=[get_weather], log=log) as client:
        await asyncio.gather(*(run_once(client) for _ in range(WARM_UP_RUNS)))
        cpu, nats = cpu_seconds(os.getpid()), sum(map(cpu_seconds, servers))
        events = await asyncio.gather(*(run_once(client) for _ in range(runs)))
        cpu = (cpu_seconds(os.getpid()) - cpu) / runs
        nats = (sum(map(cpu_seconds, servers)) - nats) / runs
    await log.aclose()
    return RunCost(sum(events) / runs, 0, 0, cpu, nats)


async def run_once(client: AsyncClient) -> int:
    async with client.stream(PROMPT) as stream:
        return len([event async for event in stream])


@asynccontextmanager
async def cluster(size: int) -> AsyncGenerator[list[NatsServer]]:
    """Starts one server, or a cluster."""
    async with AsyncExitStack() as stack:
        ports = [free_port() for _ in range(size)] if size > 1 else [0]
        routes = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in ports)
        yield [
            await stack.enter_async_context(
                NatsServer(extra=cluster_settings(port, routes) if port else ())
            )
            for port in ports
        ]


def cluster_settings(port: int, routes: str) -> list[str]:
    place = f'listen: "127.0.0.1:{port}", routes: [{routes}]'
    return [f"server_name: n{port}", f"cluster {{ name: bench, {place} }}"]


async def wait_until_ready(log: JetStreamLog) -> None:
    """Waits until the cluster has elected its leader and created the streams."""
    give_up = time.monotonic() + CLUSTER_SECONDS
    while True:
        with contextlib.suppress(StorageError):
            await log.list()
            return
        if time.monotonic() > give_up:
            raise SystemExit(f"the NATS cluster is not ready after {CLUSTER_SECONDS:g} s")
        await asyncio.sleep(0.2)
