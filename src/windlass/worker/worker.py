"""`Worker`: registers its functions at its start, all at once, and runs what it is asked for."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from windlass.content import FunctionCall
from windlass.errors import ConfigError, ToolError
from windlass.events import RunEvent, ToolRunProgress
from windlass.jsontext import compact_json
from windlass.loop.approval import Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext, ToolExecutor
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.messaging.connection import Connection, Msg, NatsError, connect_patiently
from windlass.reply import ToolAnswer
from windlass.tool import Tool, as_tools
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.frames import (
    CALL,
    CANCEL,
    REPLY,
    Announcement,
    BadFrame,
    Busy,
    Call,
    Farewell,
    HostCall,
    Pong,
    Progress,
    Refused,
    Result,
    ToolSpec,
    decode,
    encode,
    spec_of,
)
from windlass.toolsets.remote.toolset import DEFAULT_SERVER
from windlass.worker.answers import GivenAnswers, failure
from windlass.worker.host import current_host

log = logging.getLogger("windlass.worker")

ANNOUNCE_SECONDS = 2.0
TICK_SECONDS = 0.25
PAUSE_SECONDS = 1.0
"""A worker that does nothing for longer than this was paused, as by SIGSTOP or a suspended machine:
calls that came meanwhile may have been given up."""
CATCH_UP_SECONDS = 10.0
HOST_SECONDS = 300.0


class _Job:
    """A call that this worker has, and where its answer goes."""

    task: asyncio.Task[None]

    def __init__(self, call: Call, reply: str, age: float) -> None:
        """`age` is how long ago the caller may have sent it, at most."""
        self.call, self.replies = call, [reply]
        self.deadline: float | None = None
        """By the clock of the event loop."""
        if call.seconds is not None:
            self.deadline = asyncio.get_running_loop().time() - age + call.seconds
        self._begun = self._cancelled = False

    def begin(self) -> None:
        """Raises `CancelledError` if it was cancelled before."""
        self._begun = True
        if self._cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        # A task that is cancelled before its first step would not get to its answer.
        if self._begun:
            self.task.cancel()
        self._cancelled = True

    def seconds_left(self) -> float | None:
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


class _PauseClock:
    """Finds out that this process was paused: nothing has looked at the clock for too long."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self.pause = 0.0
        """How old a message may be that is read now, beyond the usual."""
        self.catching_up: asyncio.Task[None] | None = None

    def paused(self) -> bool:
        """Whether a pause has ended since the last look."""
        now = time.monotonic()
        gap, self._looked = now - self._looked, now
        if gap < PAUSE_SECONDS:
            return False
        self.pause += gap
        return self.catching_up is None

    def caught_up(self) -> None:
        self.pause, self.catching_up = 0.0, None


