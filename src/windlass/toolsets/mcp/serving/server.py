"""A set of our tools as an MCP server, on the SDK's own server: both eras, any transport.

What runs a tool is given from outside. Other things that MCP knows, such as prompts and resources,
can be added to the server that is made here with the SDK's own means.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from windlass.content import FunctionResponse
from windlass.errors import ToolError
from windlass.jsontext import compact_json
from windlass.tool import Tool
from windlass.toolsets.mcp.serving.answers import failed, result_of
from windlass.toolsets.mcp.serving.approval import approval
from windlass.toolsets.mcp.serving.listing import described, offered
from windlass.toolsets.mcp.serving.progress import ProgressRelay

__all__ = ["Execute", "ToolServer", "current_call"]

log = logging.getLogger("windlass.mcp")

WATCH = 0.5
"""Seconds between looks at a set of tools that may change."""


class Execute(Protocol):
    """Runs a tool. An MCP result goes to the client as it is."""

    async def __call__(
        self, tool: Tool, arguments: str, relay: ProgressRelay
    ) -> FunctionResponse | types.Result:
        """Raises `ToolError`, for the model, and `MCPError`, for the client."""
        ...


_call: contextvars.ContextVar[tuple[ServerRequestContext, types.CallToolRequestParams] | None] = (
    contextvars.ContextVar("mcp_served_call", default=None)
)


def current_call() -> tuple[ServerRequestContext, types.CallToolRequestParams] | None:
    """The request that a tool answers, for one that speaks MCP itself; None outside a server."""
    return _call.get()


class ToolServer(Server[Any]):
    """Serves the tools that `tools` lists whenever it is asked."""

    def __init__(
        self,
        tools: Callable[[], list[Tool]],
        execute: Execute,
        *,
        name: str = "windlass",
        version: str = "",
        instructions: str | None = None,
    ) -> None:
        self._tools, self._execute = tools, execute
        self.bus = InMemorySubscriptionBus()
        """Where subscribers in the newer era hear of changes; prompts and resources may use it."""
        self._connections: set[Connection] = set()
        self._told = self._names()
        super().__init__(
            name,
            version=version,
            instructions=instructions,
            lifespan=self._watching,
            get_tool_input_schema=self._schema,
            on_list_tools=self._list,
            on_call_tool=self._answer,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        security = RequestStateSecurity.ephemeral()
        self.middleware.append(RequestStateBoundary(security, default_audience=name))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Says to clients with a handshake that they will hear of changes."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
        )

    async def announce_changes(self) -> None:
        """Tells all clients if the tools are not what they were when this was last asked."""
        names = self._names()
        if names == self._told:
            return
        self._told = names
        await self.bus.publish(ToolsListChanged())
        for connection in list(self._connections):
            await connection.send_tool_list_changed()

    @asynccontextmanager
    async def _watching(self, server: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(WATCH)
                await self.announce_changes()

        watcher = asyncio.create_task(watch())
        try:
            yield {}
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _list(
        self, context: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._remember(context.session._connection)  # pyright: ignore[reportPrivateUsage]
        return types.ListToolsResult(tools=[described(tool) for tool in offered(self._tools())])

    async def _answer(
        self, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = self._find(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        if tool.options.approve:
            decision = await approval(context, params)
            if isinstance(decision, types.InputRequiredResult):
                return decision
            if not decision:
                return failed("The call was denied.")
        token = _call.set((context, params))
        try:
            return await self._run(tool, context, params)
        finally:
            _call.reset(token)
            await self.announce_changes()

    async def _run(
        self, tool: Tool, context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> Any:
        arguments = compact_json(params.arguments or {})
        try:
            async with ProgressRelay(context.session.report_progress) as relay:
                answer = await self._execute(tool, arguments, relay)
        except ToolError as error:
            return failed(error.message)
        except MCPError:
            raise
        except Exception:
            log.exception("A tool failed", extra={"tool": tool.name})
            return failed(f"{tool.name} failed.")
        return answer if isinstance(answer, types.Result) else result_of(answer)

    def _remember(self, connection: Connection) -> None:
        """A client with a handshake hears of changes as long as it is connected."""
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)

    def _find(self, name: str) -> Tool | None:
        return next((tool for tool in offered(self._tools()) if tool.name == name), None)

    def _schema(self, name: str) -> dict[str, Any] | None:
        tool = self._find(name)
        return None if tool is None else described(tool).input_schema

    def _names(self) -> list[tuple[str, int]]:
        return [(tool.name, id(tool)) for tool in self._tools()]
