"""`Bridge`: connects a gateway to its workers. It finds workers, sends calls and awaits answers."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from windlass.content import FunctionResponse
from windlass.errors import ToolError
from windlass.jsontext import compact_json
from windlass.messaging.connection import Connection, Connector, Msg, NatsError, connect
from windlass.tool import Tool, ToolContext
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.calls import (
    Answer,
    Lost,
    NotDelivered,
    PendingCalls,
    Stopped,
    repeatable,
    response_of,
)
from windlass.toolsets.remote.directory import Directory, SessionWorker
from windlass.toolsets.remote.frames import (
    Affinity,
    Busy,
    Call,
    Cancel,
    Result,
    ToolSpec,
    encode,
)
from windlass.toolsets.remote.host import HostCalls, HostHandler, new_token
from windlass.toolsets.remote.presence import Presence

log = logging.getLogger("windlass.remote")

WATCH_SECONDS = 0.2
"""How often workers with calls are checked: a killed worker is detected after this time."""
MAX_ATTEMPTS = 3
PAUSE_SECONDS = 1.0
"""A check that comes this much too late was delayed by this process or by the server."""


class Bridge:
    """One connection to NATS and the workers behind it, for one event loop."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        affinity: Affinity = "hint",
        on_host_call: HostHandler | None = None,
        session_ttl: float | None = None,
        lasting: bool = True,
        **connection: Any,
    ) -> None:
        """`connection` is passed to `nats.connect`, such as `user_credentials` and `tls`.

        Unless `lasting`, it does not look for a lost server until its next use.
        """
        self._servers = servers
        self._affinity: Affinity = affinity
        self._session_ttl = session_ttl
        self._lasting = lasting
        self._options = connection
        self._connection: Connection | None = None
        self._connector = Connector(servers, "windlass gateway", connection)
        self._starting = asyncio.Lock()
        self._id = subjects.new_id("gateway")
        self._directory = Directory()
        self._presence = Presence(self._id, self._directory, affinity)
        self._calls = PendingCalls(
            self._id, lambda each: self._directory.left(each.session, each.id)
        )
        self._host_calls = (
            None if on_host_call is None else HostCalls(self._id, self._calls, on_host_call)
        )
        self._used: dict[str, float] = {}
        self._tools: dict[str, dict[str, tuple[ToolSpec, Tool]]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connects, once. Raises `NatsUnreachable` if no server answers, and `ConfigError`."""
        if self._connection is None and self._lasting:
            self._connector.check()
        async with self._starting:
            if self._connection is not None and not self._connection.closed:
                return
            if self._watch is not None:
                self._watch.cancel()
            if self._lasting:
                connection = await self._connector.connect()
            else:
                connection = await connect(self._servers, "windlass gateway", self._options)
            connection.on_return = self._returned
            connection.is_idle = lambda: not self._lasting and not self._calls.sessions
            await connection.subscribe(subjects.any_announcement(), self._presence.on_notice)
            await connection.subscribe(subjects.replies(self._id), self._on_reply)
            if self._host_calls is not None:
                await self._host_calls.start(connection)
            await connection.publish(subjects.hello())
            await connection.flush()
            self._connection = connection
            self._presence.forget()
            self._watch = asyncio.create_task(self._check_workers_forever())

    async def aclose(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._host_calls is not None:
            self._host_calls.cancel()
        self._presence.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def specs(self, session: str) -> list[ToolSpec]:
        """The session's tools, as its workers describe them; the first time, waits for all."""
        subjects.check_token(session, "a session")
        await self.start()
        self._touch(session)
        await self._presence.discover(self._connected(), session)
        return self._directory.tools(session)

    async def tools(self, session: str) -> list[Tool]:
        """The session's tools. An unchanged tool is the same object."""
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
        """The response of one of the session's workers. Raises `ToolError`.

        If the worker is lost, another one runs the call if the tool is repeatable.
        """
        await self.start()
        self._touch(session)
        key = context.call_key if context and context.run_id else subjects.new_id("call")
        tried: set[str] = set()
        absent = Counter[str]()
        while True:
            member = await self._presence.wait_for_worker(self._connected(), session, spec, tried)
            frame = self._frame(spec, arguments, context, key)
            try:
                return response_of(await self._ask(member, spec, frame, context), spec)
            except Lost as loss:
                self._directory.left(session, member.id)
                if isinstance(loss, NotDelivered):
                    absent[member.id] += 1
                    if absent[member.id] >= MAX_ATTEMPTS:
                        tried.add(member.id)
                else:
                    tried.add(member.id)
                    await self._give_up(member, key)
                safe = repeatable(spec) and len(tried) < MAX_ATTEMPTS
                if not safe and not isinstance(loss, NotDelivered):
                    raise ToolError(
                        f"{spec.name} was interrupted, effect unknown: the worker {member.id}"
                        f" {loss.how}",
                        effect_unknown=not spec.idempotent,
                    ) from None
                log.info("worker lost, trying another", extra={"tool": spec.name})

    async def end_session(self, session: str) -> None:
        """Ends the session: notifies its workers and forgets it."""
        self._directory.forget(session)
        self._presence.forget(session)
        self._used.pop(session, None)
        self._tools.pop(session, None)
        if self._connection is not None:
            await self._connection.publish(subjects.session_end(session))

    def _tool(self, session: str, spec: ToolSpec) -> Tool:
        """A tool that sends its calls to the session's workers."""

        # The name of the context parameter must not clash with an argument of a worker's tool.
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
            token=new_token(self._id) if self._host_calls is not None else "",
        )

    async def _ask(
        self, member: SessionWorker, spec: ToolSpec, frame: Call, context: ToolContext | None
    ) -> Answer:
        connection = self._connected()
        data = encode(frame)
        if len(data) > connection.max_payload:
            raise ToolError(
                f"the arguments have {len(data)} bytes, and the NATS server accepts"
                f" {connection.max_payload} (max_payload)"
            )
        try:
            answer = await self._calls.ask(
                connection, member, frame, data, context, again=repeatable(spec)
            )
        except asyncio.CancelledError:
            await self._cancel(member, frame.key)
            raise
        except NatsError as error:
            raise ToolError(f"NATS failed: {error}") from error
        if isinstance(answer, Busy) and frame.queue:  # the worker is leaving
            raise NotDelivered
        if isinstance(answer, Result) and answer.outcome == "stopped":
            raise Stopped
        return answer

    async def _returned(self) -> None:
        """Handles the return of our lost connection."""
        self._reset_silence()
        connection = self._connected()
        await connection.publish(subjects.hello())
        await self._calls.send_again(connection)

    def _reset_silence(self) -> None:
        """Restarts the timers of silent workers after a time in which no message could arrive."""
        now = asyncio.get_running_loop().time()
        for member in self._directory.all_members():
            member.seen = now

    async def _cancel(self, member: SessionWorker, key: str) -> None:
        """Cancels a call at its worker, so that the worker does not start it."""
        if self._connection is not None and not self._connection.closed:
            subject = subjects.to_worker(member.session, member.id, "cancel")
            with contextlib.suppress(NatsError):
                await self._connection.publish(subject, encode(Cancel(key=key)))

    async def _give_up(self, member: SessionWorker, key: str) -> None:
        """Cancels the call of a lost worker. Once this returns, a worker that wakes ignores it."""
        await self._cancel(member, key)
        if self._connection is not None:
            await self._connection.sent(PAUSE_SECONDS)

    async def _on_reply(self, message: Msg) -> None:
        await self._calls.on_reply(self._connected(), message)

    async def _check_workers_forever(self) -> None:
        loop = asyncio.get_running_loop()
        watched = loop.time()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            connection = self._connected()
            if not await connection.server_answers(PAUSE_SECONDS):
                continue  # no message of a worker arrives either
            before, watched = watched, loop.time()
            if watched - before > PAUSE_SECONDS:
                self._reset_silence()
                self._calls.break_ended()
                continue
            for member in self._directory.silent(watched):
                self._directory.left(member.session, member.id)
            try:
                await self._calls.check_workers(connection)
                await self._end_unused(watched)
            except NatsError as error:
                log.warning("cannot check the workers: %s", error)

    async def _end_unused(self, now: float) -> None:
        if self._session_ttl is None:
            return
        in_use = self._calls.sessions
        for session, used in list(self._used.items()):
            if session not in in_use and now - used > self._session_ttl:
                await self.end_session(session)

    def _touch(self, session: str) -> None:
        self._used[session] = asyncio.get_running_loop().time()

    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection
