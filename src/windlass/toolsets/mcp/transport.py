"""The way to a server: its process or its address, with word of its end."""

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage

from windlass.content import PrivateText
from windlass.toolsets.mcp.options import Server

__all__ = ["LastWords", "open_transport"]

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
    server: Server,
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
    server: Server, stack: contextlib.AsyncExitStack, on_forgotten: Callable[[], None]
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


async def _local(server: Server, words: LastWords, stack: contextlib.AsyncExitStack) -> Any:
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