class Worker:
    """Use it as `async with`: it has registered when that begins, and leaves when it ends."""

    def __init__(
        self,
        tools: Iterable[Any],
        *,
        nats: str | Sequence[str] = DEFAULT_SERVER,
        session: str = "default",
        max_running: int = 16,
        worker_id: str | None = None,
        on_session_end: Callable[[], None] | None = None,
        **connection: Any,
    ) -> None:
        """`connection` goes to `nats.connect`. Raises `ConfigError` for what cannot be served."""
        self.session = subjects.check_token(session, "a session")
        self.id = subjects.check_token(worker_id or subjects.new_id("worker"), "a worker's id")
        self._tools = {tool.name: _bare(tool) for tool in as_tools(tools)}
        self._specs: tuple[ToolSpec, ...] = tuple(spec_of(tool) for tool in as_tools(tools))
        if not self._specs:
            raise ConfigError("a worker needs at least one tool")
        self._servers, self._options = nats, connection
        self._max_running = max_running
        self._places = asyncio.Semaphore(max_running)
        self._on_session_end = on_session_end
        self._executor = ToolExecutor()
        self._policy = Policy(tool_timeout=None)
        self._connection: Connection | None = None
        self._dependencies = Dependencies()
        self._announcing: asyncio.Task[None] | None = None
        self._calls: dict[str, _Job] = {}
        self._clock = _PauseClock()
        self._answers = GivenAnswers()
        self._sending: set[asyncio.Task[None]] = set()
        self._leaves = False
        self.ended = asyncio.Event()
        """Set when the session is over."""

    @property
    def names(self) -> list[str]:
        """Its tools."""
        return list(self._tools)

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection

    async def connect(self) -> None:
        """Waits until a NATS server answers; entering the context does so by itself.

        Raises `ConfigError` for what cannot heal: a refused user, a bad address, TLS.
        """
        if self._connection is None:
            # Answers to host calls: an inbox that only users of this session may read.
            options = {"inbox_prefix": subjects.inbox(self.session), **self._options}
            self._connection = await connect_patiently(
                self._servers, f"windlass worker {self.id}", options
            )

    async def __aenter__(self) -> "Worker":
        await self.connect()
        connection = self._connected
        connection.on_return = self._announce
        await self._dependencies.__aenter__()
        inbox = subjects.to_worker(self.session, self.id, "*")
        await connection.subscribe(inbox, self._on_message)
        for subject in (subjects.hello(), subjects.hello(self.session)):
            await connection.subscribe(subject, self._on_hello)
        await connection.subscribe(subjects.session_end(self.session), self._on_end)
        await self._announce()
        await connection.flush()
        self._announcing = asyncio.create_task(self._keep_announcing())
        log.info("Worker %s serves %d tools", self.id, len(self._specs))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Says farewell, lets the calls that go on end as stopped, and closes."""
        connection = self._connected
        assert self._announcing is not None
        self._announcing.cancel()
        self._leaves = True
        with contextlib.suppress(NatsError):
            farewell = Farewell(worker=self.id, session=self.session)
            await connection.publish(subjects.announce(self.session, self.id), encode(farewell))
        running = list(self._calls.values())
        for job in running:
            job.cancel()
        await asyncio.gather(*(job.task for job in running), return_exceptions=True)
        await self._dependencies.__aexit__(None, None, None)
        await connection.close()

    async def _on_message(self, message: Msg) -> None:
        verb = message.subject.rsplit(".", 1)[1]
        try:
            match verb:
                case "ping":
                    await message.respond(encode(Pong(reconnects=self._connected.reconnects)))
                case "call":
                    await self._called(decode(message.data, CALL), message.reply)
                case "cancel":
                    job = self._calls.get(decode(message.data, CANCEL).key)
                    if job is not None:
                        job.cancel()
                case _:
                    raise BadFrame(f"there is no verb {verb!r}")
        except BadFrame as error:
            log.warning("A message was refused: %s", error)
            if message.reply:
                await message.respond(encode(Refused(reason=str(error))))

    async def _called(self, call: Call, reply: str) -> None:
        """Begins a call, unless its key is known: then its one answer goes to this caller too."""
        if not reply:
            raise BadFrame("a call says where its answer goes")
        if (given := self._answers.to(call.key)) is not None:
            await self._say(reply, given)
        elif (job := self._calls.get(call.key)) is not None:
            if reply not in job.replies:
                job.replies.append(reply)
        elif call.name not in self._tools:
            await self._say(reply, encode(Refused(reason=f"this worker has no {call.name!r}")))
        elif self._leaves or (not call.queue and self._places.locked()):
            await self._say(reply, encode(Busy()))
        else:
            self._note_pause()
            job = self._calls[call.key] = _Job(call, reply, self._clock.pause)
            job.task = asyncio.create_task(self._answered(job))

    async def _answered(self, job: "_Job") -> None:
        call = job.call
        try:
            frame = await self._frame(job)
        except asyncio.CancelledError:
            frame = Result(response=failure(call, "stopped"), outcome="stopped")
        finally:
            del self._calls[call.key]
        data = encode(frame)
        most = self._connected.max_payload
        if len(data) > most:
            text = f"the result takes {len(data)} bytes; the server takes {most}"
            data = encode(Result(response=failure(call, text), outcome="error"))
        # A call that was refused or stopped may be repeated, and is run then.
        if isinstance(frame, Result) and frame.outcome != "stopped":
            self._answers.keep(call, data)
        if self._sending:
            await asyncio.wait(self._sending)  # what it has reported comes before its answer
        for reply in job.replies:
            await self._say(reply, data)

    async def _frame(self, job: "_Job") -> Result | Refused:
        """Runs the call, unless nobody waits for it any more."""
        job.begin()
        if (catching_up := self._clock.catching_up) is not None:
            await asyncio.wait([catching_up])  # a cancel may have come behind the call
        async with self._places:
            if job.seconds_left() == 0:
                return Refused(reason="its deadline had passed before it could begin")
            answer = await self._run(job)
        return Result(response=answer.response, outcome=answer.outcome)

    async def _run(self, job: "_Job") -> ToolAnswer:
        """The answer of the tool, by the same rules as in the loop itself."""
        call, left = job.call, job.seconds_left()
        said = FunctionCall(call.name, call.arguments, call.call_id or call.key)
        run = RunContext(
            run_id=call.run_id,
            tools=self._tools,
            policy=replace(self._policy, tool_timeout=left),
            emit=lambda event: self._told(job, event),
            approvals=Approvals(None, wait=False, timeout=1.0),
            dependencies=self._dependencies,
            slots=asyncio.Semaphore(1),
            deadline=job.deadline,
        )
        loop = asyncio.get_running_loop()
        current_host.set((loop, lambda name, arguments: self._host(call, name, arguments)))
        [answer] = await answers_to([said], self._executor, run, call.round)
        return answer

    def _told(self, job: "_Job", event: RunEvent) -> None:
        if isinstance(event, ToolRunProgress):
            frame = Progress(progress=event.progress, message=event.message, data=event.data)
            for reply in job.replies:
                task = asyncio.create_task(self._say(reply, encode(frame)))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    async def _host(self, call: Call, name: str, arguments: dict[str, Any]) -> Any:
        frame = HostCall(key=call.key, name=name, arguments=compact_json(arguments))
        try:
            data = await self._connected.request(
                subjects.host(self.session), encode(frame), call.seconds or HOST_SECONDS
            )
        except (NatsError, TimeoutError) as error:
            raise ToolError(f"the host did not answer: {error}") from error
        match decode(data, REPLY):
            case Result(outcome="ok", response=response):
                return response.output
            case Result(response=response):
                raise ToolError(response.error or f"{name} failed on the host")
            case Refused(reason=reason):
                raise ToolError(reason)
            case _:
                raise ToolError(f"the host gave no answer to {name}")

    async def _on_hello(self, message: Msg) -> None:
        await self._announce()

    async def _on_end(self, message: Msg) -> None:
        for job in list(self._calls.values()):
            job.cancel()
        self._answers.clear()
        if self._on_session_end is not None:
            self._on_session_end()
        self.ended.set()

    async def _announce(self) -> None:
        frame = Announcement(
            worker=self.id,
            session=self.session,
            tools=self._specs,
            max_running=self._max_running,
            running=len(self._calls),
        )
        await self._connected.publish(subjects.announce(self.session, self.id), encode(frame))

    async def _keep_announcing(self) -> None:
        loop = asyncio.get_running_loop()
        announced = loop.time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._note_pause()
            if loop.time() - announced >= ANNOUNCE_SECONDS:
                announced = loop.time()
                with contextlib.suppress(NatsError):
                    await self._announce()

    def _note_pause(self) -> None:
        """After a pause of this process, calls wait until every waiting message is read."""
        if self._clock.paused():
            self._clock.catching_up = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Reads all that came during the pause: the second ping shows that it was acted on."""
        for _ in range(2):
            while not await self._connected.server_answers(CATCH_UP_SECONDS):
                if self._connected.closed:
                    return
                await asyncio.sleep(TICK_SECONDS)
        self._clock.caught_up()

    async def _say(self, reply: str, data: bytes) -> None:
        try:
            await self._connected.publish(reply, data)
        except NatsError as error:
            log.warning("An answer could not be sent: %s", error)


