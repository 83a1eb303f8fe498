"""`windlass.remote`: the tools of a session's workers, as a toolset."""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.content import FunctionDeclaration, FunctionResponse
from windlass.errors import ConfigError
from windlass.jsontext import compact_json
from windlass.tool import Tool, ToolContext
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import Affinity, ToolSpec
from windlass.toolsets.remote.host import HostHandler
from windlass.toolsets.remote.subjects import check_token

DEFAULT_SERVER = "nats://127.0.0.1:4222"
_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Bridge]]" = (
    weakref.WeakKeyDictionary()
)


class RemoteSession:
    """The tools of one session's workers. Several clients can use one session."""

    def __init__(
        self,
        session: str,
        *,
        nats: str | Sequence[str] = DEFAULT_SERVER,
        affinity: Affinity = "hint",
        on_host_call: HostHandler | None = None,
        **connection: Any,
    ) -> None:
        """`connection` is passed to `nats.connect`. Raises `ConfigError` for an invalid session."""
        self.session = check_token(session, "a session")
        self._servers = nats
        self._affinity: Affinity = affinity
        self._on_host_call = on_host_call
        self._connection = connection

    async def list_tools(self) -> Sequence[Tool]:
        """The tools of the current workers. Raises `ConfigError` if NATS is unreachable."""
        return await self._bridge().tools(self.session)

    async def execute(self, name: str, arguments: dict[str, Any]) -> Any:
        """Runs one tool and returns its value. Raises `ToolError` and `ConfigError`."""
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            raise ConfigError(f"no worker of the session {self.session} has a tool {name!r}")
        valid = tools[name].validate(compact_json(arguments))
        response: FunctionResponse = await tools[name](ToolContext(), **valid)
        return response.output

    async def aclose(self) -> None:
        """Closes this event loop's connection, which all sessions of a server share."""
        bridge = _bridges.get(asyncio.get_running_loop(), {}).pop(self._key, None)
        if bridge is not None:
            await bridge.aclose()

    @property
    def _key(self) -> Any:
        servers = (self._servers,) if isinstance(self._servers, str) else tuple(self._servers)
        options = tuple(sorted(self._connection.items(), key=str))
        return servers, self._affinity, self._on_host_call, options

    def _bridge(self) -> Bridge:
        made = _bridges.setdefault(asyncio.get_running_loop(), {})
        if self._key not in made:
            made[self._key] = Bridge(
                self._servers,
                affinity=self._affinity,
                on_host_call=self._on_host_call,
                lasting=False,
                **self._connection,
            )
        return made[self._key]


async def get_tools_for_model(
    session_id: str, *, nats: str | Sequence[str] = DEFAULT_SERVER, **connection: Any
) -> list[FunctionDeclaration]:
    """The declarations of a session's tools."""
    tools = await RemoteSession(session_id, nats=nats, **connection).list_tools()
    return [tool.declaration for tool in tools if isinstance(tool.declaration, FunctionDeclaration)]


def from_worker_tool(spec: ToolSpec | Mapping[str, Any]) -> FunctionDeclaration:
    """The declaration of a worker's tool. Its parameters may also be a list.

    Raises `ConfigError` for parameters that are not a JSON Schema.
    """
    declaration = Tool.from_snakepit_tool(spec).declaration
    assert isinstance(declaration, FunctionDeclaration)
    return declaration


async def execute_in_session(
    session_id: str,
    name: str,
    args: dict[str, Any],
    *,
    nats: str | Sequence[str] = DEFAULT_SERVER,
    **connection: Any,
) -> Any:
    """Runs a tool of a session and returns its value. Raises `ToolError`."""
    return await RemoteSession(session_id, nats=nats, **connection).execute(name, args)
