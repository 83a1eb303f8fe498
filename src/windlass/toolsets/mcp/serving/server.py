"""`ToolServer`: Windlass tools as an MCP server, based on the SDK's server, for any transport.

A `ToolHost` provides the tools and runs their calls. Prompts come from files, and prompts,
resources and completions also from the SDK's `MCPServer` objects of tool modules.
"""

import asyncio
import base64
import contextlib
import logging
import secrets
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from windlass.content import InlineData
from windlass.errors import ConfigError, ToolError
from windlass.jsontext import compact_json
from windlass.toolsets.mcp.serving.calls import (
    ClientLog,
    Request,
    ServedCall,
    ToolHost,
    captured,
    current_call,
)
from windlass.toolsets.mcp.serving.prompts import PromptFolder, ResourceBlock
from windlass.toolsets.mcp.serving.results import (
    RESULT_URI,
    described,
    failed,
    offered,
    output_of,
    result_of,
)

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["ToolServer", "current_call"]

log = logging.getLogger("windlass.mcp")

POLL_INTERVAL = 0.5
"""Seconds between checks for changed tools."""
PAGE_SIZE = 200
"""How many tools, resources or prompts one page lists."""
MAX_COMPLETIONS = 100
NOT_FOUND = -32002
"""The error code of handshake versions for a resource that does not exist."""

T = TypeVar("T")


