"""MCP servers that a request names: connected for its run only, on hosts of an allowlist."""

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError
from windlass.gateway.http.errors import Refused
from windlass.tool import Tool, ToolOptions
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject
from windlass.wires.responses.tools import McpTool, ToolFilter

if TYPE_CHECKING:
    import mcp_types as types

    from windlass.toolsets.mcp.calls import McpCalls

START_SECONDS = 20.0
"""How long a server may take to connect and to list its tools."""
CALL_SECONDS = 60.0
MAX_SERVERS = 8
"""The maximum number of servers in one request."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OWN_HEADERS = frozenset({"connection", "content-length", "host", "transfer-encoding"})
"""Headers that the connection sets itself."""


def check_allowed(server: McpTool, hosts: Collection[str]) -> None:
    """Raises `Refused` unless the operator allows the server's host."""
    if server.server_url is None:
        raise _not_allowed(server, "this gateway has no connectors: name the server by server_url")
    try:
        parts = urlsplit(server.server_url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise _not_allowed(server, "server_url must be an http or https URL")
    named = f"[{host}]" if ":" in host else host
    is_default = port == _DEFAULT_PORTS[parts.scheme]
    if f"{named}:{port}" in hosts or (is_default and named in hosts):
        return
    shown = named if is_default else f"{named}:{port}"
    raise _not_allowed(
        server, f"the gateway does not allow the host {shown!r}: add it to [responses] mcp_hosts"
    )


def _not_allowed(server: McpTool, reason: str) -> Refused:
    place = f"{server.place}.server_url"
    return Refused(Problem(400, f"{place}: {reason}", "mcp_server_not_allowed", place))


class RequestedServers:
    """The connected servers of one request."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []
        self.shown: list[JsonObject] = []
        """The labels and tools, without secrets, for later readers of the response."""
        self._calls: list[McpCalls] = []
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, servers: Sequence[McpTool], hosts: Collection[str]) -> "RequestedServers":
        """Connects the servers and lists their tools. Raises `Refused`."""
        if len(servers) > MAX_SERVERS:
            message = f"tools: more than {MAX_SERVERS} MCP servers"
            raise Refused(Problem(400, message, "too_many_tools", "tools"))
        for server in servers:
            check_allowed(server, hosts)
        opened = cls()
        try:
            await asyncio.gather(*map(opened._connect, servers))
        except BaseException:
            await opened.aclose()
            raise
        order = {server.server_label: number for number, server in enumerate(servers)}
        opened.shown.sort(key=lambda shown: order[shown["server_label"]])
        return opened

    async def aclose(self) -> None:
        """Ends all connections."""
        from windlass.toolsets.mcp.connection import run_in_background

        closing = (run_in_background(calls.supervisor.aclose()) for calls in self._calls)
        await asyncio.gather(*closing)

    def close_later(self) -> None:
        """Ends all connections without waiting."""
        self._closing = asyncio.create_task(self.aclose())

    async def _connect(self, server: McpTool) -> None:
        try:
            from windlass.toolsets.mcp.calls import McpCalls
            from windlass.toolsets.mcp.connection import run_in_background
            from windlass.toolsets.mcp.options import ServerOptions
        except ModuleNotFoundError as error:
            message = f"This gateway cannot use MCP servers: {error.name} is not installed."
            raise Refused(Problem(400, message, "mcp_not_available", server.place)) from None
        calls = McpCalls(
            ServerOptions(
                url=server.server_url,
                name=server.server_label,
                headers=_headers(server),
                timeout=CALL_SECONDS,
                start_timeout=START_SECONDS,
            )
        )
        self._calls.append(calls)
        try:
            listing = await run_in_background(calls.supervisor.listed())
        except ConfigError as error:
            place = f"{server.place}.server_url"
            problem = Problem(424, f"{place}: {error}", "mcp_server_unreachable", place)
            raise Refused(problem) from None
        offered = [tool for tool in listing.tools if _selects(server.allowed_tools, tool)]
        found = [(tool, converted(server, calls, tool)) for tool in offered]
        usable = [(tool, made) for tool, made in found if made is not None]
        self.tools += [made for _, made in usable]
        listed = [_listed(server, tool) for tool, _ in usable]
        self.shown.append({"server_label": server.server_label, "tools": listed})


def _headers(server: McpTool) -> dict[str, str]:
    given = {n: v for n, v in server.headers.items() if n.lower() not in _OWN_HEADERS}
    if server.authorization:
        given["Authorization"] = f"Bearer {server.authorization}"
    return given


def _selects(chosen: ToolFilter | None, tool: "types.Tool") -> bool:
    if chosen is None:
        return True
    by_name = chosen.tool_names is None or tool.name in chosen.tool_names
    return by_name and (not chosen.read_only or _only_reads(tool))


def _only_reads(tool: "types.Tool") -> bool:
    return tool.annotations is not None and bool(tool.annotations.read_only_hint)


def needs_approval(server: McpTool, tool: "types.Tool") -> bool:
    """Whether a call of the tool needs an approval: by a filter, or else by the default."""
    if server.always is not None and _selects(server.always, tool):
        return True
    if server.never is not None and _selects(server.never, tool):
        return False
    return server.require_approval == "always"


def converted(server: McpTool, calls: "McpCalls", tool: "types.Tool") -> Tool | None:
    """The tool for the loop; None if its schema is unusable or the tool only runs as a task."""
    from windlass.toolsets.mcp.calls import ServerFunction, requires_task

    if requires_task(tool):
        return None
    name = server.flat(tool.name)
    function = ServerFunction(calls, tool.name, name, change=None, accept=_ignore)
    declaration = FunctionDeclaration(name, tool.description or "", tool.input_schema)
    options = ToolOptions(timeout=CALL_SECONDS, approve=needs_approval(server, tool))
    try:
        return Tool(declaration, function, options=options)
    except ConfigError:
        return None


def _ignore(name: str, pin: object) -> None:
    """Stores nothing: the server's tools belong to one run."""


def _listed(server: McpTool, tool: "types.Tool") -> JsonObject:
    annotations: Any = tool.annotations and tool.annotations.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "annotations": annotations,
    }
