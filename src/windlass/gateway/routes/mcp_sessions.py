"""The sessions of MCP clients: a client that is gone stops its runs.

The protocol with sessions does not let a lost connection cancel a call. But a program that is
stopped cancels nothing, and no later connection could get the result. So the runs of a session
are stopped when it has had no connection for some seconds.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

from windlass.gateway.http.context import Scope
from windlass.gateway.runs.run import GatewayRun

log = logging.getLogger("windlass.gateway")

GONE_SECONDS = 5.0
"""How long a session with calls may be without a connection."""
_HEADER = b"mcp-session-id"
_SESSION = "windlass.mcp_session"


class McpSession:
    """The open connections of one session, and its running calls."""

    def __init__(self, forget: Callable[[], object]) -> None:
        """`forget` is called when it has neither connections nor calls."""
        self._forget = forget
        self._connections = 0
        self._runs: set[GatewayRun] = set()
        self._waiting: asyncio.Task[None] | None = None

    @contextmanager
    def calling(self, run: GatewayRun) -> Generator[None]:
        self._runs.add(run)
        try:
            yield
        finally:
            self._runs.discard(run)
            self._forget_unused()

    def connected(self) -> None:
        self._connections += 1
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def disconnected(self) -> None:
        self._connections -= 1
        if self._runs and not self._connections:
            self._waiting = asyncio.create_task(self._stop_later())
        self._forget_unused()

    def _forget_unused(self) -> None:
        if not self._connections and not self._runs:
            self._forget()

    async def _stop_later(self) -> None:
        await asyncio.sleep(GONE_SECONDS)
        for run in list(self._runs):
            log.info("run stopped: its MCP client is gone", extra={"run_id": run.id})
            await run.stop()


class McpSessions:
    """The sessions of an endpoint, by their ids."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, McpSession] = {}

    @contextmanager
    def connection(self, scope: Scope) -> Generator[None]:
        """Counts a request of a session, if it names one."""
        name = next((value for header, value in scope["headers"] if header == _HEADER), None)
        if name is None:
            yield
            return
        session = self._sessions.get(name)
        if session is None:
            session = McpSession(lambda: self._sessions.pop(name, None))
            self._sessions[name] = session
        scope[_SESSION] = session
        session.connected()
        try:
            yield
        finally:
            session.disconnected()


def session_of(scope: Scope) -> McpSession:
    """The session of a request; an empty one if it has none."""
    return scope.get(_SESSION) or McpSession(lambda: None)
