"""The gateway's side: it knows who is there, sends calls, and sees to it that each is answered."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.content import FunctionResponse
from windlass.errors import ToolError
from windlass.jsontext import compact_json
from windlass.messaging.connection import (
    Connection,
    Msg,
    NatsError,
    connect,
    is_nobody,
)
from windlass.tool import Tool, ToolContext
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.directory import Directory, Member
from windlass.toolsets.remote.frames import (
    HOST_CALL,
    NOTICE,
    REPLY,
    Affinity,
    Announcement,
    BadFrame,
    Busy,
    Call,
    Cancel,
    HostCall,
    Progress,
    Refused,
    Result,
    ToolSpec,
    checked,
    decode,
    encode,
)

__all__ = ["Bridge", "HostHandler"]

log = logging.getLogger("windlass.remote")

DISCOVERY_SECONDS = 0.5
"""How long a session that nobody knows is asked for."""
WATCH_SECONDS = 0.2
"""How often workers that have calls are looked after: one that was killed is known after this."""
RETURN_SECONDS = 2.0
"""How long a worker may be away, as while its connection comes back, before a call counts as lost
that must not be made twice. Others are made elsewhere at once."""
SILENT_SECONDS = 5.0
"""How long one may say nothing, though its connection stands, before it counts as lost."""
MOST_ATTEMPTS = 3

HostHandler = Callable[[str, HostCall], Awaitable[Result | Refused]]


class _Lost(Exception):
    """The worker is gone, and with it what it knew of the call."""

    how = "was lost"


class _Stopped(_Lost):
    """The worker has ended in order, and the call with it."""

    how = "was stopped"


class _NotThere(_Lost):
    """The worker was gone before the call came to it: nothing has been begun."""


class _Pending:
    """A call that waits for its answer."""

    def __init__(
        self, member: Member, data: bytes, reply: str, context: ToolContext | None, again: bool
    ) -> None:
        """`again` says whether it may be made a second time, elsewhere."""
        self.member, self.context, self.again = member, context, again
        self.data, self.reply = data, reply
        self.sent = 0
        """How often."""
        self.answer: asyncio.Future[Result | Busy | Refused] = (
            asyncio.get_running_loop().create_future()
        )

    def lose(self, error: _Lost) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Bridge:
    """One connection to NATS and the workers behind it. Belongs to one event loop."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        affinity: Affinity = "hint",
        on_host_call: HostHandler | None = None,
        session_ttl: float | None = None,
        **connection: Any,
    ) -> None:
        """`connection` goes to `nats.connect`: `user_credentials`, `tls` and the like."""
        self._servers = servers
        self._affinity: Affinity = affinity
        self._on_host_call = on_host_call
        self._session_ttl = session_ttl
        self._options = connection
        self._connection: Connection | None = None
        self._starting = asyncio.Lock()
        self._id = subjects.new_id("gateway")
        self._directory = Directory()
        self._pending: dict[int, _Pending] = {}
        self._pings: dict[int, Member] = {}
        self._count = 0
        self._news = asyncio.Event()
        self._used: dict[str, float] = {}
        self._tools: dict[str, dict[str, tuple[ToolSpec, Tool]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connects, once. Raises `ConfigError` if there is nobody at that address."""
        async with self._starting:
            if self._connection is not None:
                return
            connection = await connect(self._servers, "windlass gateway", self._options)
            connection.on_return = self._returned
            await connection.subscribe(subjects.any_announcement(), self._on_notice)
            await connection.subscribe(subjects.replies(self._id), self._on_reply)
            if self._on_host_call is not None:
                await connection.subscribe(subjects.host("*"), self._on_host, "hosts")
            await connection.publish(subjects.hello())
            await connection.flush()
            self._connection = connection
            self._watch = asyncio.create_task(self._look_after())

    async def aclose(self) -> None:
        for task in (self._watch, *self._tasks):
            if task is not None:
                task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def specs(self, session: str) -> list[ToolSpec]:
        """The session's tools, as its workers describe them; waits a moment for the first."""
        subjects.check_token(session, "a session")
        await self.start()
        self._touch(session)
        if not self._directory.members(session):
            await self._discover(session)
        return self._directory.tools(session)

    async def tools(self, session: str) -> list[Tool]:
        """The session's tools, ready to be run; one that has not changed is the same object."""
        made = self._tools.get(session, {})
        tools: dict[str, tuple[ToolSpec, Tool]] = {}
        for spec in await self.specs(session):
            known = made.get(spec.name)
            if known is None or known[0] != spec:
                known = spec, self._tool(session, spec)
            tools[spec.name] = known
        self._tools[session] = tools
        return [tool for _, tool in tools.values()]

    async def call(
        self, session: str, spec: ToolSpec, arguments: dict[str, Any], context: ToolContext | None
    ) -> FunctionResponse:
        """The answer of one of the session's workers. Raises `ToolError`.

        One that is lost on the way is tried elsewhere if the tool is idempotent.
        """
        await self.start()
        self._touch(session)
        key = context.call_key if context and context.run_id else subjects.new_id("call")
        tried: set[str] = set()
        while True:
            member = self._directory.pick(session, spec, self._affinity, tried)
            frame = self._frame(spec, arguments, context, key)
            try:
                return _response(await self._ask(member, spec, frame, context), spec)
            except _Lost as loss:
                self._directory.left(session, member.id)
                tried.add(member.id)
                safe = _repeatable(spec) and len(tried) < MOST_ATTEMPTS
                if not safe and not isinstance(loss, _NotThere):
                    raise ToolError(
                        f"{spec.name} was interrupted, effect unknown: the worker {member.id}"
                        f" {loss.how}",
                        effect_unknown=not spec.idempotent,
                    ) from None
                log.info("A worker was lost, trying another", extra={"tool": spec.name})

    async def end_session(self, session: str) -> None:
        """Tells the session's workers that it is over, and forgets it."""
        self._directory.forget(session)
        self._used.pop(session, None)
        self._tools.pop(session, None)
        if self._connection is not None:
            await self._connection.publish(subjects.session_end(session))

    def _tool(self, session: str, spec: ToolSpec) -> Tool:
        """A worker's tool as one that runs here: the call goes to wherever the worker is."""

        # The name of the context's parameter is one that no worker's tool has for an argument.
        async def run(windlass_context: ToolContext, /, **arguments: Any) -> FunctionResponse:
            return await self.call(session, spec, arguments, windlass_context)

        run.__name__ = spec.name
        return Tool(spec.declaration(), run, options=spec.options())

    def _frame(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        context: ToolContext | None,
        key: str,
    ) -> Call:
        left = None
        if context is not None and context.deadline is not None:
            left = context.deadline - asyncio.get_running_loop().time()
        waits = [seconds for seconds in (spec.timeout, left) if seconds is not None]
        return Call(
            key=key,
            name=spec.name,
            arguments=compact_json(arguments),
            seconds=min(waits, default=None),
            queue=self._affinity != "strict_fail_fast",
            run_id=context.run_id if context else "",
            call_id=context.call_id if context else "",
            round=context.round if context else 1,
        )

    async def _ask(
        self, member: Member, spec: ToolSpec, frame: Call, context: ToolContext | None
    ) -> Result | Busy | Refused:
        connection = self._connected()
        data = encode(frame)
        if len(data) > connection.max_payload:
            raise ToolError(
                f"the arguments take {len(data)} bytes, and the NATS server takes"
                f" {connection.max_payload} (max_payload)"
            )
        number = self._number()
        reply = subjects.reply(self._id, member.session, number)
        pending = _Pending(member, data, reply, context, _repeatable(spec))
        self._pending[number] = pending
        member.in_flight += 1
        try:
            await self._send(pending)
            return await pending.answer
        except asyncio.CancelledError:
            await self._cancel(member, frame.key)
            raise
        except NatsError as error:
            raise ToolError(f"NATS failed: {error}") from error
        finally:
            member.in_flight -= 1
            del self._pending[number]

    async def _send(self, pending: _Pending) -> None:
        """Sends a call; a worker that knows it already answers it once more."""
        member = pending.member
        pending.sent += 1
        subject = subjects.to_worker(member.session, member.id, "call")
        await self._connected().publish(subject, pending.data, pending.reply)

    async def _returned(self) -> None:
        """The connection was lost: calls and answers may have been lost with it."""
        now = asyncio.get_running_loop().time()
        for member in self._directory.everybody():
            member.seen = now
        await self._connected().publish(subjects.hello())
        for pending in list(self._pending.values()):
            pending.member.seen, pending.member.missing = now, None
            await self._send(pending)

    async def _cancel(self, member: Member, key: str) -> None:
        if self._connection is not None and not self._connection.closed:
            subject = subjects.to_worker(member.session, member.id, "cancel")
            await self._connection.publish(subject, encode(Cancel(key=key)))

    async def _on_reply(self, message: Msg) -> None:
        _, session, number = message.subject.rsplit(".", 2)
        if not number.isdigit():
            return
        lost = is_nobody(message)
        if (member := self._pings.pop(int(number), None)) is not None:
            await self._ponged(member, lost)
            return
        pending = self._pending.get(int(number))
        if pending is None or pending.member.session != session or pending.answer.done():
            return  # too late, or not theirs to answer
        if lost:
            if pending.sent == 1:  # of one that was sent before, the worker may know
                pending.lose(_NotThere())
            return
        pending.member.seen = asyncio.get_running_loop().time()
        try:
            frame = decode(message.data, REPLY)
        except BadFrame as error:
            frame = Refused(reason=f"its worker answered with what is no answer: {error}")
        if not isinstance(frame, Progress):
            pending.answer.set_result(frame)
        elif pending.context is not None:
            pending.context.report(frame.progress, frame.message, frame.data)

    async def _on_notice(self, message: Msg) -> None:
        session, worker = subjects.worker_in(message.subject)
        try:
            notice = decode(message.data, NOTICE)
            if isinstance(notice, Announcement):
                known = self._directory.member(session, worker)
                if known is None or not known.repeated_by(notice):
                    checked(notice, session, worker)
        except BadFrame as error:
            log.warning("A worker of the session %s was refused: %s", session, error)
            if message.reply:
                await message.respond(encode(Refused(reason=str(error))))
            return
        if isinstance(notice, Announcement):
            if self._directory.heard(notice, asyncio.get_running_loop().time()):
                self._news.set()
        else:
            self._directory.left(session, worker)

    async def _on_host(self, message: Msg) -> None:
        session = message.subject.rsplit(".", 1)[1]
        task = asyncio.create_task(self._host(session, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _host(self, session: str, message: Msg) -> None:
        assert self._on_host_call is not None
        try:
            call = decode(message.data, HOST_CALL)
            answer = await self._on_host_call(session, call)
        except BadFrame as error:
            answer = Refused(reason=str(error))
        await message.respond(encode(answer))

    async def _discover(self, session: str) -> None:
        connection = self._connected()
        await connection.publish(subjects.hello(session))
        try:
            async with asyncio.timeout(DISCOVERY_SECONDS):
                while not self._directory.members(session):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass

    async def _look_after(self) -> None:
        """Finds workers that are gone: calls that they have would otherwise wait for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = loop.time()
            for member in self._directory.silent(now):
                self._directory.left(member.session, member.id)
            busy = {id(pending.member): pending.member for pending in self._pending.values()}
            for member in busy.values():
                if now - member.seen > SILENT_SECONDS:
                    self._lose(member)
                else:
                    await self._ping(member)
            await self._end_unused(now)

    async def _ping(self, member: Member) -> None:
        number = self._number()
        self._pings[number] = member
        try:
            await self._connected().publish(
                subjects.to_worker(member.session, member.id, "ping"),
                b"",
                subjects.reply(self._id, member.session, number),
            )
        except NatsError as error:
            log.warning("Workers cannot be looked after: %s", error)

    async def _ponged(self, member: Member, lost: bool) -> None:
        now = asyncio.get_running_loop().time()
        if not lost:
            member.seen = now
            if member.missing is not None:
                member.missing = None
                for pending in self._pending_at(member):
                    await self._send(pending)
        elif member.missing is None:
            member.missing = now
            self._directory.left(member.session, member.id)
            for pending in self._pending_at(member):
                if pending.again:
                    pending.lose(_Lost())
        elif now - member.missing > RETURN_SECONDS:
            self._lose(member)

    def _lose(self, member: Member) -> None:
        self._directory.left(member.session, member.id)
        for pending in self._pending_at(member):
            pending.lose(_Lost())

    def _pending_at(self, member: Member) -> list[_Pending]:
        return [pending for pending in self._pending.values() if pending.member is member]

    async def _end_unused(self, now: float) -> None:
        if self._session_ttl is None:
            return
        in_use = {pending.member.session for pending in self._pending.values()}
        for session, used in list(self._used.items()):
            if session not in in_use and now - used > self._session_ttl:
                await self.end_session(session)

    def _touch(self, session: str) -> None:
        self._used[session] = asyncio.get_running_loop().time()

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection


def _repeatable(spec: ToolSpec) -> bool:
    """Whether a call that was cut off may be made again, with the same key."""
    return spec.idempotent or spec.on_interrupt == "retry"


def _response(answer: Result | Busy | Refused, spec: ToolSpec) -> FunctionResponse:
    match answer:
        case Result(outcome="stopped"):
            raise _Stopped
        case Busy():
            raise ToolError(f"the worker of {spec.name} is busy")
        case Refused(reason=reason):
            raise ToolError(f"{spec.name} was not run: {reason}")
        case Result(outcome="ok", response=response):
            return response
        case Result(response=response, retryable=retryable):
            raise ToolError(response.error or f"{spec.name} failed", retryable=retryable)
