"""The pending calls of workers. A call is sent until it is answered or its worker is lost.

Messages can be lost with a connection, on either side. A call is therefore sent again when needed.
A worker that knows its key repeats the answer and does not run the tool again.
"""

import asyncio
import logging
from collections.abc import Callable

from windlass.content import FunctionResponse
from windlass.errors import ToolError
from windlass.messaging.connection import Connection, Msg, is_no_responders
from windlass.tool import ToolContext
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.directory import SessionWorker
from windlass.toolsets.remote.frames import (
    PONG,
    REPLY,
    BadFrame,
    Busy,
    Call,
    CallRefused,
    Pong,
    Progress,
    Result,
    ToolSpec,
    decode,
)
from windlass.toolsets.remote.presence import SILENT_SECONDS

log = logging.getLogger("windlass.remote")

RETURN_SECONDS = 0.5
"""How long a worker may be away, for example to reconnect, before a call that must not run twice
counts as lost. Other calls go to another worker at once."""
RETURN_AFTER_BREAK = 10.0
"""How long workers have to return after the gateway lost its own connection: they may have lost
theirs."""
AGAIN_SECONDS = 30.0
"""How often a call is sent again in any case, because messages can be lost unnoticed."""

Answer = Result | Busy | CallRefused


class Lost(Exception):
    """The worker was lost: no other worker knows what became of the call."""

    how = "was lost"


class Stopped(Lost):
    """The worker stopped and ended the call."""

    how = "was stopped"


class Unreadable(Lost):
    """The worker sent an invalid answer: the tool may have run."""

    how = "sent an unreadable answer"


class NotDelivered(Lost):
    """The worker had left before the call reached it: the tool did not run."""


