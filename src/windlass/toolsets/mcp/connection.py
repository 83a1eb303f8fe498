"""Connections to MCP servers: a background event loop, the transport, and the supervisor.

All connections run on one event loop in its own thread. A connection is used by any number of runs,
from sync code, threads and event loops that come and go, and a failing server affects no other
event loop.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar, cast

import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from windlass.content import PrivateText
from windlass.errors import ConfigError
from windlass.toolsets.mcp.options import McpServer

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0


def submit(coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
    """Starts the coroutine on the background loop. Cancelling the future cancels it there."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background())


async def run_in_background(coroutine: Coroutine[Any, Any, T]) -> T:
    """Awaits the coroutine from any event loop. A cancelled caller cancels it."""
    return await asyncio.wrap_future(submit(coroutine))


def wait_for_result(coroutine: Coroutine[Any, Any, T]) -> T:
    """Waits for the coroutine, from sync code."""
    return submit(coroutine).result()


def _background() -> asyncio.AbstractEventLoop:
    """The background loop, created at first use. A forked child creates its own."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="windlass-mcp", daemon=True).start()
        return _loop


log = logging.getLogger("windlass.mcp")

MAX_EVENT_BYTES = 64 * 2**20
"""Bytes. Large enough for results with big images and files."""
MAX_STDERR_LINES = 20


class StderrTail:
    """The last lines that a server wrote to stderr, to report why it did not start."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines: deque[str] = deque(maxlen=MAX_STDERR_LINES)

    def __str__(self) -> str:
        return "\n".join(self._lines)

    @contextlib.asynccontextmanager
    async def as_file(self) -> AsyncGenerator[Any]:
        """The file that the process uses as stderr."""
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader(limit=2**20)
        pipe = os.fdopen(read_end, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        reading = asyncio.create_task(self._read(reader))
        file = os.fdopen(write_end, "w")
        try:
            yield file
        finally:
            file.close()
            transport.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ValueError):  # a line is too long
            while line := await reader.readline():
                text = line.decode("utf-8", "replace").rstrip()
                self._lines.append(text[:500])
                log.debug("%s: %s", self._label, PrivateText(text))


@contextlib.asynccontextmanager
async def open_transport(
    server: McpServer,
    stderr: StderrTail,
    *,
    on_end: Callable[[], None],
    on_forgotten: Callable[[], None],
) -> AsyncGenerator[Any]:
    """The streams of a connection. `on_end` is called when the incoming stream ends.

    `on_forgotten` is called when an HTTP server no longer knows our session. Raises `OSError` if
    the command cannot be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        if server.url is not None:
            streams = await _remote(server, stack, on_forgotten)
        else:
            streams = await _local(server, stderr, stack)
        yield _WatchedStream(streams[0], on_end), streams[1]


async def _remote(
    server: McpServer, stack: contextlib.AsyncExitStack, on_forgotten: Callable[[], None]
) -> Any:
    async def notice(response: httpx2.Response) -> None:
        # A restarted server does not know our session: a new one is needed.
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            on_forgotten()

    client = create_mcp_http_client(headers=dict(server.headers) or None, auth=server.auth)
    client.event_hooks = {"response": [notice]}
    await stack.enter_async_context(client)
    assert server.url is not None
    return await stack.enter_async_context(
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES)
    )


async def _local(server: McpServer, stderr: StderrTail, stack: contextlib.AsyncExitStack) -> Any:
    errors = await stack.enter_async_context(stderr.as_file())
    parameters = StdioServerParameters(
        command=server.command[0],
        args=list(server.command[1:]),
        env=dict(server.env) or None,
        cwd=server.cwd,
    )
    streams = await stack.enter_async_context(stdio_client(parameters, errlog=errors))
    errors.close()  # the process has its own copy: ours would keep the pipe open after its exit
    return streams


class _WatchedStream:
    """A message stream that calls `on_end` when it ends."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> "_WatchedStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


MAX_RESTART_DELAY = 30.0
STEADY_SECONDS = 10.0
"""Seconds. The loss of a connection that lasted longer is not a repeated failure."""
MAX_PAGES = 100

Elicit = Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult]]


class ServerDown(Exception):
    """The server is not available; the text is the reason."""


class Listing:
    """A server's name and tools, as last listed."""

    def __init__(self, name: str | None, tools: tuple[types.Tool, ...]) -> None:
        self.name, self.tools = name, tools


@dataclass(slots=True)
class McpConnection:
    """One connection to a server."""

    client: Client
    forgotten: bool = False
    """Whether the server reported that it does not know the session: it ran no refused call."""


