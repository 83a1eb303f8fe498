"""Tools that run in workers, by session, and the gateway's tools that workers may call."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from windlass.client.remote import HostTools
from windlass.errors import ConfigError
from windlass.gateway.config import WorkersConfig
from windlass.gateway.config.tool_loading import named_tools
from windlass.loop.executor import ToolExecutor
from windlass.messaging import NatsUnreachable
from windlass.messaging.embedded import NatsServer
from windlass.tool import Tool
from windlass.toolsets.remote.bridge import Bridge

log = logging.getLogger("windlass.gateway")

UNREACHABLE = "cannot reach the workers: NATS cannot be reached"
RETRY_SECONDS = 0.25
"""The pause between attempts to reach NATS. The connector may add longer pauses."""
REFUSED_SECONDS = 10.0
"""The pause after NATS has refused the connection."""
WORKER_WAIT_SECONDS = 15.0
"""How long a resumed run waits for its workers to reconnect."""
POLL_SECONDS = 0.2


class Workers:
    """A gateway's bridge to its workers, and its embedded NATS server, if it runs one."""

    def __init__(
        self, config: WorkersConfig, tools: Mapping[str, Tool], executor: ToolExecutor
    ) -> None:
        self._config = config
        self._host_tools = HostTools(named_tools(config.host_tools, tools).values(), executor)
        self._server: NatsServer | None = None
        self._bridge: Bridge | None = None
        self._connecting: asyncio.Task[None] | None = None
        """Set while no NATS server has answered yet."""

    @property
    def trouble(self) -> str | None:
        """Why workers cannot be used yet; None if they can."""
        return UNREACHABLE if self._connecting is not None else None

    async def start(self) -> None:
        """Connects. While no NATS server answers, retries in the background.

        Raises `ConfigError` for permanent errors, and if the embedded server cannot be started.
        """
        config = self._config
        servers: str | list[str] = list(config.nats)
        if not servers:
            self._server = NatsServer(port=config.port)
            await self._server.__aenter__()
            servers = self._server.url
        options: dict[str, Any] = {}
        if config.creds is not None:
            options["user_credentials"] = config.creds
        self._bridge = Bridge(
            servers,
            affinity=config.affinity,
            session_ttl=config.session_ttl,
            on_host_call=self._host_tools.run if self._host_tools else None,
            **options,
        )
        try:
            await self._bridge.start()
        except NatsUnreachable:
            self._connecting = asyncio.create_task(self._connect(self._bridge))
        else:
            log.info("Accepting workers", extra={"nats": self.address})

    async def _connect(self, bridge: Bridge) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                await bridge.start()
            except NatsUnreachable:
                continue
            except ConfigError as error:  # NATS refuses the connection; an operator may fix that
                log.error("%s", error)
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            self._connecting = None
            log.info("Accepting workers", extra={"nats": self.address})
            return

    @property
    def address(self) -> str:
        """The NATS address for workers, without passwords."""
        servers = [self._server.url] if self._server else self._config.nats
        return ", ".join(server.rpartition("@")[2] for server in servers)

    async def tools(self, sessions: Iterable[str]) -> tuple[Tool, ...]:
        """The tools of these sessions; the first session wins if names collide."""
        assert self._bridge is not None
        found: dict[str, Tool] = {}
        # Concurrently: the bridge waits for a session that has no worker yet.
        for tools in await asyncio.gather(*map(self._bridge.tools, sessions)):
            for tool in tools:
                found.setdefault(tool.name, tool)
        return tuple(found.values())

    async def wait_for_tools(
        self, sessions: Iterable[str], names: Collection[str]
    ) -> tuple[Tool, ...]:
        """The tools of these sessions, when all `names` are among them, or after a timeout."""
        sessions = list(sessions)
        loop = asyncio.get_running_loop()
        end = loop.time() + WORKER_WAIT_SECONDS
        while True:
            tools = await self.tools(sessions)
            if set(names) <= {tool.name for tool in tools} or loop.time() > end:
                return tools
            await asyncio.sleep(POLL_SECONDS)

    async def aclose(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._bridge is not None:
            await self._bridge.aclose()
        if self._server is not None:
            await self._server.aclose()
