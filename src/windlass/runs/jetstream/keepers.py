"""Which processes live: each says so again and again, and answers when it is asked.

A lease alone proves nothing: where JetStream was away for longer than one lasts, nobody has one.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection

from windlass.errors import StorageError
from windlass.messaging.connection import Connection, Msg, NatsError
from windlass.runs.jetstream.streams import Streams

__all__ = ["Keepers"]

SUBJECT = "windlass.v1.keeper"
ASK_SECONDS = 0.5
GRACE_SECONDS = 2.0
"""How long one whose lease is over may be unreachable, as while its connection comes back."""


class Keepers:
    """`name` is that of this process."""

    def __init__(self, streams: Streams, name: str, lease: float) -> None:
        self._streams, self._name, self._lease = streams, name, lease
        self._task: asyncio.Task[None] | None = None
        self._hush: Callable[[], None] | None = None

    async def join(self) -> None:
        """Says from now on that this process lives."""
        connection = await self._streams.connection()
        self._hush = await connection.subscribe(f"{SUBJECT}.{self._name}", _answer)
        await self._streams.leases.put(self._name, b"")
        self._task = asyncio.create_task(self._keep())

    async def leave(self) -> None:
        """Says that it lives no more."""
        self.close()
        await self._streams.leases.drop(self._name)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._hush is not None:
            self._hush()

    async def gone(self, names: Collection[str]) -> set[str]:
        """Those who have no lease, and do not answer either."""
        leases = await self._streams.leases.all()
        missing = {name for name in names if name not in leases}
        connection = await self._streams.connection()
        loop = asyncio.get_running_loop()
        end = loop.time() + GRACE_SECONDS
        while missing:
            known = connection.reconnects
            asked = list(missing)
            answers = await asyncio.gather(*(_lives(connection, name) for name in asked))
            missing -= {name for name, lives in zip(asked, answers, strict=True) if lives}
            if connection.reconnects != known:  # we were away ourselves
                end = loop.time() + GRACE_SECONDS
            elif loop.time() >= end:
                break
            await asyncio.sleep(ASK_SECONDS)
        return missing

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(StorageError):
                await self._streams.leases.put(self._name, b"")


async def _answer(message: Msg) -> None:
    if message.reply:
        await message.respond(b"")


async def _lives(connection: Connection, name: str) -> bool:
    try:
        await connection.request(f"{SUBJECT}.{name}", b"", ASK_SECONDS)
    except (NatsError, TimeoutError):
        return False
    return True
