"""HTTP/1.1 connections to one server: what calling a model needs, and nothing else.

POST requests whose body is known, responses that are read as they arrive, a pool of idle
connections, proxies. No redirects and no cookies. httptools parses the responses.
"""

import asyncio
import base64
import functools
import socket
import ssl
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import httptools
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]
from yarl import URL

from windlass.models.retry import Timeouts

KEEP_ALIVE = 60.0
"""How long an idle connection stays open, in seconds."""
MAX_HEAD = 2**17
"""The maximum size of the status line and the headers."""
MAX_UNREAD = 2**18
"""A connection with more unread bytes stops receiving until they are read."""
ADDRESS_DELAY = 0.25
"""How long to wait for one address of a host before the next one is tried, too."""
READ_SIZE = 2**18
"""How many bytes are received at a time."""
Address: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
CODINGS = (b"gzip", b"x-gzip", b"deflate")


class HttpError(OSError):
    """A connection or a response failed."""


class Unreachable(HttpError):
    """No connection could be opened. The cause is the error of the system."""


class ConnectTimeout(HttpError, TimeoutError):
    """Connecting took too long."""


class ReadTimeout(HttpError, TimeoutError):
    """No byte arrived for too long."""


class InvalidResponse(HttpError):
    """The server's response is not HTTP/1.1."""


class Disconnected(HttpError):
    """The connection was closed before the end of the response."""


class ProxyRefused(HttpError):
    """The proxy did not open a tunnel to the server."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status


class Server(NamedTuple):
    """The address of a server, and the proxy on the way to it."""

    host: str
    port: int
    tls: bool
    proxy: URL | None = None

    @property
    def authority(self) -> str:
        """The host as in an address, and its port unless that is the scheme's own."""
        return self._shown_host if self.port == (443 if self.tls else 80) else self.target

    @property
    def target(self) -> str:
        """The host as in an address, and its port."""
        return f"{self._shown_host}:{self.port}"

    @property
    def _shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


