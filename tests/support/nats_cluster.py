"""A cluster of three NATS servers on this machine. Tests can kill each of them."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from nats.js.api import DiscardPolicy
from tests.support.ports import free_port

from windlass.messaging.connection import Connection, NatsError, connect
from windlass.messaging.embedded import NatsServer

SIZE = 3
CLUSTER = """\
server_name: "n{number}"
cluster {{ name: "drill", listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""
STREAM = "WINDLASS_LOG"
BUCKETS = ("RUNS", "OPEN", "LEASES", "ORDERS")


class NatsCluster:
    """Use it as `async with`. The data of a killed server stays in `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ports = [free_port() for _ in range(SIZE)]
        self._routes = [free_port() for _ in range(SIZE)]
        self._servers: dict[int, NatsServer] = {}

    @property
    def servers(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self._ports]

    async def __aenter__(self) -> "NatsCluster":
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(SIZE):
                    group.create_task(self.start(number))
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for server in self._servers.values():
            await server.aclose()

    async def start(self, number: int) -> None:
        if number in self._servers:
            await self._servers.pop(number).aclose()
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        cluster = CLUSTER.format(number=number, port=self._routes[number], routes=routes)
        server = NatsServer(
            port=self._ports[number], store=self._home / f"nats{number}", extra=[cluster]
        )
        self._servers[number] = server
        await server.__aenter__()

    def kill(self, number: int) -> None:
        os.kill(self.process_id(number), signal.SIGKILL)

    def process_id(self, number: int) -> int:
        return self._servers[number].process_id

    async def leader(self) -> int:
        """Returns the server that leads the stream of events. Waits until there is one."""
        return (await self._members(STREAM))[0]

    async def whole(self) -> None:
        """Waits until every server is up to date."""
        for stream in (STREAM, *(f"KV_WINDLASS_{name}" for name in BUCKETS)):
            while (await self._members(stream))[1] < SIZE - 1:
                await asyncio.sleep(0.2)

    async def _members(self, stream: str) -> tuple[int, int]:
        """Returns the leader of the stream, and how many other servers are up to date."""
        connection = await connect(self.servers, "drill", {"error_cb": _ignore})
        try:
            while True:
                try:
                    info = await connection.jetstream(2.0).stream_info(stream)
                except (NatsError, TimeoutError):
                    info = None
                if info is not None and info.cluster is not None and info.cluster.leader:
                    peers = info.cluster.replicas or []
                    current = [each for each in peers if each.current and not each.offline]
                    return int(info.cluster.leader.removeprefix("n")), len(current)
                await asyncio.sleep(0.2)
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def full_stream(servers: list[str]) -> AsyncIterator[None]:
    """Makes the stream refuse new events during the block, as if it had reached its byte limit."""
    connection = await connect(servers, "drill", {"error_cb": _ignore})
    try:
        await _limit(connection, full=True)
        yield
    finally:
        await _limit(connection, full=False)
        await connection.close()


async def _limit(connection: Connection, *, full: bool) -> None:
    """Sets the limit. Repeats the request, because the cluster may be electing a leader."""
    js = connection.jetstream(2.0)
    while True:
        try:
            info = await js.stream_info(STREAM)
            info.config.max_bytes = max(1, info.state.bytes) if full else -1
            info.config.discard = DiscardPolicy.NEW if full else DiscardPolicy.OLD
            await js.update_stream(info.config)
        except (NatsError, TimeoutError):
            await asyncio.sleep(0.2)
        else:
            return


async def _ignore(_: Exception) -> None:
    pass
