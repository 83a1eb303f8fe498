"""The presence of workers: their announcements, and waiting for them."""

import asyncio
import logging
from collections.abc import Collection

from windlass.messaging.connection import Connection, Msg, count_subscribers
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.directory import Directory, NoWorker, SessionWorker
from windlass.toolsets.remote.frames import (
    NOTICE,
    Affinity,
    Announcement,
    BadFrame,
    CallRefused,
    Farewell,
    ToolSpec,
    checked,
    decode,
    encode,
)

log = logging.getLogger("windlass.remote")

DISCOVERY_SECONDS = 0.5
"""How long to wait for the first worker of an unknown session."""
SILENT_SECONDS = 5.0
"""How long a connected worker may be silent before it counts as lost."""
QUIET_SECONDS = 0.2
"""All workers count as known after this time without a new one, if they cannot be counted."""
NO_WORKER_SECONDS = 3.0
"""How long a call waits if there is no worker, for example while the only one restarts."""


class _Discovery:
    """One request to the workers of a session to announce themselves, shared by all listings."""

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self._workers: set[str] = set()
        """The workers that answered, including those whose announcement was refused."""
        self._news = asyncio.Event()

    def add(self, worker: str) -> None:
        if worker not in self._workers:
            self._workers.add(worker)
            self._news.set()

    async def wait(self, there: int | None) -> None:
        """Waits for this number of workers; with None, until no more workers answer.

        If there is no worker, waits a moment longer for one that is about to subscribe.
        """
        if there:
            while len(self._workers) < there and await self._another(SILENT_SECONDS):
                pass
        elif self._workers or await self._another(DISCOVERY_SECONDS):
            while there is None and await self._another(QUIET_SECONDS):
                pass

    async def _another(self, seconds: float) -> bool:
        return await happens(self._news, seconds)


async def happens(news: asyncio.Event, seconds: float) -> bool:
    """Waits until the event is set again; False after a timeout."""
    news.clear()
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True


class Presence:
    """Updates the directory from announcements, and waits for workers, in one event loop."""

    def __init__(self, gateway: str, directory: Directory, affinity: Affinity) -> None:
        self._gateway = gateway
        self._directory = directory
        self._affinity: Affinity = affinity
        self._news = asyncio.Event()
        self._complete: set[str] = set()
        """Sessions whose workers are all known."""
        self._discoveries: dict[str, _Discovery] = {}

    async def on_notice(self, message: Msg) -> None:
        session, worker = subjects.worker_in(message.subject)
        try:
            notice = decode(message.data, NOTICE)
            if isinstance(notice, Announcement):
                known = self._directory.member(session, worker)
                if known is None or not known.same_tools_as(notice):
                    checked(notice, session, worker)
        except BadFrame as error:
            log.warning("refused a worker of session %s: %s", session, error)
            if message.reply:
                await message.respond(encode(CallRefused(reason=str(error))))
        else:
            if isinstance(notice, Farewell):
                self._directory.left(session, worker)
            elif self._directory.record(notice, asyncio.get_running_loop().time()):
                self._news.set()
        if (discovery := self._discoveries.get(session)) is not None:
            discovery.add(worker)

    async def wait_for_worker(
        self, connection: Connection, session: str, spec: ToolSpec, tried: Collection[str]
    ) -> SessionWorker:
        """The worker for a call. If there is none, waits for one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + NO_WORKER_SECONDS
        while True:
            try:
                return self._directory.pick(session, spec, self._affinity, tried)
            except NoWorker:
                if loop.time() >= end:
                    raise
            await connection.publish(subjects.hello(session))
            await happens(self._news, DISCOVERY_SECONDS)

    async def discover(self, connection: Connection, session: str) -> None:
        """Waits for all workers of a session, if it has none or is listed for the first time."""
        if session in self._complete and self._directory.members(session):
            return
        discovery = self._discoveries.get(session)
        if discovery is None:
            discovery = self._discoveries[session] = _Discovery()
            discovery.task = asyncio.create_task(self._ask_all(connection, session, discovery))
        await asyncio.shield(discovery.task)

    def forget(self, session: str | None = None) -> None:
        """Forgets that the session, or each one, was listed: its next listing waits again."""
        if session is None:
            self._complete.clear()
        else:
            self._complete.discard(session)

    def cancel(self) -> None:
        """Ends all waiting, when the connection is closed."""
        for discovery in self._discoveries.values():
            discovery.task.cancel()

    async def _ask_all(self, connection: Connection, session: str, discovery: _Discovery) -> None:
        """Asks the workers of a session to announce themselves, and waits for them."""
        try:
            hello = subjects.hello(session)
            await connection.publish(hello)
            there = await count_subscribers(connection, hello, subjects.trace(self._gateway))
            await discovery.wait(there)
            if self._directory.members(session):
                self._complete.add(session)
        finally:
            del self._discoveries[session]