class ToolServer(Server[Any]):
    """Serves the tools of its host, and the prompts and resources of `prompts` and `extras`."""

    def __init__(
        self,
        host: ToolHost,
        *,
        name: str = "windlass",
        version: str = "",
        instructions: str | None = None,
        prompts: PromptFolder | None = None,
        extras: "Sequence[MCPServer]" = (),
        owner_of: Callable[[Request], str | None] | None = None,
        state_key: bytes | None = None,
    ) -> None:
        """`owner_of` returns the sender of a request, so that no other client can continue it.

        `state_key` encrypts the state that clients return; None means a key of this process.
        """
        self._host, self._prompts, self._extras = host, prompts, extras
        self.bus = InMemorySubscriptionBus()
        """Publishes changes to all clients."""
        self._connections: set[Connection] = set()
        self._subscribed: dict[Connection, set[str]] = {}
        self._levels: dict[Connection, types.LoggingLevel] = {}
        self._announced: object = None
        self._schemas: dict[str, dict[str, Any]] = {}
        with warnings.catch_warnings():
            # Deprecated in 2026-07-28, and part of 2025-11-25.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            super().__init__(  # pyright: ignore[reportDeprecated]
                name,
                version=version,
                instructions=instructions,
                lifespan=self._lifespan,
                get_tool_input_schema=self._schemas.get,
                on_list_tools=self._list_tools,
                on_call_tool=self._call_tool,
                on_list_resources=self._list_resources,
                on_list_resource_templates=self._list_templates,
                on_read_resource=self._read_resource,
                on_subscribe_resource=self._subscribe,
                on_unsubscribe_resource=self._unsubscribe,
                on_list_prompts=self._list_prompts,
                on_get_prompt=self._get_prompt,
                on_completion=self._complete,
                on_set_logging_level=self._set_level,
                on_subscriptions_listen=ListenHandler(self.bus),
            )
        security = RequestStateSecurity(keys=[state_key or secrets.token_bytes(32)])
        security.bind_principal = owner_of
        self.middleware.append(RequestStateBoundary(security, default_audience=name))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Declares to clients with a handshake that changes are announced."""
        changes = NotificationOptions(
            tools_changed=True, prompts_changed=True, resources_changed=True
        )
        return super().create_initialization_options(
            notification_options or changes, experimental_capabilities, extensions
        )

    async def announce_changes(self) -> None:
        """Notifies all clients if the tools have changed since the last call."""
        version = self._host.version()
        if version != self._announced:
            known, self._announced = self._announced, version
            if known is not None:
                await self.bus.publish(ToolsListChanged())

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(POLL_INTERVAL)
                await self.announce_changes()

        async def tell() -> None:
            while True:
                await self._tell_connections(await events.get())

        events: asyncio.Queue[ServerEvent] = asyncio.Queue()
        # Events of the servers of tool modules, which have their own buses, are published here too.
        buses = [extra._subscriptions for extra in self._extras]  # pyright: ignore[reportPrivateUsage]
        publishing: set[asyncio.Task[None]] = set()

        def pass_on(event: ServerEvent) -> None:
            task = asyncio.create_task(self.bus.publish(event))
            publishing.add(task)
            task.add_done_callback(publishing.discard)

        ends = [bus.subscribe(pass_on) for bus in buses]
        ends.append(self.bus.subscribe(events.put_nowait))
        handler = ClientLog()
        logging.getLogger().addHandler(handler)
        self._announced = self._host.version()
        tasks = [asyncio.create_task(watch()), asyncio.create_task(tell())]
        try:
            yield {}
        finally:
            logging.getLogger().removeHandler(handler)
            for end in ends:
                end()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell_connections(self, event: ServerEvent) -> None:
        """Sends a change to clients with a handshake; others subscribe to the bus."""
        for connection in list(self._connections):
            with contextlib.suppress(Exception):  # the client is leaving
                match event:
                    case ToolsListChanged():
                        await connection.send_tool_list_changed()
                    case PromptsListChanged():
                        await connection.send_prompt_list_changed()
                    case ResourcesListChanged():
                        await connection.send_resource_list_changed()
                    case ResourceUpdated(uri=uri):
                        if str(uri) in self._subscribed.get(connection, ()):
                            await connection.send_resource_updated(uri)

    def _remember(self, context: Request) -> Connection | None:
        """Remembers a client with a handshake while it is connected; None for other clients."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        connection = context.session._connection  # pyright: ignore[reportPrivateUsage]
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._forget, connection)
        return connection

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._subscribed.pop(connection, None)
        self._levels.pop(connection, None)

    async def _list_tools(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        tools = [described(tool) for tool in offered(await self._host.tools(context))]
        self._schemas.update((tool.name, tool.input_schema) for tool in tools)
        page, cursor = _page(tools, params)
        return types.ListToolsResult(tools=page, next_cursor=cursor)

    async def _call_tool(
        self, context: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tools = offered(await self._host.tools(context))
        tool = next((each for each in tools if each.name == params.name), None)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        call = ServedCall(context, params, self._level_of(context))
        try:
            async with call:
                answer = await self._host.run(captured(tool, call), call)
        except ToolError as error:
            return failed(error.message)
        except MCPError:
            raise
        except Exception as error:
            if call.error is not None:
                raise call.error from error
            log.exception("tool failed", extra={"tool": tool.name})
            return failed(f"{tool.name} failed.")
        finally:
            await self.announce_changes()
        if call.error is not None:
            raise call.error
        if call.result is not None:
            return cast("types.CallToolResult", call.result)
        if isinstance(answer, types.InputRequiredResult):
            return answer
        return result_of(answer, output_of(tool))

    async def _list_resources(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._remember(context)
        resources = await self._host.resources(context)
        for extra in self._extras:
            listed = await _delegated(extra, "resources/list", context, None)
            resources += listed.resources
        page, cursor = _page(resources, params)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def _list_templates(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                uri_template=RESULT_URI,
                name="result",
                description="The stored result of a tool call.",
                mime_type="application/json",
            )
        ]
        for extra in self._extras:
            listed = await _delegated(extra, "resources/templates/list", context, None)
            templates += listed.resource_templates
        page, cursor = _page(templates, params)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def _read_resource(
        self, context: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        response = await self._host.read(context, uri)
        if response is not None:
            contents: list[types.TextResourceContents | types.BlobResourceContents] = [
                types.TextResourceContents(
                    uri=uri, mime_type="application/json", text=compact_json(response.response)
                )
            ]
            contents += [
                types.BlobResourceContents(
                    uri=uri,
                    mime_type=part.mime_type,
                    blob=base64.b64encode(part.data).decode("ascii"),
                )
                for part in response.parts
                if isinstance(part, InlineData)
            ]
            return types.ReadResourceResult(contents=contents)
        missing: MCPError | None = None
        for extra in self._extras:
            try:
                return await _delegated(extra, "resources/read", context, params)
            except MCPError as error:
                missing = error
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        code = types.INVALID_PARAMS if modern else NOT_FOUND
        raise missing or MCPError(code, f"There is no resource {uri}.", {"uri": uri})

    async def _subscribe(
        self, context: Request, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        if (connection := self._remember(context)) is not None:
            self._subscribed.setdefault(connection, set()).add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Request, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        if (connection := self._remember(context)) is not None:
            self._subscribed.get(connection, set()).discard(str(params.uri))
        return types.EmptyResult()

    async def _list_prompts(
        self, context: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        self._remember(context)
        own = self._prompts.prompts if self._prompts else {}
        prompts = [prompt.listed() for prompt in own.values()]
        for extra in self._extras:
            listed = await _delegated(extra, "prompts/list", context, None)
            prompts += [each for each in listed.prompts if each.name not in own]
        page, cursor = _page(prompts, params)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def _get_prompt(
        self, context: Request, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        own = self._prompts.prompts if self._prompts else {}
        if (prompt := own.get(params.name)) is None:
            for extra in self._extras:
                listed = await _delegated(extra, "prompts/list", context, None)
                if any(each.name == params.name for each in listed.prompts):
                    return await _delegated(extra, "prompts/get", context, params)
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        try:
            blocks = prompt.blocks(params.arguments or {})
        except ConfigError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        contents = [await self._embedded(context, block) for block in blocks]
        messages = [types.PromptMessage(role="user", content=content) for content in contents]
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def _embedded(self, context: Request, block: Any) -> types.ContentBlock:
        """The block itself; the content of a resource."""
        if not isinstance(block, ResourceBlock):
            return block
        params = types.ReadResourceRequestParams(uri=block.uri)
        read = await self._read_resource(context, params)
        if not isinstance(read, types.ReadResourceResult) or not read.contents:
            raise MCPError(types.INVALID_PARAMS, f"The resource {block.uri} cannot be embedded.")
        return types.EmbeddedResource(resource=read.contents[0])

    async def _complete(
        self, context: Request, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        own = self._prompts.prompts if self._prompts else {}
        reference, typed = params.ref, params.argument
        if isinstance(reference, types.PromptReference) and reference.name in own:
            argument = own[reference.name].arguments.get(typed.name)
            values = argument.values if argument else ()
            start = typed.value.casefold()
            return _completion([each for each in values if each.casefold().startswith(start)])
        for extra in self._extras:
            with contextlib.suppress(MCPError):
                return await _delegated(extra, "completion/complete", context, params)
        return _completion([])

    async def _set_level(
        self, context: Request, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        if (connection := self._remember(context)) is not None:
            self._levels[connection] = params.level
        return types.EmptyResult()

    def _level_of(self, context: Request) -> types.LoggingLevel:
        """The lowest level of log messages that a client with a handshake wants."""
        connection = context.session._connection  # pyright: ignore[reportPrivateUsage]
        return self._levels.get(connection, "info")


async def _delegated(extra: "MCPServer", method: str, context: Request, params: Any) -> Any:
    """The result of a handler of a tool module's server. Raises `MCPError` if it has none."""
    server = extra._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    entry = server.get_request_handler(method)
    if entry is None:
        raise MCPError(
            types.METHOD_NOT_FOUND, f"this server does not support the method {method!r}"
        )
    return await cast("Any", entry.handler)(context, params or entry.params_type())


def _completion(values: list[str]) -> types.CompleteResult:
    shown = values[:MAX_COMPLETIONS]
    more = len(values) > len(shown)
    return types.CompleteResult(
        completion=types.Completion(values=shown, total=len(values), has_more=more)
    )


def _page(
    items: list[T], params: types.PaginatedRequestParams | None
) -> tuple[list[T], str | None]:
    """One page of a list, and the cursor of the next. Raises `MCPError` for a wrong cursor."""
    cursor = params.cursor if params else None
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise MCPError(
            types.INVALID_PARAMS, "cursor: unknown value; list from the start, without a cursor"
        )
    start = int(cursor or 0)
    end = start + PAGE_SIZE
    return items[start:end], str(end) if end < len(items) else None
