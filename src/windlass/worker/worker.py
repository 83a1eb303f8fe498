"""`Worker`: registers its functions with gateways and runs their calls."""

import asyncio
import contextlib
import contextvars
import logging
import signal
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionResponse
from windlass.errors import ConfigError, ToolError
from windlass.events import RunEvent, ToolRunProgress
from windlass.jsontext import compact_json
from windlass.loop.approval import Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext, ToolExecutor, ToolJob
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
    CallRefused,
    Farewell,
    HostCall,
    Pong,
    Progress,
    Result,
    ToolSpec,
    decode,
    encode,
    spec_of,
)
from windlass.toolsets.remote.host import HOST_SECONDS
from windlass.toolsets.remote.toolset import DEFAULT_SERVER

log = logging.getLogger("windlass.worker")

ANNOUNCE_SECONDS = 2.0
TICK_SECONDS = 0.25
PAUSE_SECONDS = 1.0
"""A worker that is inactive for longer was paused, for example by SIGSTOP or a suspended machine.
Callers may have given up calls that arrived meanwhile."""
CATCH_UP_SECONDS = 10.0
MAX_ANSWERS = 1_000
MAX_ANSWER_BYTES = 1 << 20
"""The maximum size of a stored answer. For a larger one, only an error is stored."""


class _RunningJob:
    """A call of this worker, and the subjects for its answer."""

    task: asyncio.Task[None]

    def __init__(self, call: Call, reply: str, age: float) -> None:
        """`age` is the maximum time since the caller sent it."""
        self.call, self.replies = call, [reply]
        self.deadline: float | None = None
        """A time of the event loop."""
        if call.seconds is not None:
            self.deadline = asyncio.get_running_loop().time() - age + call.seconds
        self._begun = self._cancelled = False

    def repeated(self, call: Call, reply: str) -> None:
        """Adds another caller of the same call. The earlier one may have exited, with its token."""
        self.call = call
        if reply not in self.replies:
            self.replies.append(reply)

    def begin(self) -> None:
        """Marks the job as started. Raises `CancelledError` if it was cancelled before."""
        self._begun = True
        if self._cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        # A task that is cancelled before its first step would send no answer.
        if self._begun:
            self.task.cancel()
        self._cancelled = True

    def seconds_left(self) -> float | None:
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


class _Executor(ToolExecutor):
    """Executes one call, and notes whether its failure may be temporary."""

    retryable = False

    async def execute(self, job: ToolJob) -> ToolAnswer:
        try:
            return await super().execute(job)
        except Exception as error:
            # Only an idempotent tool may run again.
            repeatable = job.tool is not None and job.tool.options.idempotent
            self.retryable = repeatable and (not isinstance(error, ToolError) or error.retryable)
            raise


class _PauseClock:
    """Detects that the process was paused: the time since the last check is too long."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self.pause = 0.0
        """By how much a received message can be older than usual."""
        self.catching_up: asyncio.Task[None] | None = None

    def paused(self) -> bool:
        """Whether a pause has ended since the last check."""
        now = time.monotonic()
        gap, self._looked = now - self._looked, now
        if gap < PAUSE_SECONDS:
            return False
        self.pause += gap
        return self.catching_up is None

    def caught_up(self) -> None:
        self.pause, self.catching_up = 0.0, None


class _GivenAnswers:
    """The last answers by the keys of their calls, so that a repeated call does not run again."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    def to(self, key: str) -> bytes | None:
        return self._answers.get(key)

    def keep(self, call: Call, data: bytes) -> None:
        if len(data) > MAX_ANSWER_BYTES:
            text = f"the answer was lost, and its {len(data)} bytes were too large to store"
            data = encode(Result(response=_failure(call, text), outcome="error"))
        self._answers[call.key] = data
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        self._answers.clear()


