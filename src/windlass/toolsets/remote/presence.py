"""Who is there: what workers say of themselves, and waiting for those who come."""

import asyncio
import logging
from collections.abc import Collection

from windlass.messaging.connection import Connection, Msg
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.directory import Directory, Member, NobodyThere
from windlass.toolsets.remote.frames import (
    NOTICE,
    Affinity,
    Announcement,
    BadFrame,
    Refused,
    ToolSpec,
    checked,
    decode,
    encode,
)

__all__ = ["Presence"]

log = logging.getLogger("windlass.remote")

DISCOVERY_SECONDS = 0.5
"""How long a session that nobody knows is asked for."""
NOBODY_SECONDS = 3.0
"""How long a call waits for a worker where there is none, as when the only one is restarted."""


class Presence:
    """Keeps the directory; belongs to one event loop."""

    def __init__(self, directory: Directory, affinity: Affinity) -> None:
        self._directory = directory
        self._affinity: Affinity = affinity
        self._news = asyncio.Event()

    async def on_notice(self, message: Msg) -> None:
        session, worker = subjects.worker_in(message.subject)
        try:
            notice = decode(message.data, NOTICE)
            if isinstance(notice, Announcement):
                known = self._directory.member(session, worker)
                if known is None or not known.repeated_by(notice):
                    checked(notice, session, worker)
        except BadFrame as error:
            log.warning("A worker of the session %s was refused: %s", session, error)
            if message.reply:
                await message.respond(encode(Refused(reason=str(error))))
            return
        if isinstance(notice, Announcement):
            if self._directory.heard(notice, asyncio.get_running_loop().time()):
                self._news.set()
        else:
            self._directory.left(session, worker)

    async def somebody(
        self, connection: Connection, session: str, spec: ToolSpec, tried: Collection[str]
    ) -> Member:
        """Who is to run it; where nobody is, a worker that comes is waited for."""
        loop = asyncio.get_running_loop()
        end = loop.time() + NOBODY_SECONDS
        while True:
            try:
                return self._directory.pick(session, spec, self._affinity, tried)
            except NobodyThere:
                if loop.time() >= end:
                    raise
            await connection.publish(subjects.hello(session))
            await self._hear_news()

    async def discover(self, connection: Connection, session: str) -> None:
        """Asks for the workers of a session, and waits a moment for the first."""
        await connection.publish(subjects.hello(session))
        end = asyncio.get_running_loop().time() + DISCOVERY_SECONDS
        while not self._directory.members(session) and await self._hear_news(end):
            pass

    async def _hear_news(self, until: float | None = None) -> bool:
        """Waits until somebody new is there, for a while; whether that is so."""
        until = until or asyncio.get_running_loop().time() + DISCOVERY_SECONDS
        self._news.clear()
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            return False
        return True