class Supervisor:
    """Starts one server, lists its tools, and restarts it when it fails.

    Runs on the background loop. While the server is down, `listing` is the last one.
    """

    def __init__(
        self,
        server: McpServer,
        elicit: Elicit,
        *,
        delay: Callable[[int], float] | None = None,
    ) -> None:
        self._server, self._elicit = server, elicit
        self._delay = delay or _restart_delay
        self.listing: Listing | None = None
        self._connection: McpConnection | None = None
        self._starting = False
        self._failure: str | None = None
        self._changed = asyncio.Condition()
        self._lost = asyncio.Event()
        self._relist = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def listed(self) -> Listing:
        """The server's tools. Starts the server if needed. Raises `ConfigError` if that fails."""
        if self._task is None or self._task.done():
            self._failure = None
            self._closing.clear()
            self._task = asyncio.create_task(self._supervise(), name=f"mcp {self._server.label}")
        if self.listing is None:
            async with self._changed:
                await self._changed.wait_for(lambda: self.listing or self._failure)
        if self.listing is None:
            raise ConfigError(f"the MCP server {self._server.label!r} {self._failure}")
        return self.listing

    async def connection(self) -> McpConnection:
        """The connection. Waits while the server starts. Raises `ServerDown`."""
        await self.listed()
        if self._connection is None:
            async with self._changed:
                await self._changed.wait_for(lambda: self._connection or self._failure)
        if self._connection is None:
            raise ServerDown(self._failure or "is closed")
        return self._connection

    def lost(self, connection: McpConnection | None = None) -> None:
        """Discards a lost connection. Calls wait for the next one."""
        if connection is None or connection is self._connection:
            self._connection = None
            self._lost.set()

    @property
    def label(self) -> str:
        """The name that the user, or else the server, gives it."""
        if self._server.name is None and self.listing is not None and self.listing.name:
            return self.listing.name
        return self._server.label

    async def aclose(self) -> None:
        """Ends the connection and the process. The next use starts them again."""
        self._closing.set()
        if self._task is not None:
            if self._starting:
                self._task.cancel()
            await asyncio.wait([self._task])
        self.listing = None

    async def _supervise(self) -> None:
        failures = 0
        while not self._closing.is_set():
            began = time.monotonic()
            stderr = StderrTail(self._server.label)
            try:
                await self._stay_connected(stderr)
                reason = "exited"
            except (Exception, asyncio.CancelledError) as error:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    await self._set_failure("was closed while it started")
                    raise
                reason = _reason(error, self._server)
            self._connection = None
            if self._closing.is_set() or self.listing is None:
                await self._set_failure(f"{reason}{_quoted(stderr)}")
                return
            failures = 1 if time.monotonic() - began > STEADY_SECONDS else failures + 1
            log.warning("MCP server %r %s; restarting it", self.label, reason)
            if failures > 1:
                await self._set_failure(f"{reason} and will be restarted shortly")
                await self._pause(self._delay(failures))
            self._failure = None

    async def _stay_connected(self, stderr: StderrTail) -> None:
        """Connects, lists the tools, and returns when the connection is lost or closed."""
        self._lost.clear()
        self._relist.clear()
        async with contextlib.AsyncExitStack() as stack:
            self._starting = True
            try:
                async with asyncio.timeout(self._server.start_timeout):
                    connection = await stack.enter_async_context(self._opened(stderr))
                    self.listing = await _listing(connection.client)
            finally:
                self._starting = False
            self._connection = connection
            await self._set_failure(None)
            await self._until_end(connection.client)

    @contextlib.asynccontextmanager
    async def _opened(self, stderr: StderrTail) -> AsyncGenerator[McpConnection]:
        def forgotten() -> None:
            connection.forgotten = True

        transport = open_transport(self._server, stderr, on_end=self.lost, on_forgotten=forgotten)
        wanted = self._server.protocol
        client = Client(
            transport,
            # Not the version itself: with a fixed version the SDK does not ask for server info.
            mode="legacy" if wanted == "2025-11-25" else "auto",
            cache=None,
            client_info=types.Implementation(name="windlass", version="0.1.0"),
            elicitation_callback=self._on_elicit,
            message_handler=self._on_message,
        )
        connection = McpConnection(client)
        async with client:
            if wanted not in ("auto", client.protocol_version):
                raise ConnectionError(f"it uses MCP {client.protocol_version}, not {wanted}")
            yield connection

    async def _until_end(self, client: Client) -> None:
        following = asyncio.create_task(self._follow(client))
        relisting = asyncio.create_task(self._relist_on_change(client))
        ends = [asyncio.create_task(each.wait()) for each in (self._lost, self._closing)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (following, relisting, *ends):
                task.cancel()
            await asyncio.gather(following, relisting, *ends, return_exceptions=True)

    async def _follow(self, client: Client) -> None:
        """Subscribes to changes of servers without a handshake. Others send them unasked."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with contextlib.suppress(ListenNotSupportedError, MCPError):
            while True:
                with contextlib.suppress(SubscriptionLost):
                    async with client.listen(tools_list_changed=True) as events:
                        async for _ in events:
                            self._relist.set()
                await asyncio.sleep(1.0)
                self._relist.set()

    async def _relist_on_change(self, client: Client) -> None:
        while True:
            await self._relist.wait()
            self._relist.clear()
            try:
                self.listing = await _listing(client)
            except (MCPError, TimeoutError, ValueError) as error:
                log.warning("cannot list the tools of MCP server %r: %s", self.label, error)

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._relist.set()

    async def _on_elicit(
        self, context: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        return await self._elicit(params)

    async def _set_failure(self, failure: str | None) -> None:
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


def _restart_delay(failures: int) -> float:
    return min(2.0 ** (failures - 2), MAX_RESTART_DELAY)


async def _listing(client: Client) -> Listing:
    """The server's tools, from all pages."""
    name = client.server_info.name if client.server_info else None
    if client.server_capabilities.tools is None:
        return Listing(name, ())
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return Listing(name, tuple(tools))


def _reason(error: BaseException, server: McpServer) -> str:
    """Why there is no connection, as the predicate of a sentence about the server."""
    error = _innermost(error)
    match error:
        case FileNotFoundError() | PermissionError() if server.command:
            return f"cannot be started: {error.strerror}: {server.command[0]}"
        case TimeoutError():
            return f"did not answer within {server.start_timeout:g} seconds"
        case MCPError(code=types.CONNECTION_CLOSED) if server.command:
            return "exited before it answered"
        case ValidationError():
            return "sent a description of itself or of its tools that violates MCP"
        case _:
            said = str(error) or type(error).__name__
            # The address can contain a secret.
            return f"cannot be reached: {said.replace(server.url or server.label, server.label)}"


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _quoted(stderr: StderrTail) -> str:
    return f"; its output:\n{said}" if (said := str(stderr)) else ""
