"""Counts the subscribers of a NATS subject.

NATS has no request for it. Since version 2.11, a server reports where it would deliver a message
that asks for a trace, and it does not deliver a message that asks only for that.
"""

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from windlass.messaging.connection import Connection, Msg, NatsError

TRACES_SINCE = (2, 11)
TRACE_SECONDS = 1.0
_CLIENT = 0
"""The kind of a client's connection; the other kinds are servers."""


class _TraceEvent(Struct):
    type: str
    kind: int = _CLIENT
    hop: str = ""
    """Set if another server continues the trace."""
    error: str = ""


class Trace(Struct):
    """What one server reports."""

    events: list[_TraceEvent]

    @property
    def subscribers(self) -> int:
        delivered = (event for event in self._egress if event.kind == _CLIENT)
        return sum(1 for event in delivered if not event.error)

    @property
    def hops(self) -> int:
        """How many other servers report too."""
        return sum(1 for event in self._egress if event.hop)

    @property
    def _egress(self) -> list[_TraceEvent]:
        return [event for event in self.events if event.type == "eg"]


_TRACE = msgspec.json.Decoder(Trace)


async def count_subscribers(connection: Connection, subject: str, trace: str) -> int | None:
    """The number of subscriptions of clients to the subject; None if it cannot be known.

    `trace` is an unused subject for the reports, which this user must be allowed to publish to.
    """
    if connection.version < TRACES_SINCE:
        return None
    reports: asyncio.Queue[Msg] = asyncio.Queue()
    stop = await connection.subscribe(trace, reports.put)
    headers = {"Nats-Trace-Dest": trace, "Nats-Trace-Only": "true"}
    try:
        async with asyncio.timeout(TRACE_SECONDS):
            await connection.publish(subject, headers=headers)
            return await _total(reports)
    except (TimeoutError, NatsError, msgspec.DecodeError):
        return None
    finally:
        stop()


async def _total(reports: "asyncio.Queue[Any]") -> int:
    total, servers = 0, 1
    while servers:
        report = _TRACE.decode((await reports.get()).data)
        total += report.subscribers
        servers += report.hops - 1
    return total
