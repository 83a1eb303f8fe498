"""The tools that a request offers to the model: server tools and client tools. Pure."""

import logging
import re
from collections.abc import Mapping

from windlass.client.options import Offer
from windlass.jsontext import LARGE, by_size
from windlass.tool import Tool
from windlass.wires.chat.read_request import Limits, read_tools

log = logging.getLogger("windlass.gateway")

NOTHING = Offer({}, ())

_MAX_CACHED_BYTES = 256 * 1024
_MAX_CACHED_LISTS = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""A possible reference: expanding it may make a small schema large."""


class ToolOffers:
    """Builds the tool offers of one model. Caches lists of tools, which clients send every turn."""

    def __init__(self, own: Mapping[str, Tool], limits: Limits) -> None:
        self._own, self._limits = own, limits
        self._cache: dict[tuple[bytes, tuple[Tool, ...]], Offer] = {}

    def of(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """Combines the gateway's own tools, `remote` ones (of MCP servers and workers) and `tools`.

        If names collide, a client tool wins over the gateway's own, which wins over a remote one.
        Raises `InvalidRequest`, which names the field.
        """
        known = self._from_cache(tools, remote)
        if known is not None:
            return known
        return self._cached(tools, remote, read_tools(tools, self._limits) if tools else [])

    async def read(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """Like `of`, but reads a long list outside the event loop."""
        known = self._from_cache(tools, remote)
        if known is not None or not tools:
            return known or self.of(tools, remote)
        size = len(tools)
        if size <= LARGE and _REFERENCES.search(tools):
            size += LARGE
        return self._cached(tools, remote, await by_size(size, read_tools, tools, self._limits))

    def _from_cache(self, tools: bytes, remote: tuple[Tool, ...]) -> Offer | None:
        """Long lists are not cached: hashing one takes too long."""
        return self._cache.get((tools, remote)) if len(tools) <= _MAX_CACHED_BYTES else None

    def _cached(self, tools: bytes, remote: tuple[Tool, ...], client_tools: list[Tool]) -> Offer:
        offer = self._joined(remote, client_tools)
        if len(tools) <= _MAX_CACHED_BYTES:
            if len(self._cache) > _MAX_CACHED_LISTS:
                self._cache.clear()
            self._cache[tools, remote] = offer
        return offer

    def _joined(self, remote: tuple[Tool, ...], client_tools: list[Tool]) -> Offer:
        tools = dict(self._own)
        for tool in remote:
            tools.setdefault(tool.name, tool)
        for tool in client_tools:
            if tool.name in tools:
                log.warning(
                    "A client tool replaces a server tool of the same name",
                    extra={"tool": tool.name},
                )
            tools[tool.name] = tool
        return Offer(tools, tuple(tool.declaration for tool in tools.values()))
