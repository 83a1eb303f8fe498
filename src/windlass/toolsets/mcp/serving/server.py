"""`ToolServer`: Windlass tools as an MCP server, based on the SDK's server, for any transport.

The caller passes the function that runs a tool. Prompts and resources can be added with the SDK.
"""

import asyncio
import base64
import contextvars
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, TypeAlias, cast

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

from windlass.content import (
    FileData,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    media_label,
)
from windlass.errors import ToolError
from windlass.jsontext import compact_json
from windlass.tool import Tool


def offered(tools: list[Tool]) -> list[Tool]:
    """The tools that can be served: those with a function."""
    return [
        tool
        for tool in tools
        if tool.runnable and isinstance(tool.declaration, FunctionDeclaration)
    ]


def described(tool: Tool) -> types.Tool:
    """The MCP description of a tool. Hints are present only if the tool's options set them."""
    declaration = tool.declaration
    assert isinstance(declaration, FunctionDeclaration)
    idempotent = True if tool.options.idempotent else None
    return types.Tool(
        name=tool.name,
        description=declaration.description or None,
        input_schema={"type": "object", **declaration.parameters},
        annotations=types.ToolAnnotations(
            # A tool with a cache has no side effects.
            read_only_hint=True if tool.options.cache is not None else None,
            idempotent_hint=idempotent,
        )
        if idempotent or tool.options.cache is not None
        else None,
    )


Medium: TypeAlias = InlineData | FileData


def result_of(response: FunctionResponse) -> types.CallToolResult:
    """The result of a call. An object is also sent as structured content."""
    if response.error is not None:
        return failed(response.error)
    output: Any = response.output
    structured = cast("dict[str, Any]", output) if isinstance(output, dict) else None
    return types.CallToolResult(
        content=_content(output, list(response.parts), response.text),
        structured_content=structured,
    )


def failed(words: str) -> types.CallToolResult:
    """The result of a failed call; the model reads `words`."""
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _content(output: Any, media: list[Medium], text: str) -> list[types.ContentBlock]:
    if not media:
        return [types.TextContent(text=text)]
    pieces = cast("list[Any]", output) if isinstance(output, list) else [output]
    blocks: list[types.ContentBlock] = []
    for piece in pieces:
        if media and piece == media_label(media[0]):
            blocks.append(_medium(media.pop(0)))
        elif isinstance(piece, str):
            blocks.append(types.TextContent(text=piece))
        else:
            response = FunctionResponse("", {"output": piece})
            blocks.append(types.TextContent(text=response.text))
    return [*blocks, *map(_medium, media)]


def _medium(part: Medium) -> types.ContentBlock:
    match part:
        case FileData():
            name = part.uri.rstrip("/").rpartition("/")[2] or part.uri
            return types.ResourceLink(uri=part.uri, name=name, mime_type=part.mime_type)
        case InlineData():
            data = base64.b64encode(part.data).decode("ascii")
            if part.mime_type.startswith("image/"):
                return types.ImageContent(data=data, mime_type=part.mime_type)
            if part.mime_type.startswith("audio/"):
                return types.AudioContent(data=data, mime_type=part.mime_type)
            blob = types.BlobResourceContents(
                uri="windlass://result", blob=data, mime_type=part.mime_type
            )
            return types.EmbeddedResource(resource=blob)


ANSWER = "approval"
SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "description": "Whether it may run."}},
    "required": ["approve"],
}


async def approval(
    context: ServerRequestContext, params: types.CallToolRequestParams
) -> bool | types.InputRequiredResult:
    """Whether the call is approved; or the question, for clients that then repeat the call."""
    shown = compact_json(params.arguments or {})
    message = f"Run {params.name} with {shown[:2000]}?"
    question = types.ElicitRequestFormParams(message=message, requested_schema=SCHEMA)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        given = (params.input_responses or {}).get(ANSWER)
        if given is None and _can_ask(context):
            request = types.ElicitRequest(params=question)
            return types.InputRequiredResult(input_requests={ANSWER: request})
        return isinstance(given, types.ElicitResult) and _is_yes(given)
    if not _can_ask(context):
        return False
    return _is_yes(await context.session.elicit_form(message, SCHEMA, context.request_id))


def _can_ask(context: ServerRequestContext) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _is_yes(result: types.ElicitResult) -> bool:
    return result.action == "accept" and (result.content or {}).get("approve") is True


Report: TypeAlias = tuple[float, float | None, str | None]
Send: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressRelay:
    """Sends a tool's progress reports in order. Leaving the context waits until all are sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._reports: asyncio.Queue[tuple[float, float | None, str | None] | None] = (
            asyncio.Queue()
        )
        self._sent = 0.0

    def report(self, fraction: float | None, message: str | None, data: Any) -> None:
        """Takes the arguments of `ToolContext.progress`. Call it in the event loop."""
        if fraction is not None:
            self._reports.put_nowait((fraction, 1.0, message))
            return
        # MCP requires an increasing number: a report without one gets the next.
        known = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        number = known.get("progress")
        self._sent = float(number) if isinstance(number, int | float) else self._sent + 1
        self._reports.put_nowait((self._sent, None, message))

    async def __aenter__(self) -> "ProgressRelay":
        self._task = asyncio.create_task(self._relay())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reports.put_nowait(None)
        if isinstance(error, asyncio.CancelledError):
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _relay(self) -> None:
        while (report := await self._reports.get()) is not None:
            await self._send(*report)


log = logging.getLogger("windlass.mcp")

POLL_INTERVAL = 0.5
"""Seconds between checks for changed tools."""


class Execute(Protocol):
    """Runs a tool. An MCP result is sent to the client unchanged."""

    async def __call__(
        self, tool: Tool, arguments: str, relay: ProgressRelay
    ) -> FunctionResponse | types.Result:
        """Raises `ToolError`, for the model, and `MCPError`, for the client."""
        ...


_call: contextvars.ContextVar[tuple[ServerRequestContext, types.CallToolRequestParams] | None] = (
    contextvars.ContextVar("mcp_served_call", default=None)
)


def current_call() -> tuple[ServerRequestContext, types.CallToolRequestParams] | None:
    """The MCP request that the tool is answering; None outside a `ToolServer`."""
    return _call.get()


class ToolServer(Server[Any]):
    """Serves the tools that `tools()` returns at the time of each request."""

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
        """Publishes changes to subscribed clients; prompts and resources can use it too."""
        self._connections: set[Connection] = set()
        self._announced = self._names()
        super().__init__(
            name,
            version=version,
            instructions=instructions,
            lifespan=self._lifespan,
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
        """Declares to clients with a handshake that changes are announced."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
        )

    async def announce_changes(self) -> None:
        """Notifies all clients if the tools have changed since the last call."""
        names = self._names()
        if names == self._announced:
            return
        self._announced = names
        await self.bus.publish(ToolsListChanged())
        for connection in list(self._connections):
            await connection.send_tool_list_changed()

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(POLL_INTERVAL)
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
            log.exception("tool failed", extra={"tool": tool.name})
            return failed(f"{tool.name} failed.")
        return answer if isinstance(answer, types.Result) else result_of(answer)

    def _remember(self, connection: Connection) -> None:
        """Remembers a client with a handshake, to notify it of changes while it is connected."""
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