class Worker:
    """Serves tools inside an `async with` block: registers at its start, leaves at its end."""

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
        """`connection` is passed to `nats.connect`. Raises `ConfigError` for invalid tools."""
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
        self._policy = Policy(tool_timeout=None)
        self._connection: Connection | None = None
        self._dependencies = Dependencies()
        self._announcing: asyncio.Task[None] | None = None
        self._calls: dict[str, _RunningJob] = {}
        self._clock = _PauseClock()
        self._answers = _GivenAnswers()
        self._sending: set[asyncio.Task[None]] = set()
        self._leaving = False
        self.ended = asyncio.Event()
        """Set when the session has ended."""

    @property
    def names(self) -> list[str]:
        """The names of its tools."""
        return list(self._tools)

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection

    async def connect(self) -> None:
        """Waits until a NATS server answers. Entering the context does this too.

        Raises `ConfigError` for permanent errors: a refused user, an invalid address, TLS.
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
        log.info("worker %s serves %d tools", self.id, len(self._specs))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Announces the departure, stops running calls, and closes the connection."""
        connection = self._connected
        assert self._announcing is not None
        self._announcing.cancel()
        self._leaving = True
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
                    raise BadFrame(f"unknown verb {verb!r}")
        except BadFrame as error:
            log.warning("refused a message: %s", error)
            if message.reply:
                await message.respond(encode(CallRefused(reason=str(error))))

    async def _called(self, call: Call, reply: str) -> None:
        """Starts a call. If its key is known, this caller gets the existing answer."""
        if not reply:
            raise BadFrame("a call needs a reply subject")
        if (given := self._answers.to(call.key)) is not None:
            await self._send(reply, given)
        elif (job := self._calls.get(call.key)) is not None:
            job.repeated(call, reply)
        elif call.name not in self._tools:
            await self._send(reply, encode(CallRefused(reason=f"this worker has no {call.name!r}")))
        elif self._leaving or (not call.queue and self._places.locked()):
            await self._send(reply, encode(Busy()))
        else:
            self._note_pause()
            job = self._calls[call.key] = _RunningJob(call, reply, self._clock.pause)
            job.task = asyncio.create_task(self._answered(job))

    async def _answered(self, job: "_RunningJob") -> None:
        call = job.call
        try:
            frame = await self._frame(job)
        except asyncio.CancelledError:
            frame = Result(response=_failure(call, "stopped"), outcome="stopped")
        finally:
            del self._calls[call.key]
        data = encode(frame)
        limit = self._connected.max_payload
        if len(data) > limit:
            text = f"the result has {len(data)} bytes; the NATS server accepts {limit}"
            data = encode(Result(response=_failure(call, text), outcome="error"))
        # A repeated call runs again if it was refused or stopped, or if it may succeed later.
        if isinstance(frame, Result) and frame.outcome != "stopped" and not frame.retryable:
            self._answers.keep(call, data)
        if self._sending:
            await asyncio.wait(self._sending)  # send its progress reports before its answer
        for reply in job.replies:
            await self._send(reply, data)

    async def _frame(self, job: "_RunningJob") -> Result | CallRefused:
        """Runs the call, unless its caller has given up."""
        job.begin()
        if (catching_up := self._clock.catching_up) is not None:
            await asyncio.wait([catching_up])  # a cancel may follow the call
        async with self._places:
            if job.seconds_left() == 0:
                return CallRefused(reason="its deadline passed before it could start")
            return await self._run(job)

    async def _run(self, job: "_RunningJob") -> Result:
        """The result of the tool, by the same rules as in the loop."""
        call, left = job.call, job.seconds_left()
        asked = FunctionCall(call.name, call.arguments, call.call_id or call.key)
        run = RunContext(
            run_id=call.run_id,
            tools=self._tools,
            policy=replace(self._policy, tool_timeout=left),
            emit=lambda event: self._on_event(job, event),
            approvals=Approvals(None, wait=False, timeout=1.0),
            dependencies=self._dependencies,
            slots=asyncio.Semaphore(1),
            deadline=job.deadline,
        )
        loop = asyncio.get_running_loop()
        current_host.set((loop, lambda name, arguments: self._host(job, name, arguments)))
        executor = _Executor()
        [answer] = await answers_to([asked], executor, run, call.round)
        return Result(
            response=answer.response,
            outcome=answer.outcome,
            retryable=executor.retryable,
            effect_unknown=answer.effect_unknown,
        )

    def _on_event(self, job: "_RunningJob", event: RunEvent) -> None:
        if isinstance(event, ToolRunProgress):
            frame = Progress(progress=event.progress, message=event.message, data=event.data)
            for reply in job.replies:
                task = asyncio.create_task(self._send(reply, encode(frame)))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    async def _host(self, job: "_RunningJob", name: str, arguments: dict[str, Any]) -> Any:
        call, left = job.call, job.seconds_left()
        if not call.token:
            raise ToolError("this host has no tools for workers (host_tools)")
        frame = HostCall(
            key=call.key, name=name, arguments=compact_json(arguments), token=call.token
        )
        try:
            data = await self._connected.request(
                subjects.host(self.session),
                encode(frame),
                HOST_SECONDS if left is None else left,
            )
        except (NatsError, TimeoutError) as error:
            raise ToolError(f"the host did not answer: {error}") from error
        match decode(data, REPLY):
            case Result(outcome="ok", response=response):
                return response.output
            case Result(response=response):
                raise ToolError(response.error or f"{name} failed on the host")
            case CallRefused(reason=reason):
                raise ToolError(reason)
            case _:
                raise ToolError(f"the host sent no result for {name}")

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
        """After a pause of this process, calls wait until all pending messages are read."""
        if self._clock.paused():
            self._clock.catching_up = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Reads all messages from the pause. The second ping shows that they were handled."""
        for _ in range(2):
            while not await self._connected.server_answers(CATCH_UP_SECONDS):
                if self._connected.closed:
                    return
                await asyncio.sleep(TICK_SECONDS)
        self._clock.caught_up()

    async def _send(self, reply: str, data: bytes) -> None:
        try:
            await self._connected.publish(reply, data)
        except NatsError as error:
            log.warning("cannot send an answer: %s", error)


def serve(
    tools: Iterable[Any], *, on_start: Callable[[str], None] | None = None, **options: Any
) -> None:
    """Runs a worker until SIGINT, SIGTERM or the end of its session.

    The options are those of `Worker`. `on_start` is called with a message when the worker has
    registered. Raises `ConfigError`.
    """
    asyncio.run(_serve(Worker(tools, **options), on_start))


async def _serve(worker: Worker, on_start: Callable[[str], None] | None) -> None:
    loop = asyncio.get_running_loop()
    _end_on_signals(loop, worker.ended.set)
    if not await _connected(worker):
        return
    async with worker:
        if on_start is not None:
            on_start(f"{worker.id} serves {', '.join(worker.names)} (session {worker.session})")
        await worker.ended.wait()


def _end_on_signals(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(end)

    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, end)
        except NotImplementedError:  # the event loop of Windows
            signal.signal(name, handle)


async def _connected(worker: Worker) -> bool:
    """Waits for NATS. Returns False if a signal arrives first."""
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
    """The tool without the options that the caller applies: approval, cache, retries, order."""
    options = replace(
        tool.options, approve=False, cache=None, retries=0, serial=False, after=(), timeout=None
    )
    return tool.replace(options=options)


def _failure(call: Call, text: str) -> FunctionResponse:
    return FunctionResponse(call.name, {"error": text}, call.call_id or call.key)


HostCaller = Callable[[str, dict[str, Any]], Awaitable[Any]]

current_host: contextvars.ContextVar[tuple[asyncio.AbstractEventLoop, HostCaller] | None] = (
    contextvars.ContextVar("windlass_worker_host", default=None)
)


async def call_host_async(name: str, /, **arguments: Any) -> Any:
    """Calls a tool of the host and returns its value. Raises `ToolError`, also outside a call."""
    return await _caller()[1](name, arguments)


def call_host(name: str, /, **arguments: Any) -> Any:
    """`call_host_async` for sync tools."""
    loop, caller = _caller()

    async def call() -> Any:
        return await caller(name, arguments)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()


def _caller() -> tuple[asyncio.AbstractEventLoop, HostCaller]:
    found = current_host.get()
    if found is None:
        raise ToolError("no host: call_host works only inside a worker's tool")
    return found
