"""Calls of the host's tools by workers: each proves the call that it belongs to.

A call to a worker carries a token. A host call is accepted only with the token of a call that this
gateway has sent to a worker of that session and that has no result yet. NATS delivers a host call
to any gateway, so a token begins with the gateway's id, and other gateways forward the call.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from windlass.messaging.connection import Connection, Msg, NatsError
from windlass.tool import ToolContext
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.calls import PendingCalls
from windlass.toolsets.remote.frames import (
    HOST_CALL,
    BadFrame,
    CallRefused,
    HostCall,
    Result,
    decode,
    encode,
)

HOST_SECONDS = 300.0
"""How long a host call may take, if the worker's call has no deadline."""
NOT_PROVEN = "the token is not that of a running call of this session"


class HostCaller(NamedTuple):
    """Whose host call it is."""

    session: str
    context: ToolContext
    """The context of the worker's call, with the id of its run."""


HostHandler = Callable[[HostCaller, HostCall], Awaitable[Result | CallRefused]]


def new_token(gateway: str) -> str:
    return f"{gateway}.{secrets.token_urlsafe(24)}"


class HostCalls:
    """The host calls that one gateway answers, in one event loop."""

    def __init__(self, gateway: str, pending: PendingCalls, handler: HostHandler) -> None:
        self._gateway, self._pending, self._handler = gateway, pending, handler
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, connection: Connection) -> None:
        async def from_worker(message: Msg) -> None:
            self._begin(self._answer(connection, message, forward=True))

        async def from_gateway(message: Msg) -> None:
            self._begin(self._answer(connection, message, forward=False))

        await connection.subscribe(subjects.host("*"), from_worker, "hosts")
        await connection.subscribe(subjects.forward(self._gateway, "*"), from_gateway)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: Connection, message: Msg, *, forward: bool) -> None:
        session = message.subject.rsplit(".", 1)[1]
        try:
            call = decode(message.data, HOST_CALL)
            gateway = call.token.partition(".")[0]
            if gateway == self._gateway:
                data = encode(await self._result(session, call))
            elif forward and subjects.is_token(gateway):
                subject = subjects.forward(gateway, session)
                data = await connection.request(subject, message.data, HOST_SECONDS)
            else:
                raise BadFrame(NOT_PROVEN)
        except BadFrame as error:
            data = encode(CallRefused(reason=str(error)))
        except NatsError:  # no gateway has this id any more
            data = encode(CallRefused(reason=NOT_PROVEN))
        await message.respond(data)

    async def _result(self, session: str, call: HostCall) -> Result | CallRefused:
        """Runs the host call. Cancels it when the call that it belongs to ends."""
        pending = self._pending.with_token(call.token)
        if pending is None or pending.member.session != session or pending.key != call.key:
            raise BadFrame(NOT_PROVEN)
        caller = HostCaller(session, pending.context or ToolContext())
        running = asyncio.ensure_future(self._handler(caller, call))
        pending.answer.add_done_callback(lambda _: running.cancel())
        try:
            return await running
        except asyncio.CancelledError:
            if not pending.answer.done():
                raise
            return CallRefused(reason="the call that it belongs to has ended")
        finally:
            running.cancel()