def serve(
    tools: Iterable[Any], *, on_start: Callable[[str], None] | None = None, **options: Any
) -> None:
    """Runs a worker until it is told to stop (SIGINT, SIGTERM) or its session is over.

    The options are those of `Worker`; `on_start` is told in a sentence when it has registered.
    Raises `ConfigError`.
    """
    asyncio.run(_serve(Worker(tools, **options), on_start))


async def _serve(worker: Worker, on_start: Callable[[str], None] | None) -> None:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, worker.ended.set)
    if not await _connected(worker):
        return
    async with worker:
        if on_start is not None:
            on_start(f"{worker.id} serves {', '.join(worker.names)} (session {worker.session})")
        await worker.ended.wait()


async def _connected(worker: Worker) -> bool:
    """Waits for NATS; False if a signal comes first."""
    connecting = asyncio.create_task(worker.connect())
    ending = asyncio.create_task(worker.ended.wait())
    try:
        await asyncio.wait((connecting, ending), return_when=asyncio.FIRST_COMPLETED)
        if connecting.done():
            connecting.result()
        return connecting.done()
    finally:
        for task in (connecting, ending):
            task.cancel()
        await asyncio.wait((connecting, ending))


def _bare(tool: Tool) -> Tool:
    """The tool without what the caller sees to: approval, caching, retries, order."""
    options = replace(
        tool.options, approve=False, cache=None, retries=0, serial=False, after=(), timeout=None
    )
    return tool.replace(options=options)
