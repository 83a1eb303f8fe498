"""The workers of each session."""

import asyncio
import logging
from collections.abc import Collection, Iterator

from windlass.errors import ToolError
from windlass.messaging.connection import Connection, Msg
from windlass.toolsets.remote import subjects
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

log = logging.getLogger("windlass.remote")


class NobodyThere(ToolError):
    """Nobody has the tool now: later, somebody may."""


class Member:
    """A worker of a session, as this side knows it."""

    def __init__(self, announcement: Announcement, seen: float) -> None:
        self.id = announcement.worker
        self.session = announcement.session
        self.told = announcement
        self.seen = seen
        self.missing: float | None = None
        """Since when its connection is gone, if it is."""
        self.reconnects: int | None = None
        """How often it has lost its connection, as it said last."""
        self.in_flight = 0
        """Calls of this side that it has."""

    @property
    def load(self) -> float:
        """How full it is: what we know of now, or what it said last, whichever is more."""
        running = max(self.in_flight, self.told.running)
        return running / max(1, self.told.max_running)

    def has(self, spec: ToolSpec) -> bool:
        return spec in self.told.tools

    def repeated_by(self, announcement: Announcement) -> bool:
        """Whether that has no other tools than were checked when it first told of them."""
        told = self.told
        return (announcement.session, announcement.worker, announcement.tools) == (
            told.session,
            told.worker,
            told.tools,
        )


class Directory:
    """The workers of every session that were heard of, until they leave or fall silent."""

    def __init__(self, silence: float = 6.0) -> None:
        self._silence = silence
        self._sessions: dict[str, dict[str, Member]] = {}
        self._bound: dict[str, str] = {}
        self._strange: set[tuple[str, str, str]] = set()

    def heard(self, announcement: Announcement, now: float) -> bool:
        """Takes an announcement in; True if anything is new about it."""
        members = self._sessions.setdefault(announcement.session, {})
        known = members.get(announcement.worker)
        if known is None:
            members[announcement.worker] = Member(announcement, now)
            return True
        changed = known.told.tools != announcement.tools
        known.told, known.seen = announcement, now
        return changed

    def left(self, session: str, worker: str) -> None:
        """Forgets a worker: it has said so, or does not answer."""
        members = self._sessions.get(session, {})
        members.pop(worker, None)
        if not members:
            self._sessions.pop(session, None)

    def forget(self, session: str) -> None:
        """Forgets a session that is over."""
        self._sessions.pop(session, None)
        self._bound.pop(session, None)

    def silent(self, now: float) -> list[Member]:
        """Those who have not been heard of for too long."""
        return [member for member in self._members() if now - member.seen > self._silence]

    def everybody(self) -> list[Member]:
        return list(self._members())

    def sessions(self) -> list[str]:
        return list(self._sessions)

    def members(self, session: str) -> list[Member]:
        return list(self._sessions.get(session, {}).values())

    def member(self, session: str, worker: str) -> Member | None:
        return self._sessions.get(session, {}).get(worker)

    def tools(self, session: str) -> list[ToolSpec]:
        """The session's tools by name. Of two that differ, the one that came first is it."""
        found: dict[str, ToolSpec] = {}
        for member in self._sessions.get(session, {}).values():
            for spec in member.told.tools:
                known = found.setdefault(spec.name, spec)
                strange = (session, member.id, spec.name)
                if known != spec and strange not in self._strange:
                    self._strange.add(strange)
                    log.warning(
                        "The worker %s has another %r than the session %s: it gets no calls of it",
                        member.id,
                        spec.name,
                        session,
                    )
        return list(found.values())

    def pick(
        self,
        session: str,
        spec: ToolSpec,
        affinity: Affinity = "hint",
        tried: Collection[str] = (),
    ) -> Member:
        """Who is to run it: the least busy, or the one that the session is bound to.

        Raises `ToolError` if there is nobody, or with `strict_fail_fast` if that one is full.
        """
        able = [
            member
            for member in self._sessions.get(session, {}).values()
            if member.id not in tried and member.has(spec)
        ]
        bound = self._bound.get(session)
        chosen = next((member for member in able if member.id == bound), None)
        if affinity != "hint" and bound is not None and chosen is None:
            del self._bound[session]
            raise ToolError(
                f"the worker that the session {session} was bound to is gone, and its state with "
                "it; the next call goes to another"
            )
        if affinity == "strict_fail_fast" and chosen is not None and chosen.load >= 1:
            raise ToolError(f"the worker that the session {session} is bound to is busy")
        if chosen is None or (affinity == "hint" and chosen.load >= 1):
            chosen = min(able, key=lambda member: member.load, default=None)
        if chosen is None:
            raise NobodyThere(f"no worker of the session {session} has {spec.name} now")
        self._bound[session] = chosen.id
        return chosen

    def _members(self) -> Iterator[Member]:
        for members in self._sessions.values():
            yield from members.values()


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
