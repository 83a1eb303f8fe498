"""Connections to MCP servers: a background event loop and the supervisor of each server.

All connections run on one event loop in its own thread. A connection is used by any number of runs,
from sync code, threads and event loops that come and go, and a failing server affects no other
event loop.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from windlass.errors import ConfigError
from windlass.toolsets.mcp.options import ServerOptions
from windlass.toolsets.mcp.transport import StderrTail, open_transport

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

MAX_RESTART_DELAY = 30.0
STEADY_SECONDS = 10.0
"""A connection that lasted longer, in seconds, resets the count of failures."""
MAX_PAGES = 100
PING_SECONDS = 10.0
"""How long a server may take to answer a ping after a call that timed out."""
OLDER_STATUSES = (400, 404, 405)
"""The answers to the first request from servers that only have the HTTP+SSE transport of 2024."""
REMEDIES = {
    401: "its credentials are missing, wrong or expired",
    403: "these credentials do not allow it",
}
"""The refusals that the operator of the server can fix."""


class Requests(Protocol):
    """Receives the requests of a server, and reports about the client's own requests."""

    def received(self) -> None:
        """A message arrived; called in the context of its handler."""
        ...

    def responded(self, status: int) -> None:
        """An HTTP response arrived; called in the context of its request."""
        ...

    def refused(self) -> None:
        """A request could not be sent; called in its context."""
        ...

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult: ...

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData: ...

    async def log_message(self, params: types.LoggingMessageNotificationParams) -> None: ...


class ServerDown(Exception):
    """The server is not available; the text is the reason."""


class Listing:
    """The last known name, tools and instructions of a server."""

    def __init__(
        self,
        name: str | None,
        tools: tuple[types.Tool, ...],
        *,
        instructions: str = "",
        has_resources: bool = False,
    ) -> None:
        self.name, self.tools = name, tools
        self.instructions, self.has_resources = instructions, has_resources


@dataclass(slots=True)
class McpConnection:
    """One connection to a server."""

    client: Client
    forgotten: bool = False
    """Whether the server does not know the session any more. Then it ran none of the refused calls.
    """
    pinging: bool = False
    """Whether a ping waits for its answer."""


class ServerKeeper:
    """Starts one server, lists its tools, and restarts it when it fails.

    Runs on the background loop. While the server is down, `listing` is the last one.
    """

    def __init__(
        self,
        server: ServerOptions,
        requests: Requests,
        *,
        delay: Callable[[int], float] | None = None,
    ) -> None:
        self._server, self.requests = server, requests
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
        self._pings: set[asyncio.Task[None]] = set()
        self._status = 0
        """The status of the last refused HTTP request."""
        self._older = False
        """Whether the server has only the HTTP+SSE transport."""

    async def listed(self) -> Listing:
        """The server's tools. Starts the server if needed. Raises `ConfigError` if that fails."""
        if self._task is None or self._task.done():
            self._failure = None
            self._closing.clear()
            # In its own context: later messages of the server do not belong to this call.
            self._task = asyncio.create_task(
                self._supervise(),
                name=f"mcp {self._server.label}",
                context=contextvars.Context(),
            )
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

    @property
    def current(self) -> McpConnection | None:
        """The connection, if there is one."""
        return self._connection

    def lost(self, connection: McpConnection | None = None) -> None:
        """Discards a lost connection. Calls wait for the next one."""
        if connection is None or self._connection in (None, connection):
            self._connection = None
            self._lost.set()

    def check(self, connection: McpConnection) -> None:
        """Pings the server, after a call that timed out. One that does not answer is restarted."""
        if not connection.pinging:
            connection.pinging = True
            ping = asyncio.create_task(self._ping(connection), context=contextvars.Context())
            self._pings.add(ping)
            ping.add_done_callback(self._pings.discard)

    async def _ping(self, connection: McpConnection) -> None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                if connection.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await connection.client.list_tools()  # this version has no ping
                else:
                    await connection.client.session.send_ping()
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                self.lost(connection)
        except Exception:  # noqa: BLE001 - whatever it is, the server did not answer
            log.warning("MCP server %r does not answer; restarting it", self.label)
            self.lost(connection)
        finally:
            connection.pinging = False

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
                reason = _reason(error, self._server, self._status)
            self._connection = None
            if self.listing is None and self._may_be_older():
                self._older = True
                continue
            if self._closing.is_set() or (self.listing is None and not self._server.optional):
                self._older = False
                await self._set_failure(f"{reason}{_quoted(stderr)}")
                return
            if self.listing is None:
                self._older = False
                failures += 1
                if failures == 1:
                    log.warning("MCP server %r %s; trying it again", self.label, reason)
                await self._set_failure(f"{reason}{_quoted(stderr)}")
                await self._pause(self._delay(failures + 1))
                continue
            failures = 1 if time.monotonic() - began > STEADY_SECONDS else failures + 1
            log.warning("MCP server %r %s; restarting it", self.label, reason)
            if failures > 1:
                await self._set_failure(f"{reason} and will be restarted shortly")
                await self._pause(self._delay(failures))
            self._failure = None

    def _may_be_older(self) -> bool:
        refused = self._server.url is not None and self._status in OLDER_STATUSES
        return refused and not self._older and not self._closing.is_set()

    async def _stay_connected(self, stderr: StderrTail) -> None:
        """Connects, lists the tools, and returns when the connection is lost or closed."""
        self._lost.clear()
        self._relist.clear()
        self._status = 0
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
        watch = _ConnectionWatch(self)
        transport = open_transport(self._server, stderr, watch, older=self._older)
        wanted = self._server.protocol
        client = Client(
            transport,
            # Not the version itself: with a fixed version the SDK does not ask for server info.
            mode="legacy" if wanted == "2025-11-25" or self._older else "auto",
            cache=None,
            client_info=types.Implementation(name="windlass", version="0.1.0"),
            elicitation_callback=self._on_elicit,
            sampling_callback=self._on_sample if self._server.sampling else None,
            list_roots_callback=self._on_list_roots if self._server.roots else None,
            logging_callback=self.requests.log_message,
            log_level="info",
            message_handler=self._on_message,
        )
        connection = watch.connection = McpConnection(client)
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
        """Subscribes to changes of a server without a handshake. Other servers send them anyway."""
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
        return await self.requests.elicit(params)

    async def _on_sample(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        return await self.requests.sample(params)

    async def _on_list_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=_roots(self._server))

    def responded(self, response: httpx2.Response, connection: McpConnection | None) -> None:
        """Records a refused request's status, and whether the server has forgotten the session."""
        status = response.status_code
        if status < 400:
            return
        # A restarted server does not know our session: a new one is needed.
        if status == 404 and connection and "mcp-session-id" in response.request.headers:
            connection.forgotten = True
        if response.request.method == "POST" or self._older:
            self._status = status
        self.requests.responded(status)

    async def _set_failure(self, failure: str | None) -> None:
        async with self._changed:
            self._failure = failure
            self._changed.notify_all()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


