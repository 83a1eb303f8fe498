"""The worker sessions of a run: those of its model, and the one that its request names."""

import asyncio
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig, KeyConfig
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.models.served_model import ServedModel
from windlass.loop.executor import ToolExecutor
from windlass.messaging import NatsUnreachable
from windlass.tool import Tool
from windlass.wires.errors import InvalidRequest, Problem

if TYPE_CHECKING:
    from windlass.gateway.tools.workers import Workers


HEADER, NAME = b"x-windlass-session", "X-Windlass-Session"


class Sessions:
    """Checks access to sessions, and finds their tools."""

    def __init__(
        self, config: GatewayConfig, registry: ModelRegistry, executor: ToolExecutor
    ) -> None:
        """Raises `ConfigError` if a package that workers need is missing."""
        self._registry = registry
        self._keys = {key.name: key for key in config.keys}
        self.workers = _workers(config, registry, executor)

    def check_key(self, key: KeyConfig | None, session: str) -> None:
        """Raises `Refused` if a request with this key may not use the session that it names."""
        if not session:
            return
        if self.workers is None:
            raise Refused(
                Problem(404, "This gateway has no workers ([workers]).", "no_workers", NAME)
            )
        if key is not None:
            _check_allowed(key, session)

    def check_owner(self, owner: str, session: str) -> None:
        """Raises `Refused` if a run of this owner may not use the session.

        Checks the current configuration: a resumed run has no more rights than a new one.
        """
        if session and self._keys:
            _check_allowed(self._keys.get(owner), session)

    async def tools(
        self, served: ServedModel, session: str, owner: str, expected: Collection[str] = ()
    ) -> tuple[Tool, ...]:
        """The remote tools of an owner's run: those of MCP servers, then those of workers.

        Waits for workers that have the `expected` tools.
        """
        mcp_tools = await self._registry.mcp_tools(served, owner)
        sessions = sessions_of(served, session)
        if self.workers is None or not sessions:
            return mcp_tools
        known = {*self._registry.tools, *(tool.name for tool in mcp_tools)}
        try:
            worker_tools = await self.workers.wait_for_tools(sessions, set(expected) - known)
        except NatsUnreachable:
            raise
        except ConfigError as error:
            raise InvalidRequest(str(error), NAME) from None
        return (*mcp_tools, *worker_tools)

    async def by_session(self, sessions: Iterable[str]) -> dict[str, tuple[Tool, ...]]:
        """The tools of workers, by session. Queries all sessions at once."""
        if self.workers is None:
            return {}
        names = list(dict.fromkeys(sessions))
        try:
            found = await asyncio.gather(*(self.workers.tools([each]) for each in names))
        except NatsUnreachable:
            raise
        except ConfigError as error:
            raise InvalidRequest(str(error), NAME) from None
        return dict(zip(names, found, strict=True))

    @property
    def trouble(self) -> str | None:
        """Why workers cannot be used yet; None if they can, or none are configured."""
        return None if self.workers is None else self.workers.trouble

    async def start(self) -> None:
        """Raises `ConfigError` if workers cannot be used."""
        if self.workers is not None:
            await self.workers.start()

    async def aclose(self) -> None:
        if self.workers is not None:
            await self.workers.aclose()


def _check_allowed(key: KeyConfig | None, session: str) -> None:
    patterns = key.sessions if key else ()
    if not any(fnmatchcase(session, pattern) for pattern in patterns):
        message = f"This key may not use the session {session[:100]!r}."
        raise Refused(Problem(403, message, "session_not_allowed", NAME))


def sessions_of(served: ServedModel, named: str) -> tuple[str, ...]:
    """The sessions of a run: those of its model, and the one that its request names, if any."""
    return (*served.config.sessions, *([named] if named else []))


def _workers(
    config: GatewayConfig, registry: ModelRegistry, executor: ToolExecutor
) -> "Workers | None":
    if config.workers is None:
        return None
    try:
        from windlass.gateway.tools.workers import Workers
    except ModuleNotFoundError as error:
        raise ConfigError(f"workers need {error.name}: pip install 'windlass[fleet]'") from None
    return Workers(config.workers, registry.tools, executor)
