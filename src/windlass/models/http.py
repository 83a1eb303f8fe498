"""HTTP requests to upstreams: a pool of connections for each event loop."""

import asyncio
import logging
import os
import ssl
import urllib.request
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from yarl import URL

from windlass.errors import ConfigError, ModelError, StreamCut, clear_frames
from windlass.models.http1 import (
    ConnectionPool,
    ConnectTimeout,
    HttpConnection,
    HttpError,
    InvalidResponse,
    ProxyRefused,
    ReadTimeout,
    Server,
    Unreachable,
    credentials,
)
from windlass.models.keys import Auth
from windlass.models.retry import Timeouts
from windlass.wires.upstream_errors import problem_of

log = logging.getLogger("windlass.models")

Response = HttpConnection
"""A connection, from the start of its response until it is released."""
MAX_ERROR_BODY = 2**16
END_OF_BODY_TIMEOUT = 0.1  # for the end of a body whose last event has arrived
MAX_HEADS = 64

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
    "User-Agent": "windlass",
}


def cut(error: Exception) -> StreamCut:
    """The error for a connection that breaks after the response has started."""
    if isinstance(error, TimeoutError):
        return StreamCut("the model's stream stopped before its turn was complete")
    return StreamCut()


class _LoopPool(NamedTuple):
    connections: ConnectionPool
    with_loop: AsyncGenerator[None, None]
    """Closes the connections when their loop shuts down."""
    with_owner: "weakref.finalize[..., Any]"
    """Closes the connections when their owner is garbage-collected."""
    process: int
    """The process id. A fork inherits the pools, but not the loops that close them."""


