"""The streams of a connection to an MCP server: stdio, streamable HTTP or the older HTTP+SSE."""

import asyncio
import contextlib
import contextvars
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Protocol

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage

from windlass.content import PrivateText
from windlass.toolsets.mcp.options import ServerOptions
from windlass.toolsets.mcp.stdio import stdio_streams

log = logging.getLogger("windlass.mcp")

MAX_STDERR_LINES = 20


class Watch(Protocol):
    """Receives what happens on a connection."""

    def ended(self) -> None:
        """The incoming stream has ended."""
        ...

    def received(self) -> None:
        """A message arrived. Called in the context in which its handler will run."""
        ...

    def responded(self, response: httpx2.Response) -> None:
        """An HTTP response arrived, in the context of its request."""
        ...

    def refused(self) -> None:
        """The address could not be connected to, so the request was not sent."""
        ...


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
    server: ServerOptions, stderr: StderrTail, watch: Watch, *, older: bool
) -> AsyncGenerator[Any]:
    """The streams of a connection. `older` uses the HTTP+SSE transport of 2024.

    Raises `OSError` if the command cannot be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        if server.url is None:
            streams = await _local(server, stderr, stack)
        elif older:
            streams = await stack.enter_async_context(
                sse_client(
                    server.url,
                    headers=dict(server.headers),
                    auth=server.auth,
                    sse_read_timeout=server.longest,
                    httpx_client_factory=lambda headers=None, timeout=None, auth=None: _http_client(
                        watch, headers, timeout, auth
                    ),
                )
            )
        else:
            client = _http_client(watch, dict(server.headers) or None, None, server.auth)
            await stack.enter_async_context(client)
            streams = await stack.enter_async_context(
                streamable_http_client(
                    server.url, http_client=client, max_sse_event_size=server.max_message_bytes
                )
            )
        yield _WatchedStream(streams[0], watch), streams[1]


async def _local(
    server: ServerOptions, stderr: StderrTail, stack: contextlib.AsyncExitStack
) -> Any:
    errors = await stack.enter_async_context(stderr.as_file())
    streams = await stack.enter_async_context(stdio_streams(server, errors))
    errors.close()  # the process has its own copy: ours would keep the pipe open after its exit
    return streams


def _http_client(
    watch: Watch,
    headers: dict[str, str] | None,
    timeout: httpx2.Timeout | None,
    auth: httpx2.Auth | None,
) -> httpx2.AsyncClient:
    async def notice(response: httpx2.Response) -> None:
        watch.responded(response)

    made = create_mcp_http_client(headers, timeout, auth)
    client = _HttpClient(headers=headers, timeout=made.timeout, auth=auth)
    client.watch = watch
    client.event_hooks = {"response": [notice]}
    return client


class _HttpClient(httpx2.AsyncClient):
    """Reports requests that could not be sent."""

    watch: Watch

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self.watch.refused()
            raise


class _WatchedStream:
    """A message stream that reports its messages and its end."""

    def __init__(self, stream: Any, watch: Watch) -> None:
        self._stream, self._watch = stream, watch
        self.last_context: contextvars.Context | None = None
        """The context of the last message, which the SDK runs its handler in."""

    async def receive(self) -> SessionMessage | Exception:
        return self._noticed(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._noticed(await self._stream.__anext__())
        except StopAsyncIteration:
            self._watch.ended()
            raise

    def _noticed(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        sender: contextvars.Context | None = getattr(self._stream, "last_context", None)
        context = sender.copy() if sender is not None else contextvars.copy_context()
        context.run(self._watch.received)
        self.last_context = context
        return message

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