class _ConnectionWatch:
    """Reports the events of one connection to the supervisor."""

    def __init__(self, supervisor: ServerKeeper) -> None:
        self._supervisor = supervisor
        self.connection: McpConnection | None = None

    def ended(self) -> None:
        self._supervisor.lost(self.connection)

    def received(self) -> None:
        self._supervisor.requests.received()

    def responded(self, response: httpx2.Response) -> None:
        self._supervisor.responded(response, self.connection)

    def refused(self) -> None:
        self._supervisor.requests.refused()


def _roots(server: ServerOptions) -> list[types.Root]:
    folders = [Path(root).resolve() for root in server.roots]
    listed = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
    return [types.Root.model_validate(each) for each in listed]


def _restart_delay(failures: int) -> float:
    return min(2.0 ** (failures - 2), MAX_RESTART_DELAY)


async def _listing(client: Client) -> Listing:
    """The server's tools, from all pages."""
    name = client.server_info.name if client.server_info else None
    about: dict[str, Any] = {
        "instructions": client.instructions or "",
        "has_resources": client.server_capabilities.resources is not None,
    }
    if client.server_capabilities.tools is None:
        return Listing(name, (), **about)
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return Listing(name, tuple(tools), **about)


def _reason(error: BaseException, server: ServerOptions, status: int) -> str:
    """Why there is no connection, as the predicate of a sentence about the server."""
    error = _innermost(error)
    if isinstance(error, OAuthFlowError):
        return f"needs a login: {error}; {server.credentials_remedy}"
    if status in REMEDIES:
        return f"answered HTTP {status}: {REMEDIES[status]}; {server.credentials_remedy}"
    match error:
        case FileNotFoundError() | PermissionError() if server.command:
            return f"cannot be started: {error.strerror}: {server.command[0]}"
        case TimeoutError():
            return f"did not answer within {server.start_timeout:g} seconds"
        case MCPError(code=types.CONNECTION_CLOSED) if server.command:
            return "exited before it answered"
        case ValidationError():
            return "sent a description of itself or of its tools that violates MCP"
        case _ if status in OLDER_STATUSES:
            return (
                f"answered HTTP {status} and offers neither streamable HTTP nor the older HTTP+SSE"
                " at this address"
            )
        case _ if status >= 400:
            return f"answered HTTP {status}"
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
