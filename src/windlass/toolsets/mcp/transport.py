"""The streams of a connection to an MCP server: stdio, streamable HTTP or the older HTTP+SSE.

A server as a process writes one JSON-RPC message per line. The SDK's own reader of these lines
joins the whole line again for each chunk, which takes half a minute for 20 MB, and stops for good
at an invalid byte. The one here takes time in proportion to the size, replaces invalid bytes, and
limits the size of a message. The SDK starts and stops the process.
"""

import asyncio
import contextlib
import contextvars
import logging
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from types import TracebackType
from typing import Any, Protocol, TextIO

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.stdio import (
    _create_platform_compatible_process,  # pyright: ignore[reportPrivateUsage]
    _drain_stdout,  # pyright: ignore[reportPrivateUsage]
    _get_executable_command,  # pyright: ignore[reportPrivateUsage]
    _stop_server_process,  # pyright: ignore[reportPrivateUsage]
    get_default_environment,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage

from windlass.content import PrivateText
from windlass.toolsets.mcp.options import ServerOptions

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
        """The context of the last message, in which the SDK runs the message's handler."""

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


FLUSH_SECONDS = 0.5
"""How long the writer may take to send its last messages."""
_KEPT_BYTES = 256
_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")'
_ID_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_AT_END = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class TooLarge:
    """A message that was longer than the limit: its start and its end."""

    def __init__(self, start: bytes, end: bytes) -> None:
        self.start, self.end = start, end

    def error(self, limit: int) -> types.JSONRPCError | None:
        """The error for the request that the message answered; None if the request is unknown."""
        found = _ID_AT_START.match(self.start) or _ID_AT_END.search(self.end)
        if found is None:
            return None
        text = found[1].decode("utf-8", "replace")
        request: int | str = text.strip('"') if text.startswith('"') else int(text)
        message = f"the message is larger than {limit} bytes"
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=message)
        return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


class LineSplitter:
    """Splits chunks into lines, in time proportional to their size. Pure."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._start = b""
        """The start of a line that is too long."""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLarge]:
        """The lines that the chunk completes."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._line()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            joined = b"".join(self._pieces)
            self._start = self._start or joined[:_KEPT_BYTES]
            self._pieces = [joined[-_KEPT_BYTES:]]

    def _line(self) -> bytes | TooLarge:
        line = b"".join(self._pieces)
        long = TooLarge(self._start, line[-_KEPT_BYTES:]) if self._size > self._limit else None
        self._pieces, self._size, self._start = [], 0, b""
        return long or line


@contextlib.asynccontextmanager
async def stdio_streams(server: ServerOptions, errors: TextIO) -> AsyncGenerator[Any]:
    """Starts the command and yields the streams of its messages. Raises `OSError`."""
    process = await _create_platform_compatible_process(
        command=await _get_executable_command(server.command[0]),
        args=list(server.command[1:]),
        env=get_default_environment() | dict(server.env),
        errlog=errors,
        cwd=server.cwd,
    )
    # No await before the task group: a cancellation there would leave the process running.
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()

    async def write() -> None:
        try:
            await _write(process.stdin, outgoing)
        except (*_CLOSED, OSError):
            await incoming.aclose()  # ends the session: its requests would wait forever
        finally:
            written.set()

    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, incoming, server.max_message_bytes)
        group.start_soon(write)
        try:
            yield received, sent
        finally:
            with anyio.CancelScope(shield=True):
                # A server that cannot write does not read: the reader discards what it sends.
                received.close()
                sent.close()
                with anyio.move_on_after(FLUSH_SECONDS):
                    await written.wait()
                await _stop_server_process(process)
                for stream in (received, sent, incoming, outgoing):
                    await stream.aclose()
            group.cancel_scope.cancel()


async def _write(stdin: Any, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with messages:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")


async def _read(
    process: Any, messages: MemoryObjectSendStream[SessionMessage | Exception], limit: int
) -> None:
    lines = LineSplitter(limit)
    with contextlib.suppress(*_CLOSED, ConnectionError):
        async with messages:
            try:
                async for chunk in process.stdout:
                    for line in lines.feed(chunk):
                        message = _message(line, limit)
                        if message is not None:
                            await messages.send(SessionMessage(message))
            finally:
                await _drain_stdout(process)


def _message(line: bytes | TooLarge, limit: int) -> types.JSONRPCMessage | None:
    """The message of a line. Logs a line that is not a message, and returns None."""
    if isinstance(line, TooLarge):
        log.warning("a message of an MCP server is larger than %d bytes and was dropped", limit)
        return line.error(limit)
    text = line.decode("utf-8", "replace")
    if not text.strip():
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        log.warning("skipped a line of an MCP server: not a message: %s", PrivateText(text[:200]))
        return None
