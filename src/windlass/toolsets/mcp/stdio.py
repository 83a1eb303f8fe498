"""The stdio transport: a server as a process, one JSON-RPC message per line.

The SDK's own reader joins the whole line again for each chunk, which takes half a minute for 20 MB,
and stops for good at an invalid byte. This one takes time in proportion to the size, replaces
invalid bytes, and limits the size of a message. The SDK starts and stops the process.
"""

import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, TextIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import (
    _create_platform_compatible_process,  # pyright: ignore[reportPrivateUsage]
    _drain_stdout,  # pyright: ignore[reportPrivateUsage]
    _get_executable_command,  # pyright: ignore[reportPrivateUsage]
    _stop_server_process,  # pyright: ignore[reportPrivateUsage]
    get_default_environment,
)
from mcp.shared.message import SessionMessage

from windlass.content import PrivateText
from windlass.toolsets.mcp.options import ServerOptions

log = logging.getLogger("windlass.mcp")

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
        """The error that ends the request which the message answered; None if it is unknown."""
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
    # Nothing may be awaited before the task group: a cancellation would leave the process behind.
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
    """The message of a line. None for a line that is none, which is logged and skipped."""
    if isinstance(line, TooLarge):
        log.warning("a message of an MCP server is larger than %d bytes and was dropped", limit)
        return line.error(limit)
    text = line.decode("utf-8", "replace")
    if not text.strip():
        return None
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        log.warning("an MCP server wrote a line that is no message: %s", PrivateText(text[:200]))
        return None
