"""HTTP as uvicorn reads it, with bounds on what a client may leave unfinished."""

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from windlass.gateway.http.errors import headers_too_large, problem_headers
from windlass.wires.chat.write_events import error_body
from windlass.wires.errors import Problem

__all__ = ["BoundedProtocol", "Connections", "address_key"]

log = logging.getLogger("windlass.gateway")

HEADER_TIMEOUT = Problem(408, "The headers did not arrive in time.", "header_timeout")
WARNING_SECONDS = 60.0
"""How often a crowded address is logged, at most."""


class Connections:
    """The open connections of one server: how many an address has, and which of them wait."""

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
        self._per_address = per_address
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[BoundedProtocol, None]] = {}
        """The connections whose client owes something, by address, oldest first."""
        self._warned = -WARNING_SECONDS

    def enter(self, address: str) -> Problem | None:
        """Counts a connection; the problem if its address has too many.

        If one of those is waiting for its client, it is closed to make room: a client that sends
        half of its requests must not lock out others at the same address.
        """
        if self._per_address is not None and self._open[address] >= self._per_address:
            self._warn(address)
            if address not in self._waiting:
                message = f"This address has {self._per_address} connections open already."
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
    """What counts as one address: of IPv6 the first 64 bits, since a host has all of the others."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.IPv6Address(int(address) >> 64 << 64))


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose client does not finish what it sends.

    The headers must be complete within `header_timeout` of the connection, or of the first byte
    after the last request. Their size is bounded by uvicorn's `h11_max_incomplete_event_size`. A
    body that arrives while its request is handled is the application's to wait for; what remains of
    it after the response has the same time as headers. More bytes do not extend any of these times.
    """

    _heading = False
    """Whether the headers of a request have begun, and are not complete yet."""
    _head_bytes = 0
    _in_body = False
    """Whether the body of the last request is not complete yet."""
    _address = ""
    """The address that this connection counts for; empty if it was refused."""
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, open_connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._open_connections = open_connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        address = address_key(self.client[0]) if self.client else "unknown"
        problem = self._open_connections.enter(address)
        if problem is None:
            self._address = address
            self._expect()
        else:
            self._hang_up(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        if self._address:
            self._open_connections.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        went_on = self._heading
        super().data_received(data)
        if went_on and self._heading:
            self._head_bytes += len(data)
            limit = self.config.h11_max_incomplete_event_size or 0
            if self._head_bytes > limit:
                self._hang_up(headers_too_large(limit))
        if self._heading or not self._busy:
            self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._relax()
        self._heading, self._in_body = False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body:
            self._expect()

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def give_way(self) -> None:
        """Closes a connection that is waiting for its client; says why if it has begun to send."""
        self._relax()
        if self._heading:
            self._hang_up(HEADER_TIMEOUT)
        else:
            self.transport.close()

    def _expect(self) -> None:
        """Begins to wait for what the client owes, unless that has begun before."""
        if self._deadline is None and not self.transport.is_closing():
            seconds = self._open_connections.header_timeout
            self._deadline = self.loop.call_later(seconds, self._overdue)
            if not self._busy:
                self._open_connections.wait(self, self._address)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._open_connections.end_wait(self, self._address)

    def _overdue(self) -> None:
        if self._busy:  # the headers of the next request: this one has its answer first
            self.cycle.keep_alive = False
            self._relax()
        else:
            self.give_way()

    def _hang_up(self, problem: Problem) -> None:
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
