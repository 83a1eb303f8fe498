"""uvicorn's HTTP protocol with limits: header timeout, header size, connections per address."""

import asyncio
import functools
import ipaddress
import logging
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from windlass.gateway.http.context import DIRECT, Header, Scope
from windlass.gateway.http.errors import headers_too_large, problem_headers
from windlass.wires.errors import Problem, error_body

log = logging.getLogger("windlass.gateway")

HEADER_TIMEOUT = Problem(408, "The headers did not arrive in time.", "header_timeout")
READ_SIZE = 2**18
"""How many bytes are received at a time."""
WARNING_SECONDS = 60.0
"""The shortest time between two warnings about too many connections."""
VALID_HEADERS = re.compile(  # of which each is one line
    rb'(?:[^\x00-\x1f\x7f()<>@,;:\\\[\]={} "]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*'
)


class Connections:
    """Counts the open connections of one server by address, and knows which are idle."""

    def __init__(
        self,
        *,
        header_timeout: float,
        per_address: int | None = None,
        refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`refused` is called with the reason whenever a client is refused here."""
        self.header_timeout = header_timeout
        self.refused = refused
        self.handing_over = False
        """Whether other processes serve new connections: open ones get one more request."""
        self.buffer = memoryview(bytearray(READ_SIZE))
        """Where bytes arrive: asyncio would ask the system for as much memory with each read."""
        self._per_address = per_address
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[BoundedProtocol, None]] = {}
        """The connections that wait for their client to send, by address, oldest first."""
        self._warned = -WARNING_SECONDS

    def enter(self, address: str) -> Problem | None:
        """Counts a connection; returns a problem if its address has too many.

        If one of them waits for its client, it is closed to make room: a client that leaves its
        requests incomplete must not lock out others at the same address.
        """
        if self._per_address is not None and self._open[address] >= self._per_address:
            self._warn(address)
            if address not in self._waiting:
                message = f"This address already has {self._per_address} open connections."
                return Problem(429, message, "too_many_connections", retry_after=1)
            next(iter(self._waiting[address])).give_way()
        self._open[address] += 1
        return None

    def leave(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def wait(self, connection: "BoundedProtocol", address: str) -> None:
        self._waiting.setdefault(address, {})[connection] = None

    def end_wait(self, connection: "BoundedProtocol", address: str) -> None:
        waiting = self._waiting.get(address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(address, None)

    def _warn(self, address: str) -> None:
        now = time.monotonic()
        if now - self._warned >= WARNING_SECONDS:
            self._warned = now
            log.warning("too many connections from one address", extra={"address": address})


def address_key(host: str) -> str:
    """The part of an address that is counted: of IPv6 the first 64 bits, a host's own network."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.IPv6Address(int(address) >> 64 << 64))


class ResponseCycle(RequestResponseCycle):
    """A request and its response, whose head is written together with the start of its body.

    uvloop writes at once, so two writes would be two system calls. A head whose body does not
    follow in the same step of the event loop is written by itself. The headers are checked
    together; their names are in lower case, as ASGI requires.
    """

    _head = b""
    """The head of the response, while it is not written."""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = "http.response.body" if self.response_started else "http.response.start"
        if self.response_complete or message["type"] != kind:
            raise RuntimeError(f"Unexpected ASGI message {message['type']!r}")
        if self.response_started:
            self._add(message.get("body", b""), is_last=not message.get("more_body"))
        else:
            self._begin(message["status"], [*self.default_headers, *message.get("headers", ())])

    def _begin(self, status: int, headers: list[Header]) -> None:
        self.response_started, self.waiting_for_100_continue = True, False
        fields = dict(headers)
        length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding", b"")
        if length is not None:
            self.expected_content_length, self.chunked_encoding = int(length), False
        elif coding.lower() == b"chunked":
            self.chunked_encoding = True
        elif self.scope["method"] != "HEAD" and status not in (204, 304):
            self.chunked_encoding = True
            headers.append((b"transfer-encoding", b"chunked"))
        if b"close" in fields.get(b"connection", b"").lower():
            self.keep_alive = False
        elif not self.keep_alive:
            headers.append((b"connection", b"close"))
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        if lines.count(b"\r\n") != len(headers) or not VALID_HEADERS.fullmatch(lines):
            raise RuntimeError("Invalid HTTP header.")
        self._head = STATUS_LINE[status] + lines + b"\r\n"
        asyncio.get_running_loop().call_soon(self._flush)

    def _add(self, body: bytes, *, is_last: bool) -> None:
        pieces = [self._head]
        self._head = b""
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
        elif self.chunked_encoding:
            if body:
                pieces += (b"%x\r\n" % len(body), body, b"\r\n")
            if is_last:
                pieces.append(b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("Response content longer than Content-Length")
            pieces.append(body)
        self.transport.write(b"".join(pieces))
        if not is_last:
            return
        if self.expected_content_length:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self.transport.write(head)


class BoundedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """Closes a connection whose client does not finish what it sends.

    The headers must be complete within `header_timeout` of the connection, or of the first byte
    after the last request. uvicorn's `h11_max_incomplete_event_size` limits their size. The
    application waits for a body while it handles the request; the rest of a body that arrives after
    the response has the same timeout as headers. More bytes do not extend any of these times.
    """

    _in_headers = False
    """Whether the headers of a request have started and are incomplete."""
    _header_bytes = 0
    _in_body = False
    """Whether the body of the last request is incomplete."""
    _address = ""
    """The address that this connection is counted under; empty if it was refused."""
    _deadline: asyncio.TimerHandle | None = None
    _is_upgraded = False
    """Whether the connection is a WebSocket now."""

    def __init__(self, open_connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._open_connections = open_connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        address = address_key(self.client[0]) if self.client else "unknown"
        problem = self._open_connections.enter(address)
        if problem is None:
            self._address = address
            self._start_deadline()
        else:
            self._refuse(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        if self._address:
            self._open_connections.leave(self._address)
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._open_connections.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(cast("bytes", self._open_connections.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        was_in_headers = self._in_headers
        super().data_received(data)
        if self._is_upgraded:
            return
        if was_in_headers and self._in_headers:
            self._header_bytes += len(data)
            limit = self.config.h11_max_incomplete_event_size or 0
            if self._header_bytes > limit:
                self._refuse(headers_too_large(limit))
        if self._in_headers or not self._busy:
            self._start_deadline()

    def handle_websocket_upgrade(self) -> None:
        """Passes the connection to a WebSocket, which is counted under the same address."""
        super().handle_websocket_upgrade()
        self._is_upgraded = True
        self._clear_deadline()
        socket = cast("Any", self.transport.get_protocol())
        if hasattr(socket, "on_lost") and self._address:
            socket.on_lost = functools.partial(self._open_connections.leave, self._address)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.__class__ = ResponseCycle  # uvicorn made it, and offers no other place to choose
        cast("Scope", cycle.scope)[DIRECT] = True
        if self._open_connections.handing_over:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._clear_deadline()
        self._in_headers, self._in_body = False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body:
            self._start_deadline()

    def shutdown(self) -> None:
        """Closes an idle connection, unless its next request could already be on its way.

        It then closes after that request, or at the end of its keep-alive time.
        """
        if self._busy or not self._open_connections.handing_over:
            super().shutdown()

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def give_way(self) -> None:
        """Closes a waiting connection; answers 408 if its client has started a request."""
        self._clear_deadline()
        if self._in_headers:
            self._refuse(HEADER_TIMEOUT)
        else:
            self.transport.close()

    def _start_deadline(self) -> None:
        """Starts the timeout for the client's next bytes, unless it is already running."""
        if self._deadline is None and not self.transport.is_closing():
            seconds = self._open_connections.header_timeout
            self._deadline = self.loop.call_later(seconds, self._overdue)
            if not self._busy:
                self._open_connections.wait(self, self._address)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._open_connections.end_wait(self, self._address)

    def _overdue(self) -> None:
        if self._busy:  # the late headers belong to the next request: finish this one first
            self.cycle.keep_alive = False
            self._clear_deadline()
        else:
            self.give_way()

    def _refuse(self, problem: Problem) -> None:
        self._open_connections.refused(problem.code or "")
        body = error_body(problem)
        lines = [
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
            *(b"%b: %b" % header for header in problem_headers(problem)),
        ]
        head = STATUS_LINE[problem.status] + b"\r\n".join(lines)
        self.transport.write(head + b"\r\n\r\n" + body)
        self.transport.close()


def socket_protocol(**given: Any) -> asyncio.Protocol:
    """The protocol of a WebSocket. Its library is loaded with the first one."""
    from windlass.gateway.http.websocket import CountedSocket

    return CountedSocket(**given)
