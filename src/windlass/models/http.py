"""The one place that knows aiohttp: a pool of connections for each event loop, and POST."""

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
# aiohttp says RuntimeError when the connection went away between two reads.
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, RuntimeError)
KEEP_ALIVE = 60.0
LONGEST_ERROR_BODY = 2**16
LONGEST_HEADER = 2**16
LARGE_BODY = 2**20  # above this, aiohttp wants a file
PATIENCE_AT_END = 0.1  # for the end of a body whose last event has come

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
    "User-Agent": "windlass",
}


def cut(error: Exception) -> StreamCut:
    """What a broken connection means once the answer has begun."""
    if isinstance(error, TimeoutError):
        return StreamCut("the model's stream fell silent before its turn was complete")
    return StreamCut()


class _SessionPool(NamedTuple):
    session: aiohttp.ClientSession
    with_loop: AsyncGenerator[None, None]
    """Closes the session when its loop shuts down."""
    with_owner: "weakref.finalize[..., Any]"
    """Closes it when its owner is forgotten."""
    process: int
    """A fork has its parent's pools, and not the loops that would close them."""


class Http:
    """POSTs to one host with one set of headers. Each event loop that uses it has its own pool."""

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
    def secrets(self) -> Sequence[str]:
        """What must not be shown to anybody."""
        return self._auth.secrets

    def address(self, path: str, query: Mapping[str, str] | None = None) -> URL:
        """The address of `path` under the base URL, whose own query is kept."""
        full = self._base.with_path(f"{self._base.raw_path.rstrip('/')}{path}", encoded=True)
        return full.with_query({**self._base.query, **(query or {})})

    async def post(self, url: URL, body: bytes) -> Response:
        """The answer, its body still to come. Raises `ModelError` for all but success."""
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is None or pool.session.closed:
            pool = await self._open_pool()
        data = body if len(body) <= LARGE_BODY else io.BytesIO(body)
        headers = await self._auth.current() if self._auth.changes else None
        try:
            # A redirect is not followed: it would carry the key to another host.
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
        """Gives the connection back, or closes it in the middle of an answer.

        After a turn's last event the end of the body is due at once; waiting for it saves the next
        request a handshake.
        """
        content = response.content
        if complete and not content.is_eof():
            with suppress(*TRANSPORT_ERRORS):
                async with asyncio.timeout(PATIENCE_AT_END):
                    await content.wait_eof()
        if content.is_eof():
            response.release()
        else:
            response.close()

    async def aclose(self) -> None:
        """Closes every pool; a later request opens a new one. May be called several times at once.

        A loop that is neither running nor closed keeps its pool: nothing could wait for it.
        """
        current = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            usable = loop.is_running() or loop.is_closed()
            if pool.process != os.getpid() or not usable or self._pools.get(loop) is not pool:
                continue
            # Before the first `await`: another call that runs meanwhile does not find it.
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
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
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
            while len(body) < LONGEST_ERROR_BODY and (piece := await response.content.readany()):
                body += piece
        await self.release(response, complete=False)
        if response.status < 400:
            return ModelError(
                f"the address redirects elsewhere (HTTP {response.status}), which is not followed:"
                " set base_url to the final address",
                status=response.status,
            )
        return problem_of(response.status, response.headers, bytes(body), self._auth.secrets)


async def _closing_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Closes the session when its loop shuts down, whoever forgot to.

    `asyncio.run` and its like end by closing every asynchronous generator that is still open.
    """
    try:
        yield
    finally:
        await session.close()


def _discard(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    """Closes a session that nobody waits for any more, from whatever thread or loop."""
    if loop.is_closed():
        _close_now(session)
    else:
        loop.call_soon_threadsafe(_close_now, session)


def _close_now(session: aiohttp.ClientSession) -> None:
    """The first step of closing does all that is needed; the others only wait."""
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
    """The proxy that the environment names for the address."""
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
            return ConfigError(f"base_url is not an address: {place}")
        case aiohttp.ClientSSLError():
            return _failed("no secure connection to {upstream}", place, _reason(error))
        case aiohttp.ConnectionTimeoutError():
            return _failed("connecting to {upstream} took too long", place, retryable=True)
        case TimeoutError():
            return _failed("{upstream} did not answer in time", place, retryable=True)
        case aiohttp.ClientHttpProxyError(status=status):
            words = "the proxy does not lead to {upstream}"
            return _failed(words, place, status=status, retryable=True)
        case aiohttp.ClientResponseError():
            return _failed("{upstream} answered in broken HTTP", place, retryable=True)
        case aiohttp.ClientConnectorError():
            return _failed("cannot connect to {upstream}", place, _reason(error), retryable=True)
        case _:
            words = "{upstream} closed the connection without an answer"
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
