"""A supervised connection to an MCP server."""

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
    """Begins the coroutine on the loop. Cancelling the future cancels it there."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background())


async def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Waits for the coroutine in whatever loop the caller has; a cancelled caller cancels it."""
    return await asyncio.wrap_future(submit(coroutine))


def blocked_on(coroutine: Coroutine[Any, Any, T]) -> T:
    """Waits for the coroutine in sync code."""
    return submit(coroutine).result()


def _background() -> asyncio.AbstractEventLoop:
    """Made at its first use; a forked child makes its own."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="windlass-mcp", daemon=True).start()
        return _loop


log = logging.getLogger("windlass.mcp")

LARGEST_EVENT = 64 * 2**20
"""Bytes of one answer that comes as an event: big images and files go through."""
WORDS_KEPT = 20


class LastWords:
    """The last lines that a server wrote to stderr: they say why it did not start."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines: deque[str] = deque(maxlen=WORDS_KEPT)

    def __str__(self) -> str:
        return "\n".join(self._lines)

    @contextlib.asynccontextmanager
    async def written_to(self) -> AsyncGenerator[Any]:
        """A file for the process to write to."""
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
        with contextlib.suppress(ValueError):  # a line without an end
            while line := await reader.readline():
                text = line.decode("utf-8", "replace").rstrip()
                self._lines.append(text[:500])
                log.debug("%s: %s", self._label, PrivateText(text))


@contextlib.asynccontextmanager
async def open_transport(
    server: McpServer,
    words: LastWords,
    *,
    on_end: Callable[[], None],
    on_forgotten: Callable[[], None],
) -> AsyncGenerator[Any]:
    """The streams of a connection; `on_end` is called when nothing more can come.

    `on_forgotten` is called when the server at an address does not know our session any more.

    Raises `OSError` for a command that cannot be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        if server.url is not None:
            streams = await _remote(server, stack, on_forgotten)
        else:
            streams = await _local(server, words, stack)
        yield _Watched(streams[0], on_end), streams[1]


async def _remote(
    server: McpServer, stack: contextlib.AsyncExitStack, on_forgotten: Callable[[], None]
) -> Any:
    async def notice(response: httpx2.Response) -> None:
        # A server that was started anew does not know our session: another has to be begun.
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            on_forgotten()

    client = create_mcp_http_client(headers=dict(server.headers) or None, auth=server.auth)
    client.event_hooks = {"response": [notice]}
    await stack.enter_async_context(client)
    assert server.url is not None
    return await stack.enter_async_context(
        streamable_http_client(server.url, http_client=client, max_sse_event_size=LARGEST_EVENT)
    )


async def _local(server: McpServer, words: LastWords, stack: contextlib.AsyncExitStack) -> Any:
    errors = await stack.enter_async_context(words.written_to())
    parameters = StdioServerParameters(
        command=server.command[0],
        args=list(server.command[1:]),
        env=dict(server.env) or None,
        cwd=server.cwd,
    )
    streams = await stack.enter_async_context(stdio_client(parameters, errlog=errors))
    errors.close()  # the process has its own: ours would keep the pipe open after its end
    return streams


class _Watched:
    """A stream of messages that says when it ends."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> "_Watched":
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


LONGEST_DELAY = 30.0
STEADY = 10.0
"""Seconds after which a connection counts as good: its end is not one of a row of failures."""
MOST_PAGES = 100

Elicit = Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult]]


class Down(Exception):
    """The server cannot be used just now; the text says why."""


class Listing:
    """What a server says of itself, at one moment."""

    def __init__(self, name: str | None, tools: tuple[types.Tool, ...]) -> None:
        self.name, self.tools = name, tools


@dataclass(slots=True)
class McpConnection:
    """A connection to a server, for as long as it lasts."""

    client: Client
    forgotten: bool = False
    """Whether the server has said that it does not know us: what it refused so was not run."""