class Http:
    """POSTs to one host with one set of headers. Each event loop has its own pool."""

    def __init__(self, base_url: str, auth: Auth, timeouts: Timeouts) -> None:
        self._base = _base(base_url)
        self._auth = auth
        self._headers = _HEADERS | auth.fixed
        self._proxy = _proxy_for(self._base)
        self._server = Server(
            self._base.raw_host or "",
            self._base.port or 0,
            self._base.scheme == "https",
            None if self._proxy is None else URL(self._proxy),
        )
        self._timeouts = timeouts
        self._heads: dict[URL, bytes] = {}
        """The start of the requests to each address."""
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}

    @property
    def host(self) -> str:
        return self._base.host or ""

    @property
    def origin(self) -> str:
        """The scheme, the host and the port."""
        return str(self._base.origin())

    @property
    def secrets(self) -> Sequence[str]:
        """Texts that must not be shown."""
        return self._auth.secrets

    def address(self, path: str, query: Mapping[str, str] | None = None) -> URL:
        """The address of `path` under the base URL, with the query of both."""
        full = self._base.with_path(f"{self._base.raw_path.rstrip('/')}{path}", encoded=True)
        return full.with_query({**self._base.query, **(query or {})})

    async def post(
        self, url: URL, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The response, without its body. Raises `ModelError` unless its status is a success.

        `headers` are those of this request only.
        """
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is None or pool.connections.closed:
            pool = await self._open_pool()
        if self._auth.changes:
            headers = {**(headers or {}), **(await self._auth.current() or {})}
        try:
            response = await pool.connections.take()
            try:
                response.send(b"%b%d\r\n\r\n%b" % (self._head(url, headers), len(body), body))
                await response.started()
            except BaseException:
                response.close()
                raise
        except HttpError as error:
            log.debug("POST %s%s failed: %s", url.host, url.path, type(error).__name__)
            clear_frames(error)
            raise _unreachable(error, url) from error.with_traceback(None)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("POST %s%s -> %d", url.host, url.path, response.status)
        # Redirects are not followed: they would send the key to another host.
        if response.status >= 300:
            raise await self._refusal(response)
        return response

    async def release(self, response: Response, *, complete: bool) -> None:
        """Returns the connection to the pool, or closes it in the middle of a response.

        After the last event of a turn the body ends at once. Waiting for its end saves the next
        request a handshake.
        """
        if complete and not response.complete:
            with suppress(OSError):
                async with asyncio.timeout(END_OF_BODY_TIMEOUT):
                    await response.rest()
        response.release()

    async def aclose(self) -> None:
        """Closes every pool; a later request opens a new one. Concurrent calls are allowed.

        A loop that is neither running nor closed keeps its pool, because it cannot close it.
        """
        current = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            usable = loop.is_running() or loop.is_closed()
            if pool.process != os.getpid() or not usable or self._pools.get(loop) is not pool:
                continue
            # Before the first `await`, so that a concurrent call does not find it.
            del self._pools[loop]
            pool.with_owner.detach()
            if loop is current:
                await pool.with_loop.aclose()
            elif loop.is_closed():
                pool.connections.close()
            else:
                closing = asyncio.run_coroutine_threadsafe(_closed(pool.connections), loop)
                await asyncio.wrap_future(closing)

    def _head(self, url: URL, headers: Mapping[str, str] | None) -> bytes:
        """The start of a request, up to the length of its body."""
        if headers:
            return self._new_head(url, headers)
        head = self._heads.get(url)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            head = self._heads[url] = self._new_head(url, {})
        return head

    def _new_head(self, url: URL, headers: Mapping[str, str]) -> bytes:
        replaced = {name.lower() for name in headers}
        kept = {name: text for name, text in self._headers.items() if name.lower() not in replaced}
        plain_proxy = self._server.proxy if not self._server.tls else None
        target = str(url.with_user(None)) if plain_proxy else url.raw_path_qs
        lines = [f"POST {target} HTTP/1.1", f"Host: {self._server.authority}"]
        lines += [f"{name}: {text}" for name, text in {**kept, **headers}.items()]
        if not any(name.lower() == "authorization" for name in (*kept, *headers)):
            lines += credentials(url)
        if plain_proxy:
            lines += credentials(plain_proxy, "Proxy-")
        if any(set(line) & {"\r", "\n", "\0"} for line in lines):
            raise ConfigError("a header contains a line break")
        return "\r\n".join([*lines, "Content-Length: "]).encode()

    async def _open_pool(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        connections = ConnectionPool(self._server, self._timeouts)
        with_owner = weakref.finalize(self, _discard, connections, loop)
        with_loop = _closing_with_loop(connections)
        pool = self._pools[loop] = _LoopPool(connections, with_loop, with_owner, os.getpid())
        await anext(pool.with_loop)
        for dead in [other for other in list(self._pools) if other.is_closed()]:
            if (forgotten := self._pools.pop(dead, None)) is not None:
                forgotten.with_owner()
        return pool

    async def _refusal(self, response: Response) -> ModelError:
        status, body = response.status, bytearray()
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in response.headers.items()
        }
        with suppress(HttpError):
            while len(body) < MAX_ERROR_BODY and (piece := await response.read()):
                body += piece
        await self.release(response, complete=False)
        if status < 400:
            return ModelError(
                f"the address redirects (HTTP {status}), and redirects are not followed:"
                " set base_url to the final address",
                status=status,
            )
        return problem_of(status, headers, bytes(body), self._auth.secrets)


async def _closed(connections: ConnectionPool) -> None:
    """Closes the connections, and waits until their sockets are closed."""
    connections.close()
    await asyncio.sleep(0)


async def _closing_with_loop(connections: ConnectionPool) -> AsyncGenerator[None, None]:
    """Closes the connections when their loop shuts down, even if the owner did not.

    `asyncio.run` closes all open asynchronous generators at its end.
    """
    try:
        yield
    finally:
        await _closed(connections)


def _discard(connections: ConnectionPool, loop: asyncio.AbstractEventLoop) -> None:
    """Closes unused connections, from any thread or loop."""
    if loop.is_closed():
        connections.close()
    else:
        loop.call_soon_threadsafe(connections.close)


def _base(base_url: str) -> URL:
    try:
        base = URL(base_url)
    except ValueError:
        base = URL()
    if base.scheme not in ("http", "https") or not base.host:
        raise ConfigError(f"base_url must be an http or https address, not {base_url!r}")
    return base


def _proxy_for(url: URL) -> str | None:
    """The proxy for the address, from the environment."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    host = url.host or ""
    if not proxy.startswith("http") or host in ("localhost", "127.0.0.1", "::1"):
        return None
    return None if urllib.request.proxy_bypass(host) else proxy


def _unreachable(error: HttpError, url: URL) -> ModelError:
    place = f"{url.host}:{url.port}"
    match error, error.__cause__:
        case ConnectTimeout(), _:
            return _failed("connecting to {upstream} took too long", place, retryable=True)
        case ReadTimeout(), _:
            return _failed("{upstream} did not answer in time", place, retryable=True)
        case ProxyRefused(status=status), _:
            words = "the proxy cannot reach {upstream}"
            return _failed(words, place, status=status, retryable=True)
        case InvalidResponse(), _:
            return _failed("{upstream} sent an invalid HTTP response", place, retryable=True)
        case Unreachable(), ssl.SSLError() as cause:
            return _failed("no secure connection to {upstream}", place, _reason(cause))
        case Unreachable(), cause:
            return _failed("cannot connect to {upstream}", place, _reason(cause), retryable=True)
        case _:
            words = "{upstream} closed the connection without a response"
            return _failed(words, place, retryable=True)


def _failed(
    words: str,
    place: str,
    reason: str | None = None,
    *,
    status: int | None = None,
    retryable: bool = False,
) -> ModelError:
    message = words.replace("{upstream}", place) + (f": {reason}" if reason else "")
    return ModelError(message, status=status, retryable=retryable, public=words)


def _reason(cause: BaseException | None) -> str | None:
    if cause is None:
        return None
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
