"""Which tools a request offers: the gateway's, and those that its client runs itself. Pure."""

import logging
import re
from collections.abc import Mapping

from windlass.client.options import Offer
from windlass.jsontext import LARGE, by_size
from windlass.tool import Tool
from windlass.wires.chat.read_request import Limits, read_tools

log = logging.getLogger("windlass.gateway")

NOTHING = Offer({}, ())

_LONGEST_REMEMBERED = 256 * 1024
_LISTS_REMEMBERED = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""What may be a reference: they are followed to see how large the schema is without them."""


class ToolOffers:
    """The offers of one model. A list of tools that comes again, as from turn to turn, is known."""

    def __init__(self, own: Mapping[str, Tool], limits: Limits) -> None:
        self._own, self._limits = own, limits
        self._made: dict[tuple[bytes, tuple[Tool, ...]], Offer] = {}

    def of(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """The gateway's own tools, the `remote` ones, which come and go, and the client's.

        Of two with one name, the gateway's own stands before the remote, and the client's before
        both.
        Raises `InvalidRequest`, which names the field.
        """
        known = self._known(tools, remote)
        if known is not None:
            return known
        return self._remembered(tools, remote, read_tools(tools, self._limits) if tools else [])

    async def read(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """The same as `of`, off the event loop where it takes long."""
        known = self._known(tools, remote)
        if known is not None or not tools:
            return known or self.of(tools, remote)
        size = len(tools)
        if size <= LARGE and _REFERENCES.search(tools):
            size += LARGE
        return self._remembered(tools, remote, await by_size(size, read_tools, tools, self._limits))

    def _known(self, tools: bytes, remote: tuple[Tool, ...]) -> Offer | None:
        """A long list is not even looked up: its hash alone takes long."""
        return self._made.get((tools, remote)) if len(tools) <= _LONGEST_REMEMBERED else None

    def _remembered(self, tools: bytes, remote: tuple[Tool, ...], theirs: list[Tool]) -> Offer:
        offer = self._joined(remote, theirs)
        if len(tools) <= _LONGEST_REMEMBERED:
            if len(self._made) > _LISTS_REMEMBERED:
                self._made.clear()
            self._made[tools, remote] = offer
        return offer

    def _joined(self, remote: tuple[Tool, ...], theirs: list[Tool]) -> Offer:
        tools = dict(self._own)
        for tool in remote:
            tools.setdefault(tool.name, tool)
        for tool in theirs:
            if tool.name in tools:
                log.warning(
                    "The client's own tool stands in for the gateway's", extra={"tool": tool.name}
                )
            tools[tool.name] = tool
        return Offer(tools, tuple(tool.declaration for tool in tools.values()))
