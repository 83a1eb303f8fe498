"""The workers of each session: their tools, and which worker gets the next call."""

import logging
from collections.abc import Collection, Iterator

from windlass.errors import ToolError
from windlass.toolsets.remote.frames import Affinity, Announcement, ToolSpec

log = logging.getLogger("windlass.remote")


class NoWorker(ToolError):
    """No worker has the tool at the moment."""


class SessionWorker:
    """A worker of a session, as this gateway knows it."""

    def __init__(self, announcement: Announcement, seen: float) -> None:
        self.id = announcement.worker
        self.session = announcement.session
        self.announcement = announcement
        self.seen = seen
        self.missing: float | None = None
        """When its connection was lost; None while it is connected."""
        self.reconnects: int | None = None
        """How often it lost its connection, according to its last pong."""
        self.in_flight = 0
        """Calls of this gateway that it is running."""

    @property
    def load(self) -> float:
        """Its load from 0 to 1: the larger of the gateway's own count and the last announcement."""
        running = max(self.in_flight, self.announcement.running)
        return running / max(1, self.announcement.max_running)

    def has(self, spec: ToolSpec) -> bool:
        return spec in self.announcement.tools

    def same_tools_as(self, announcement: Announcement) -> bool:
        """Whether the announcement has the same tools as the last one, which is validated."""
        last = self.announcement
        return (announcement.session, announcement.worker, announcement.tools) == (
            last.session,
            last.worker,
            last.tools,
        )


class Directory:
    """The known workers of all sessions, until they leave or are silent for too long. Pure."""

    def __init__(self, silence: float = 6.0) -> None:
        self._silence = silence
        self._sessions: dict[str, dict[str, SessionWorker]] = {}
        self._bound: dict[str, str] = {}
        self._conflicts: set[tuple[str, str, str]] = set()

    def record(self, announcement: Announcement, now: float) -> bool:
        """Records an announcement. True if the worker or its tools are new."""
        members = self._sessions.setdefault(announcement.session, {})
        known = members.get(announcement.worker)
        if known is None:
            members[announcement.worker] = SessionWorker(announcement, now)
            return True
        changed = known.announcement.tools != announcement.tools
        known.announcement, known.seen = announcement, now
        return changed

    def left(self, session: str, worker: str) -> None:
        """Removes a worker that has left or does not answer."""
        members = self._sessions.get(session, {})
        members.pop(worker, None)
        if not members:
            self._sessions.pop(session, None)

    def forget(self, session: str) -> None:
        """Removes a session that has ended."""
        self._sessions.pop(session, None)
        self._bound.pop(session, None)

    def silent(self, now: float) -> list[SessionWorker]:
        """The workers that have been silent for too long."""
        return [member for member in self._members() if now - member.seen > self._silence]

    def all_members(self) -> list[SessionWorker]:
        return list(self._members())

    def sessions(self) -> list[str]:
        return list(self._sessions)

    def members(self, session: str) -> list[SessionWorker]:
        return list(self._sessions.get(session, {}).values())

    def member(self, session: str, worker: str) -> SessionWorker | None:
        return self._sessions.get(session, {}).get(worker)

    def tools(self, session: str) -> list[ToolSpec]:
        """The session's tools. If two workers describe a tool differently, the first one wins."""
        found: dict[str, ToolSpec] = {}
        for member in self._sessions.get(session, {}).values():
            for spec in member.announcement.tools:
                known = found.setdefault(spec.name, spec)
                conflict = (session, member.id, spec.name)
                if known != spec and conflict not in self._conflicts:
                    self._conflicts.add(conflict)
                    log.warning(
                        "worker %s describes %r differently than session %s: it gets no calls",
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
    ) -> SessionWorker:
        """The worker for a call: the one that the session is bound to, or the least busy one.

        Raises `ToolError` if there is none, or with `strict_fail_fast` if that one is full.
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
                f"the worker that session {session} was bound to is gone, and its state is lost;"
                " the next call goes to another worker"
            )
        if affinity == "strict_fail_fast" and chosen is not None and chosen.load >= 1:
            raise ToolError(f"the worker that session {session} is bound to is busy")
        if chosen is None or (affinity == "hint" and chosen.load >= 1):
            chosen = min(able, key=lambda member: member.load, default=None)
        if chosen is None:
            raise NoWorker(f"no worker of the session {session} has {spec.name}")
        self._bound[session] = chosen.id
        return chosen

    def _members(self) -> Iterator[SessionWorker]:
        for members in self._sessions.values():
            yield from members.values()