class Supervisor:
    """One server. `listing` stays as it was last seen while the server is down."""

    def __init__(
        self,
        server: McpServer,
        elicit: Elicit,
        *,
        delay: Callable[[int], float] = lambda failures: min(2.0 ** (failures - 2), LONGEST_DELAY),
    ) -> None:
        self._server, self._elicit, self._delay = server, elicit, delay
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
        """What the server offers; started first, if need be. Raises `ConfigError` if it cannot."""
        if self._task is None or self._task.done():
            self._failure = None
            self._closing.clear()
            self._task = asyncio.create_task(self._go(), name=f"mcp {self._server.label}")
        if self.listing is None:
            async with self._changed:
                await self._changed.wait_for(lambda: self.listing or self._failure)
        if self.listing is None:
            raise ConfigError(f"the MCP server {self._server.label!r} {self._failure}")
        return self.listing

    async def connection(self) -> McpConnection:
        """The connection, waited for while it is being made. Raises `Down`."""
        await self.listed()
        if self._connection is None:
            async with self._changed:
                await self._changed.wait_for(lambda: self._connection or self._failure)
        if self._connection is None:
            raise Down(self._failure or "is closed")
        return self._connection

    def lost(self, connection: McpConnection | None = None) -> None:
        """Says that the connection is of no more use: calls wait for the next one."""
        if connection is None or connection is self._connection:
            self._connection = None
            self._lost.set()

    @property
    def label(self) -> str:
        """What the user, or else the server itself, calls it."""
        if self._server.name is None and self.listing is not None and self.listing.name:
            return self.listing.name
        return self._server.label

    async def aclose(self) -> None:
        """Ends the connection and the process. Used again, it starts again."""
        self._closing.set()
        if self._task is not None:
            if self._starting:
                self._task.cancel()
            await asyncio.wait([self._task])
        self.listing = None

    async def _go(self) -> None:
        failures = 0
        while not self._closing.is_set():
            began = time.monotonic()
            words = LastWords(self._server.label)
            try:
                await self._connected(words)
                reason = "ended"
            except (Exception, asyncio.CancelledError) as error:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    await self._say("was closed while it started")
                    raise
                reason = _reason(error, self._server)
            self._connection = None
            if self._closing.is_set() or self.listing is None:
                await self._say(f"{reason}{_quoted(words)}")
                return
            failures = 1 if time.monotonic() - began > STEADY else failures + 1
            log.warning("The MCP server %r %s; it is tried again", self.label, reason)
            if failures > 1:
                await self._say(f"{reason}, and is tried again in a moment")
                await self._pause(self._delay(failures))
            self._failure = None

    async def _connected(self, words: LastWords) -> None:
        """Connects, lists, and stays until the server is gone or nobody needs it."""
        self._lost.clear()
        self._relist.clear()
        async with contextlib.AsyncExitStack() as stack:
            self._starting = True
            try:
                async with asyncio.timeout(self._server.start_timeout):
                    connection = await stack.enter_async_context(self._opened(words))
                    self.listing = await _listing(connection.client)
            finally:
                self._starting = False
            self._connection = connection
            await self._say(None)
            await self._until_end(connection.client)

    @contextlib.asynccontextmanager
    async def _opened(self, words: LastWords) -> AsyncGenerator[McpConnection]:
        def forgotten() -> None:
            connection.forgotten = True

        transport = open_transport(self._server, words, on_end=self.lost, on_forgotten=forgotten)
        wanted = self._server.protocol
        client = Client(
            transport,
            # Not the version itself: a connection that is not asked for says nothing of itself.
            mode="legacy" if wanted == "2025-11-25" else "auto",
            cache=None,
            client_info=types.Implementation(name="windlass", version="0.1.0"),
            elicitation_callback=self._asked,
            message_handler=self._heard,
        )
        connection = McpConnection(client)
        async with client:
            if wanted not in ("auto", client.protocol_version):
                raise ConnectionError(f"it speaks MCP {client.protocol_version}, not {wanted}")
            yield connection

    async def _until_end(self, client: Client) -> None:
        following = asyncio.create_task(self._follow(client))
        relisting = asyncio.create_task(self._relisted(client))
        ends = [asyncio.create_task(each.wait()) for each in (self._lost, self._closing)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (following, relisting, *ends):
                task.cancel()
            await asyncio.gather(following, relisting, *ends, return_exceptions=True)

    async def _follow(self, client: Client) -> None:
        """Hears of changes from servers that have no handshake; others send them unasked."""
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

    async def _relisted(self, client: Client) -> None:
        while True:
            await self._relist.wait()
            self._relist.clear()
            try:
                self.listing = await _listing(client)
            except (MCPError, TimeoutError, ValueError) as error:
                log.warning("The MCP server %r cannot list: %s", self.label, error)

    async def _heard(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._relist.set()

    async def _asked(
        self, context: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        return await self._elicit(params)

    async def _say(self, failure: str | None) -> None:
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


async def _listing(client: Client) -> Listing:
    """All pages. A server without tools has none."""
    name = client.server_info.name if client.server_info else None
    if client.server_capabilities.tools is None:
        return Listing(name, ())
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return Listing(name, tuple(tools))


def _reason(error: BaseException, server: McpServer) -> str:
    """Why there is no connection: the innermost error that says something."""
    error = _innermost(error)
    match error:
        case FileNotFoundError() | PermissionError() if server.command:
            return f"cannot be started: {error.strerror}: {server.command[0]}"
        case TimeoutError():
            return f"did not answer within {server.start_timeout:g} seconds"
        case MCPError(code=types.CONNECTION_CLOSED) if server.command:
            return "ended before it answered"
        case ValidationError():
            return "breaks MCP with what it says of itself or of its tools"
        case _:
            said = str(error) or type(error).__name__
            # An address may have a secret in it.
            return f"cannot be reached: {said.replace(server.url or server.label, server.label)}"


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _quoted(words: LastWords) -> str:
    return f"; it said:\n{said}" if (said := str(words)) else ""
