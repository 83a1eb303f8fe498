"""Detects exited processes: each process renews a lease and answers pings while it is alive.

A missing lease alone proves nothing: all leases expire if JetStream is down for long enough.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection

from windlass.errors import StorageError
from windlass.messaging.connection import Connection, Msg, NatsError
from windlass.runs.jetstream.streams import Streams

SUBJECT = "windlass.v1.keeper"
PING_SECONDS = 0.5
GRACE_SECONDS = 2.0
"""How long a process without a lease may be unreachable, for example while it reconnects."""


class ProcessLeases:
    """The leases of all processes. `name` is the name of this process."""

    def __init__(self, streams: Streams, name: str, lease: float) -> None:
        self._streams, self._name, self._lease = streams, name, lease
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    async def join(self) -> None:
        """Starts renewing this process's lease and answering pings."""
        connection = await self._streams.connection()
        self._unsubscribe = await connection.subscribe(f"{SUBJECT}.{self._name}", _answer)
        await self._streams.leases.put(self._name, b"")
        self._task = asyncio.create_task(self._renew())

    async def leave(self) -> None:
        """Drops this process's lease and stops answering pings."""
        self.close()
        await self._streams.leases.drop(self._name)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._unsubscribe is not None:
            self._unsubscribe()

    async def exited(self, names: Collection[str]) -> set[str]:
        """Returns the processes that have no lease and do not answer pings."""
        leases = await self._streams.leases.all()
        missing = {name for name in names if name not in leases}
        connection = await self._streams.connection()
        loop = asyncio.get_running_loop()
        end = loop.time() + GRACE_SECONDS
        while missing:
            known = connection.reconnects
            pinged = list(missing)
            answers = await asyncio.gather(*(_is_alive(connection, name) for name in pinged))
            missing -= {name for name, alive in zip(pinged, answers, strict=True) if alive}
            if connection.reconnects != known:  # this process was disconnected itself
                end = loop.time() + GRACE_SECONDS
            elif loop.time() >= end:
                break
            await asyncio.sleep(PING_SECONDS)
        return missing

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(StorageError):
                await self._streams.leases.put(self._name, b"")


async def _answer(message: Msg) -> None:
    if message.reply:
        await message.respond(b"")


async def _is_alive(connection: Connection, name: str) -> bool:
    try:
        await connection.request(f"{SUBJECT}.{name}", b"", PING_SECONDS)
    except (NatsError, TimeoutError):
        return False
    return True
