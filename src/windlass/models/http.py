"""HTTP requests to upstreams: a pool of connections for each event loop. Only this uses aiohttp."""

import asyncio
import io
import logging
import os
import urllib.request
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from windlass.errors import ConfigError, ModelError, StreamCut, clear_frames
from windlass.models.keys import Auth
from windlass.models.retry import Timeouts
from windlass.wires.upstream_errors import problem_of

log = logging.getLogger("windlass.models")

Response = aiohttp.ClientResponse
# aiohttp raises RuntimeError when the connection is lost between two reads.
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, RuntimeError)
KEEP_ALIVE = 60.0
MAX_ERROR_BODY = 2**16
MAX_HEADER = 2**16
LARGE_BODY = 2**20  # above this, aiohttp expects a file
END_OF_BODY_TIMEOUT = 0.1  # for the end of a body whose last event has come

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


class _SessionPool(NamedTuple):
    session: aiohttp.ClientSession
    with_loop: AsyncGenerator[None, None]
    """Closes the session when its loop shuts down."""
    with_owner: "weakref.finalize[..., Any]"
    """Closes the session when its owner is garbage-collected."""
    process: int
    """The process id. A fork inherits the pools, but not the loops that close them."""


class Http:
    """POSTs to one host with one set of headers. Each event loop has its own pool."""

    def __init__(self, base_url: str, auth: Auth, timeouts: Timeouts) -> None:
        self._base = _base(base_url)
        self._auth = auth
        self._headers = _HEADERS | auth.fixed
        self._proxy = _proxy_for(self._base)
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=timeouts.connect, sock_read=timeouts.read
        )
        self._pools: dict[asyncio.AbstractEventLoop, _SessionPool] = {}

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
        if pool is None or pool.session.closed:
            pool = await self._open_pool()
        data = body if len(body) <= LARGE_BODY else io.BytesIO(body)
        if self._auth.changes:
            headers = {**(headers or {}), **(await self._auth.current() or {})}
        try:
            # Redirects are not followed: they would send the key to another host.
            response = await pool.session.post(
                url, data=data, headers=headers, allow_redirects=False, proxy=self._proxy
            )
        except TRANSPORT_ERRORS as error:
            log.debug("POST %s%s failed: %s", url.host, url.path, type(error).__name__)
            clear_frames(error)
            raise _unreachable(error, url) from error
        log.debug("POST %s%s -> %d", url.host, url.path, response.status)
        if response.status >= 300:
            raise await self._refusal(response)
        return response

    async def release(self, response: Response, *, complete: bool) -> None:
        """Returns the connection to the pool, or closes it in the middle of a response.

        After the last event of a turn the body ends at once. Waiting for its end saves the next
        request a handshake.
        """
        content = response.content
        if complete and not content.is_eof():
            with suppress(*TRANSPORT_ERRORS):
                async with asyncio.timeout(END_OF_BODY_TIMEOUT):
                    await content.wait_eof()
        if content.is_eof():
            response.release()
        else:
            response.close()

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
                await pool.session.close()
            else:
                closing = asyncio.run_coroutine_threadsafe(pool.session.close(), loop)
                await asyncio.wrap_future(closing)

    async def _open_pool(self) -> _SessionPool:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            timeout=self._timeout,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
        )
        loop = asyncio.get_running_loop()
        with_owner = weakref.finalize(self, _discard, session, loop)
        with_loop = _closing_with_loop(session)
        pool = self._pools[loop] = _SessionPool(session, with_loop, with_owner, os.getpid())
        await anext(pool.with_loop)
        for dead in [other for other in list(self._pools) if other.is_closed()]:
            if (forgotten := self._pools.pop(dead, None)) is not None:
                forgotten.with_owner()
        return pool

    async def _refusal(self, response: Response) -> ModelError:
        body = bytearray()
        with suppress(*TRANSPORT_ERRORS):
            while len(body) < MAX_ERROR_BODY and (piece := await response.content.readany()):
                body += piece
        await self.release(response, complete=False)
        if response.status < 400:
            return ModelError(
                f"the address redirects (HTTP {response.status}), and redirects are not followed:"
                " set base_url to the final address",
                status=response.status,
            )
        return problem_of(response.status, response.headers, bytes(body), self._auth.secrets)


async def _closing_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Closes the session when its loop shuts down, even if the owner did not.

    `asyncio.run` closes all open asynchronous generators at its end.
    """
    try:
        yield
    finally:
        await session.close()


def _discard(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    """Closes an unused session, from any thread or loop."""
    if loop.is_closed():
        _close_now(session)
    else:
        loop.call_soon_threadsafe(_close_now, session)


def _close_now(session: aiohttp.ClientSession) -> None:
    """Runs the first step of closing, which does all that is needed; the rest only waits."""
    closing = session.close()
    with suppress(StopIteration):
        closing.send(None)
    closing.close()


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


def _unreachable(error: Exception, url: URL) -> ModelError | ConfigError:
    place = f"{url.host}:{url.port}"
    match error:
        case aiohttp.InvalidURL():
            return ConfigError(f"base_url is not a valid address: {place}")
        case aiohttp.ClientSSLError():
            return _failed("no secure connection to {upstream}", place, _reason(error))
        case aiohttp.ConnectionTimeoutError():
            return _failed("connecting to {upstream} took too long", place, retryable=True)
        case TimeoutError():
            return _failed("{upstream} did not answer in time", place, retryable=True)
        case aiohttp.ClientHttpProxyError(status=status):
            words = "the proxy cannot reach {upstream}"
            return _failed(words, place, status=status, retryable=True)
        case aiohttp.ClientResponseError():
            return _failed("{upstream} sent an invalid HTTP response", place, retryable=True)
        case aiohttp.ClientConnectorError():
            return _failed("cannot connect to {upstream}", place, _reason(error), retryable=True)
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


def _reason(error: aiohttp.ClientConnectorError | aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "os_error", None) or error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
