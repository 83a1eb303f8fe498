"""The MCP servers of a gateway."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from windlass.errors import ConfigError
from windlass.gateway.config.tool_loading import ALL_OF_IT, named_tools
from windlass.model import Toolset
from windlass.tool import Tool
from windlass.toolsets.mcp.names import SEPARATOR

log = logging.getLogger("windlass.gateway")


class McpServers:
    """MCP servers by name, which is the prefix of their tools' names. Their tools may change."""

    def __init__(self, toolsets: Mapping[str, Toolset]) -> None:
        self._toolsets = toolsets
        self._seen: dict[str, Sequence[Tool]] = {}
        self.on_tools: Callable[[Iterable[str]], None] | None = None
        """Called with the names of a server's tools when they have changed."""

    def has(self, name: str) -> bool:
        """Whether the name selects all tools of a server, such as `files__*`."""
        return name.removesuffix(ALL_OF_IT) in self._toolsets and name.endswith(ALL_OF_IT)

    async def tools(self, names: Collection[str]) -> tuple[Tool, ...]:
        """The current tools with these names."""
        found: dict[str, Tool] = {}
        for server in self._toolsets:
            if any(name.startswith(f"{server}{SEPARATOR}") for name in names):
                found.update((tool.name, tool) for tool in await self._listed(server))
        return tuple(named_tools(names, found).values())

    async def _listed(self, server: str) -> Sequence[Tool]:
        """The tools of one server: the last known while it is down, none if they are refused."""
        try:
            tools = await self._toolsets[server].list_tools()
        except ConfigError as error:
            tools = ()
            if self._seen.get(server) != tools:
                log.error("Omitting the tools of the MCP server %r: %s", server, error)
        if self._seen.get(server) is not tools:
            self._seen[server] = tools
            if self.on_tools is not None:
                self.on_tools(tool.name for tool in tools)
        return tools
