"""`McpToolset`: the tools of an MCP server, for sync and async code alike."""

import atexit
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import mcp_types as types

from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError
from windlass.settings import state_directory
from windlass.tool import Tool, ToolOptions
from windlass.toolsets.mcp.calls import McpCalls, ServerFunction
from windlass.toolsets.mcp.connection import Listing, awaited, blocked_on, submit
from windlass.toolsets.mcp.names import outer_name, readable_prefix
from windlass.toolsets.mcp.options import McpServer
from windlass.toolsets.mcp.pins import Pin, Pins, pin_of

log = logging.getLogger("windlass.mcp")

CLOSING_TIMEOUT = 10.0
"""Seconds that the end of the program waits for servers to go."""


class McpToolset:
    """A server's tools. It is started when they are first asked for, and again when it is gone.

    Use it as `with` or `async with`, or close it; one that is forgotten is closed at the latest
    when the program ends. It may be shared by any number of clients, threads and event loops.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._calls = McpCalls(server)
        self._pins = Pins(Path(server.state_dir or state_directory()), server.identity)
        self._lock = threading.Lock()
        self._seen: Listing | None = None
        self._tools: list[Tool] = []
        self._pid = os.getpid()
        _open.add(self)
        weakref.finalize(self, _forget, self._calls, self._pid).atexit = False

    async def list_tools(self) -> Sequence[Tool]:
        """The tools as they are now. While the server is down, as they were.

        Raises `ConfigError` when it cannot be started, and for a file of pins that is damaged.
        """
        listing = self._calls.supervisor.listing
        if listing is None:
            listing = await awaited(self._calls.supervisor.listed())
        return self._made(listing)

    def list(self) -> Sequence[Tool]:
        """The same for sync code."""
        return self._made(blocked_on(self._calls.supervisor.listed()))

    async def aclose(self) -> None:
        """Ends the connection and the server's process. Used again, it starts again."""
        await awaited(self._calls.supervisor.aclose())

    def close(self) -> None:
        """The same for sync code."""
        blocked_on(self._calls.supervisor.aclose())

    async def __aenter__(self) -> "McpToolset":
        try:
            await self.list_tools()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> "McpToolset":
        try:
            self.list()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """A command and an address may hold secrets."""
        return f"McpToolset({self._server.label!r})"

    def _made(self, listing: Listing) -> Sequence[Tool]:
        with self._lock:
            if listing is not self._seen:
                self._tools = self._tools_in(listing)
                self._seen = listing
            return self._tools

    def _tools_in(self, listing: Listing) -> "list[Tool]":
        pinned = self._pins.known()
        fresh: dict[str, Pin] = {}
        tools: dict[str, Tool] = {}
        prefix = self._server.name
        if prefix is None:
            prefix = readable_prefix(listing.name or "mcp")
        for offered in listing.tools:
            now = pin_of(offered.description or offered.title or "", offered.input_schema)
            was = pinned.setdefault(offered.name, now)
            if was is now or (was.sha256 != now.sha256 and self._server.on_change == "allow"):
                fresh[offered.name] = was = now
            tool = self._tool(outer_name(prefix, offered.name), offered, was, now)
            if tool is not None:
                tools[tool.name] = tool
        self._pins.keep(fresh)
        return [*tools.values()]

    def _tool(self, name: str, offered: types.Tool, was: Pin, now: Pin) -> Tool | None:
        """The tool under the description that was first seen, or none if it cannot be offered."""
        changed = was.sha256 != now.sha256
        if changed:
            log.warning(
                "%r of the MCP server %r has another description than when it was first seen",
                offered.name,
                self._server.label,
            )
            if self._server.on_change == "refuse":
                return None
        function = ServerFunction(
            self._calls,
            offered.name,
            name,
            change=(was, now) if changed else None,
            accept=self._accept,
        )
        declaration = FunctionDeclaration(name, was.description, was.parameters)
        try:
            return Tool(declaration, function, options=self._options(offered))
        except ConfigError as error:
            log.warning(
                "%r of the MCP server %r is left out: %s", offered.name, self._server.label, error
            )
            return None

    def _options(self, offered: types.Tool) -> ToolOptions:
        hints = offered.annotations if self._server.trust_hints else None
        safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return ToolOptions(
            timeout=self._server.longest,
            approve=self._server.asks_for(offered.name),
            idempotent=safe,
        )

    def _accept(self, name: str, pin: Pin) -> None:
        """Somebody has said yes to a new description."""
        with self._lock:
            self._pins.keep({name: pin})
            self._seen = None


_open: "weakref.WeakSet[McpToolset]" = weakref.WeakSet()
_closing: set[concurrent.futures.Future[None]] = set()


def _forget(calls: McpCalls, pid: int) -> None:
    """Closes what nobody refers to any more. It may run in any thread, and so never waits."""
    if pid == os.getpid():
        closing = submit(calls.supervisor.aclose())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


@atexit.register
def _close_all() -> None:
    """Servers go before the program does: nothing is left behind."""
    closing = [
        submit(toolset._calls.supervisor.aclose())  # pyright: ignore[reportPrivateUsage]
        for toolset in list(_open)
        if toolset._pid == os.getpid()  # pyright: ignore[reportPrivateUsage]
    ]
    concurrent.futures.wait([*closing, *_closing], timeout=CLOSING_TIMEOUT)