class HttpConnection(asyncio.BufferedProtocol):
    """A connection with one request at a time, and the response to the last one."""

    def __init__(self, read_timeout: float, buffer: memoryview) -> None:
        """The connections of one event loop can share the buffer: it is used at once."""
        self._read_timeout = read_timeout
        self._buffer = buffer
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        """The parts of the body that have arrived and are unread."""
        # The parser calls the methods that exist when it is created.
        self.on_body = self._pieces.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._pool: ConnectionPool | None = None
        self.status = 0
        """The status of the response; 0 before it has arrived."""
        self.headers: dict[bytes, bytes] = {}
        """The headers of the response; their names are in lower case."""
        self.complete = True
        """Whether the whole response has arrived."""
        self.idle_since = 0.0
        self._keep_alive = True
        self._failure: Callable[[], HttpError] | None = None
        """Makes the error of a response that failed. An error itself would hold our frames."""
        self._waiter: asyncio.Future[None] | None = None
        self._head_bytes = self._unread = 0
        self._paused = False
        """Whether it stopped receiving, because too much is unread."""
        self._heard = 0.0
        """When bytes last arrived, or the request was sent."""
        self._timer: asyncio.TimerHandle | None = None
        self._inflate: Callable[[bytes], bytes] | None = None
        """Unpacks the next part of a compressed body."""

    def send(self, data: bytes) -> None:
        """Sends a request. The response to the last one must be complete."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise Disconnected
        self.status, self.headers, self.complete = 0, {}, False
        self._head_bytes, self._inflate = 0, None
        self._heard = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._read_timeout, self._check_time)
        transport.write(data)

    async def started(self) -> None:
        """Waits for the status and the headers of the response. Raises `HttpError`."""
        while not self.status:
            if self._failure is not None:
                raise self._failure()
            await self._news()

    async def read(self) -> bytes:
        """All bytes of the body that have arrived: waits for the first, and is empty at the end.

        Raises `HttpError`.
        """
        while True:
            if pieces := self._pieces:
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                pieces.clear()
                self._read_all()
                if self._inflate is None or (data := self._inflated(self._inflate, data)):
                    return data
            elif self.complete:
                return b""
            elif self._failure is not None:
                raise self._failure()
            else:
                await self._news()

    async def rest(self) -> bytes:
        """The unread rest of the body. Raises `HttpError`."""
        pieces: list[bytes] = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent."""
        transport = self._transport
        return (
            self.complete
            and self._keep_alive
            and transport is not None
            and not transport.is_closing()
        )

    def release(self) -> None:
        """Returns the connection to its pool; closes it if the response is incomplete."""
        self._pieces.clear()
        if self._pool is not None and self.is_reusable:
            self._read_all()
            self._pool.put(self)
        else:
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def attach(self, transport: asyncio.Transport, pool: "ConnectionPool") -> None:
        """Uses this transport, and belongs to this pool."""
        self._transport, self._pool = transport, pool

    def detach(self) -> None:
        """Leaves its transport to another connection."""
        self._transport = self._parser = None
        self._stop_timer()

    # asyncio calls these methods.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = self._loop.time()
        if self._parser is None:
            return
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._invalid(str(error))
            return
        if not self.status:
            self._head_bytes += nbytes
            if self._head_bytes > MAX_HEAD:
                self._invalid(f"its headers have more than {MAX_HEAD} bytes")
            return
        self._unread += nbytes
        if self._unread > MAX_UNREAD and not self.complete and not self._paused:
            assert self._transport is not None
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if not self.complete:
            if exc is None and self.status and self._ends_with_connection:
                self.complete = True
            else:
                self._failure = self._failure or Disconnected
        self._keep_alive = False
        self._parser = None  # it holds our methods
        if self._pool is not None:
            self._pool.discard(self)
            self._pool = None
        self._wake()

    # The parser calls these methods.

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:  # the final response follows
            self.headers = {}
            return
        self.status = status
        coding = self.headers.get(b"content-encoding")
        if coding is not None and coding.lower() in CODINGS:
            # It finds out which of the formats it is.
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress

    def on_message_complete(self) -> None:
        if self.status and self._parser is not None:
            self.complete = True
            self._keep_alive = self._parser.should_keep_alive()

    @property
    def _ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection marks the end of the body."""
        coding = self.headers.get(b"transfer-encoding", b"")
        return b"content-length" not in self.headers and b"chunked" not in coding.lower()

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _read_all(self) -> None:
        self._unread = 0
        if self._paused:
            self._paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _inflated(self, inflate: Callable[[bytes], bytes], data: bytes) -> bytes:
        try:
            return inflate(data)
        except zlib.error as error:
            self.close()
            raise InvalidResponse("its compression is damaged") from error

    def _invalid(self, reason: str) -> None:
        if not self.complete:
            self._failure = self._failure or functools.partial(InvalidResponse, reason)
        self.close()
        self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_time(self) -> None:
        """Ends a response that is silent for too long."""
        self._timer = None
        if self.complete:
            return  # the next request starts another timer
        if self._paused:  # we do not read: the server is not silent
            self._heard = self._loop.time()
        left = self._heard + self._read_timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_time)
            return
        self._failure = self._failure or ReadTimeout
        self.close()
        self._wake()


class ConnectionPool:
    """The connections to one server. Belongs to one event loop."""

    def __init__(self, server: Server, timeouts: Timeouts) -> None:
        self._server, self._timeouts = server, timeouts
        self._loop = asyncio.get_running_loop()
        # One for all connections: asyncio would ask the system for as much memory with each read.
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._all: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        """The connections without a request, the last used last."""
        self._sweeping: asyncio.TimerHandle | None = None
        self.closed = False

    async def take(self) -> HttpConnection:
        """An idle connection, or a new one. Raises `HttpError`."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        try:
            async with asyncio.timeout(self._timeouts.connect):
                return await self._connect()
        except HttpError:
            raise
        except TimeoutError as error:
            raise ConnectTimeout from error
        except OSError as error:
            raise Unreachable from error

    def put(self, connection: HttpConnection) -> None:
        """Takes an unused connection back."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEEP_ALIVE, self._sweep)

    def discard(self, connection: HttpConnection) -> None:
        """Forgets a closed connection."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Closes all connections. The transports need one more step of the event loop.

        A closed event loop has no such step: there, the garbage collector closes the sockets.
        """
        self.closed = True
        if self._loop.is_closed():
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._all):
            connection.close()

    def _sweep(self) -> None:
        """Closes the connections that have been idle for too long."""
        oldest = self._loop.time() - KEEP_ALIVE
        for connection in [each for each in self._idle if each.idle_since <= oldest]:
            self._idle.remove(connection)
            connection.close()
        self._sweeping = None
        if self._idle:
            due = self._idle[0].idle_since + KEEP_ALIVE
            self._sweeping = self._loop.call_at(due, self._sweep)

    async def _connect(self) -> HttpConnection:
        server, proxy = self._server, self._server.proxy
        if proxy is None:
            transport, connection = await self._opened(server.host, server.port, server.tls)
        else:
            host, port = proxy.host or "", proxy.port or 80
            transport, connection = await self._opened(host, port, proxy.scheme == "https")
            if server.tls:
                transport, connection = await self._tunnel(transport, connection, proxy)
        connection.attach(transport, self)
        self._all.add(connection)
        return connection

    async def _opened(
        self, host: str, port: int, tls: bool
    ) -> tuple[asyncio.Transport, HttpConnection]:
        sock = await start_connection(
            await self._addresses(host, port), happy_eyeballs_delay=ADDRESS_DELAY, interleave=1
        )
        try:
            return await self._loop.create_connection(
                self._protocol,
                sock=sock,
                ssl=tls_context() if tls else None,
                server_hostname=host if tls else None,
            )
        except BaseException:
            sock.close()
            raise

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            return socket.getaddrinfo(  # without a thread, if the host is a number
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def _tunnel(
        self, transport: asyncio.Transport, connection: HttpConnection, proxy: URL
    ) -> tuple[asyncio.Transport, HttpConnection]:
        """A TLS connection to the server through the proxy."""
        server, target = self._server, self._server.target
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *credentials(proxy, "Proxy-")]
        try:
            connection.send("\r\n".join([*lines, "", ""]).encode())
            await connection.started()
            if connection.status != 200:
                raise ProxyRefused(connection.status)
            inner = self._protocol()
            secure = await self._loop.start_tls(
                transport, inner, tls_context(), server_hostname=server.host
            )
        except BaseException:
            connection.close()
            raise
        connection.detach()
        assert secure is not None
        return secure, inner

    def _protocol(self) -> HttpConnection:
        return HttpConnection(self._timeouts.read, self._buffer)


def credentials(url: URL, prefix: str = "") -> list[str]:
    """The header line with the user and the password of an address, if it has them."""
    if url.user is None and url.password is None:
        return []
    pair = f"{url.user or ''}:{url.password or ''}".encode()
    return [f"{prefix}Authorization: Basic {base64.b64encode(pair).decode()}"]


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The system's certificates. Loading them takes some milliseconds, once."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