class _Pending:
    """A call that has no answer yet."""

    def __init__(
        self,
        member: SessionWorker,
        call: Call,
        data: bytes,
        reply: str,
        context: ToolContext | None,
        again: bool,
    ) -> None:
        self.member, self.context, self.again = member, context, again
        self.key, self.token = call.key, call.token
        self.data, self.reply = data, reply
        self.sent = 0
        """How often the call was sent."""
        self.sent_at = 0.0
        """When it was last sent."""
        self.first_sent_at = 0.0
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def lose(self, error: Lost) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingCalls:
    """The pending calls of one gateway. `left` is called with each worker that does not answer."""

    def __init__(
        self,
        gateway: str,
        left: Callable[[SessionWorker], None],
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._gateway, self._left, self._clock = gateway, left, clock
        self._pending: dict[int, _Pending] = {}
        self._by_token: dict[str, _Pending] = {}
        self._pings: dict[int, tuple[SessionWorker, float]] = {}
        """Unanswered pings, and when they were sent."""
        self._count = 0
        self._broken_at = float("-inf")

    @property
    def sessions(self) -> set[str]:
        """The sessions with pending calls."""
        return {pending.member.session for pending in self._pending.values()}

    async def ask(
        self,
        connection: Connection,
        member: SessionWorker,
        call: Call,
        data: bytes,
        context: ToolContext | None,
        *,
        again: bool,
    ) -> Answer:
        """The answer to a call; `again`: whether another worker may run it a second time.

        `data` is the encoded call.

        Raises `Lost` and `NatsError`.
        """
        number, reply = self._next(member)
        pending = self._pending[number] = _Pending(member, call, data, reply, context, again)
        if call.token:
            self._by_token[call.token] = pending
        member.in_flight += 1
        try:
            await self._send(connection, pending)
            return await pending.answer
        finally:
            member.in_flight -= 1
            del self._pending[number]
            self._by_token.pop(call.token, None)
            pending.answer.cancel()

    def with_token(self, token: str) -> "_Pending | None":
        """The pending call with this token."""
        return self._by_token.get(token)

    async def on_reply(self, connection: Connection, message: Msg) -> None:
        _, session, number = message.subject.rsplit(".", 2)
        if not number.isdigit():
            return
        lost = is_no_responders(message)
        if (ping := self._pings.pop(int(number), None)) is not None:
            await self._ponged(connection, ping[0], None if lost else _pong(message))
            return
        pending = self._pending.get(int(number))
        if pending is None or pending.member.session != session or pending.answer.done():
            return  # too late, or from another session
        if lost:
            if pending.sent == 1:  # otherwise the worker may have received it before
                pending.lose(NotDelivered())
            return
        pending.member.seen = self._clock()
        try:
            frame = decode(message.data, REPLY)
        except BadFrame as error:
            log.warning("invalid answer of worker %s: %s", pending.member.id, error)
            pending.lose(Unreadable())
            return
        if not isinstance(frame, Progress):
            pending.answer.set_result(frame)
        elif pending.context is not None:
            pending.context.report(frame.progress, frame.message, frame.data)

    async def check_workers(self, connection: Connection) -> None:
        """Finds lost workers, so that their calls do not wait forever."""
        now = self._clock()
        oldest = now - SILENT_SECONDS
        self._pings = {n: ping for n, ping in self._pings.items() if ping[1] > oldest}
        for member in {id(each.member): each.member for each in self._pending.values()}.values():
            if now - self._silent_since(member) > SILENT_SECONDS:
                self._lose(member)
            else:
                number, reply = self._next(member)
                self._pings[number] = member, now
                subject = subjects.to_worker(member.session, member.id, "ping")
                await connection.publish(subject, b"", reply)
        for pending in list(self._pending.values()):
            if now - pending.sent_at > AGAIN_SECONDS:
                await self._send(connection, pending)

    def break_ended(self) -> None:
        """Resets the timers after a time without messages, when workers seemed silent."""
        self._broken_at = now = self._clock()
        self._pings.clear()
        for pending in self._pending.values():
            pending.member.seen, pending.member.missing = now, None

    async def send_again(self, connection: Connection) -> None:
        """Sends all pending calls again after our own connection was lost."""
        self.break_ended()
        for pending in list(self._pending.values()):
            await self._send(connection, pending)

    async def _ponged(
        self, connection: Connection, member: SessionWorker, pong: Pong | None
    ) -> None:
        now = self._clock()
        if pong is not None:
            back = member.missing is not None or member.reconnects not in (None, pong.reconnects)
            member.seen, member.missing, member.reconnects = now, None, pong.reconnects
            for pending in self._at(member) if back else ():
                await self._send(connection, pending)
        elif member.missing is None:
            member.missing = now
            self._left(member)
            for pending in self._at(member):
                if pending.again and not self._after_break(now):
                    pending.lose(Lost())
        elif now - member.missing > RETURN_SECONDS and not self._after_break(now):
            self._lose(member)

    async def _send(self, connection: Connection, pending: _Pending) -> None:
        member = pending.member
        pending.sent += 1
        pending.sent_at = self._clock()
        if pending.sent == 1:
            pending.first_sent_at = pending.sent_at
        subject = subjects.to_worker(member.session, member.id, "call")
        await connection.publish(subject, pending.data, pending.reply)

    def _silent_since(self, member: SessionWorker) -> float:
        """When the worker last answered, or when it first had to."""
        return max(member.seen, min(pending.first_sent_at for pending in self._at(member)))

    def _after_break(self, now: float) -> bool:
        return now - self._broken_at < RETURN_AFTER_BREAK

    def _lose(self, member: SessionWorker) -> None:
        self._left(member)
        for pending in self._at(member):
            pending.lose(Lost())

    def _at(self, member: SessionWorker) -> list[_Pending]:
        return [pending for pending in self._pending.values() if pending.member is member]

    def _next(self, member: SessionWorker) -> tuple[int, str]:
        self._count += 1
        return self._count, subjects.reply(self._gateway, member.session, self._count)


def _pong(message: Msg) -> Pong:
    """The worker's pong. Any answer shows that it is alive."""
    try:
        return decode(message.data, PONG)
    except BadFrame:
        return Pong()


def repeatable(spec: ToolSpec) -> bool:
    """Whether an interrupted call may run again, with the same key."""
    return spec.idempotent or spec.on_interrupt == "retry"


def response_of(answer: Answer, spec: ToolSpec) -> FunctionResponse:
    """The tool's response. Raises `ToolError` for any other answer."""
    match answer:
        case Busy():
            raise ToolError(f"the worker of {spec.name} is busy")
        case CallRefused(reason=reason):
            raise ToolError(f"{spec.name} did not run: {reason}")
        case Result(outcome="ok", response=response):
            return response
        case Result(response=response):
            raise ToolError(
                response.error or f"{spec.name} failed",
                retryable=answer.retryable,
                effect_unknown=answer.effect_unknown,
            )
