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
from windlass.toolsets.mcp.calls import McpCalls, ReadResource, ServerFunction, requires_task
from windlass.toolsets.mcp.connection import Listing, run_in_background, submit, wait_for_result
from windlass.toolsets.mcp.options import ServerOptions, outer_name, readable_prefix
from windlass.toolsets.mcp.pins import Pin, Pins, pin_of

log = logging.getLogger("windlass.mcp")

CLOSING_TIMEOUT = 10.0
"""Seconds that the exit of the program waits for servers to stop."""


class McpToolset:
    """The tools of an MCP server. The server starts at first use and restarts when it fails.

    Use it in a `with` or `async with` statement, or call `close`; otherwise it is closed when it is
    garbage-collected or the program exits. Any number of clients, threads and event loops can
    share it.
    """

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._calls = McpCalls(server)
        self._pins = Pins(Path(server.state_dir or state_directory()), server.identity)
        self._lock = threading.Lock()
        self._seen: Listing | None = None
        self._file: object = None
        """The version of the file of pins that the tools were made with."""
        self._known: dict[str, Pin] = {}
        """The pins that the tools were made with."""
        self._tools: list[Tool] = []
        self._pid = os.getpid()
        _open.add(self)
        weakref.finalize(self, _close_later, self._calls, self._pid).atexit = False

    async def list_tools(self) -> Sequence[Tool]:
        """The current tools; while the server is down, the last known ones.

        Raises `ConfigError` if the server cannot be started or the pins file is damaged.
        """
        listing = self._calls.supervisor.listing
        if listing is None:
            listing = await run_in_background(self._calls.supervisor.listed())
        return self._tools_from(listing)

    def list(self) -> Sequence[Tool]:
        """`list_tools` for sync code."""
        return self._tools_from(wait_for_result(self._calls.supervisor.listed()))

    def start(self) -> None:
        """Starts the server without waiting for it."""
        # Its failure is reported to whoever lists the tools.
        submit(self._calls.supervisor.listed()).add_done_callback(lambda done: done.exception())

    def trust(self) -> Sequence[str]:
        """Accepts the current descriptions. Returns the tools whose description had changed.

        Raises `ConfigError` if the server cannot be started.
        """
        listing = wait_for_result(self._calls.supervisor.listed())
        known = self._pins.known()
        current = {tool.name: _pin(tool) for tool in listing.tools}
        changed = [n for n, pin in current.items() if n in known and known[n].sha256 != pin.sha256]
        with self._lock:
            self._pins.keep(current)
            self._seen = None
        return changed

    async def aclose(self) -> None:
        """Ends the connection and the server's process. The next use starts them again."""
        await run_in_background(self._calls.supervisor.aclose())

    def close(self) -> None:
        """`aclose` for sync code."""
        wait_for_result(self._calls.supervisor.aclose())

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
        """Without the command and the address, which can contain secrets."""
        return f"McpToolset({self._server.label!r})"

    def _tools_from(self, listing: Listing) -> Sequence[Tool]:
        with self._lock:
            if listing is not self._seen or self._pins_changed():
                self._tools = self._convert(listing)
                self._seen, self._file = listing, self._pins.version()
                self._known = self._pins.known()
            return self._tools

    def _pins_changed(self) -> bool:
        """Whether another process has accepted a description. Raises `ConfigError`."""
        version = self._pins.version()
        if version == self._file:
            return False
        changed = self._pins.known() != self._known
        self._file = version
        return changed

    def _convert(self, listing: Listing) -> "list[Tool]":
        pinned = self._pins.known()
        fresh: dict[str, Pin] = {}
        tools: dict[str, Tool] = {}
        prefix = self._server.name
        if prefix is None:
            prefix = readable_prefix(listing.name or "mcp")
        for offered in listing.tools:
            if requires_task(offered):
                log.warning(
                    "skipping %r of MCP server %r: it runs only as a task",
                    offered.name,
                    self._server.label,
                )
                continue
            now = _pin(offered)
            was = pinned.setdefault(offered.name, now)
            if was is now or (was.sha256 != now.sha256 and self._server.on_change == "allow"):
                fresh[offered.name] = was = now
            tool = self._tool(outer_name(prefix, offered.name), offered, was, now)
            if tool is not None:
                tools[tool.name] = tool
        self._pins.keep(fresh)
        if self._server.read_resources and listing.has_resources:
            reader = self._reader(outer_name(prefix, "read_resource"))
            tools.setdefault(reader.name, reader)
        return [*tools.values()]

    def _reader(self, name: str) -> Tool:
        """The tool that reads the resources which results link to."""
        uri = {"type": "string", "description": "The uri of a link in a result."}
        parameters = {"type": "object", "properties": {"uri": uri}, "required": ["uri"]}
        about = f"Reads a resource of {self._server.label}, such as a link in a result."
        declaration = FunctionDeclaration(name, about, parameters)
        options = ToolOptions(
            timeout=self._server.longest, approve=self._server.needs_approval("read_resource")
        )
        return Tool(declaration, ReadResource(self._calls, name), options=options)

    @property
    def instructions(self) -> str:
        """What the server says about its use; empty before it has been listed."""
        listing = self._calls.supervisor.listing
        return listing.instructions if listing else ""

    def _tool(self, name: str, offered: types.Tool, was: Pin, now: Pin) -> Tool | None:
        """The tool with its first description; None if it cannot be offered."""
        changed = was.sha256 != now.sha256
        if changed:
            log.warning(
                "the description of %r of MCP server %r has changed since it was first seen",
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
            output_schema=offered.output_schema,
        )
        declaration = FunctionDeclaration(name, was.description, was.parameters)
        try:
            return Tool(declaration, function, options=self._options(offered))
        except ConfigError as error:
            log.warning("skipping %r of MCP server %r: %s", offered.name, self._server.label, error)
            return None

    def _options(self, offered: types.Tool) -> ToolOptions:
        hints = offered.annotations if self._server.trust_hints else None
        safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        return ToolOptions(
            timeout=self._server.longest,
            approve=self._server.needs_approval(offered.name),
            idempotent=safe,
        )

    def _accept(self, name: str, pin: Pin) -> None:
        """Stores an approved new description."""
        with self._lock:
            self._pins.keep({name: pin})
            self._seen = None


def _pin(tool: types.Tool) -> Pin:
    return pin_of(tool.description or tool.title or "", tool.input_schema)


_open: "weakref.WeakSet[McpToolset]" = weakref.WeakSet()
_closing: set[concurrent.futures.Future[None]] = set()


def _close_later(calls: McpCalls, pid: int) -> None:
    """Closes a garbage-collected toolset. It can run in any thread, so it does not wait."""
    if pid == os.getpid():
        closing = submit(calls.supervisor.aclose())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


@atexit.register
def _close_all() -> None:
    """Stops all servers before the program exits."""
    closing = [
        submit(toolset._calls.supervisor.aclose())  # pyright: ignore[reportPrivateUsage]
        for toolset in list(_open)
        if toolset._pid == os.getpid()  # pyright: ignore[reportPrivateUsage]
    ]
    concurrent.futures.wait([*closing, *_closing], timeout=CLOSING_TIMEOUT)
