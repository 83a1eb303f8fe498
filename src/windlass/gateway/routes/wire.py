"""What all wires of the gateway share: reading a request, and answering it, streamed or at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace
from starlette.routing import Route

from windlass.errors import ConfigError, StorageError
from windlass.events import RunEvent, TextDelta
from windlass.gateway.config.values import YEAR_SECONDS
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    DIRECT,
    MAX_DIGITS,
    ClientGone,
    Exchange,
    Header,
    Receive,
    Scope,
    Send,
    disconnected,
    exchange_of,
    read_body,
    respond_json,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.runs.accepted_text import AcceptedText, holds_back
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.sessions import HEADER as SESSION_HEADER
from windlass.jsontext import LARGE, by_size
from windlass.loop.pace import in_slices
from windlass.pricing import exact
from windlass.reply import Reply
from windlass.request import RequestBudget, RequestLimits, RunRequest
from windlass.settings import Mode, mode_from
from windlass.time_limit import resumed
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.tokens import estimated_tokens

MAX_TEXTS_AT_ONCE = 8
"""Maximum number of texts that are sent in the step that publishes them."""
WATCH_DELAY = 0.1
"""Seconds before the gateway starts to watch for a disconnect."""
PREPARING_HEARTBEAT = 1.0
"""Seconds between the heartbeats of a stream while its model is not ready."""
CALL_SIZE = 256
"""Approximate bytes that a call adds to an answer."""
MODE_HEADER = b"x-function-calling-mode"
SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Wire(NamedTuple):
    """A protocol that the gateway serves."""

    routes: Callable[[Gateway], Sequence[Route]]
    paths: tuple[str, ...]
    """The prefixes of its paths. Errors of requests below them have its own form."""
    error_body: Callable[[Problem], bytes]
    endings: tuple[str, ...] = ()
    """The ends of its paths that have another prefix."""
    key_in_query: bool = False
    """Whether its clients send their key as `?key=KEY`."""
    header: bytes = b""
    """A header that only its clients send. They get its errors on paths of no wire, too."""

    def serves(self, path: str) -> bool:
        return path.startswith(self.paths) or path.endswith(self.endings)


class StreamWriter(Protocol):
    """Writes the events of one run for one client."""

    @property
    def heartbeat(self) -> bytes:
        """Sent when the run has no events for some time."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the answer ends here though the run has not ended: it waits for its client."""
        ...

    def begin(self) -> bytes:
        """The start of the stream."""
        ...

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """What these events add to the stream; often nothing."""
        ...

    def end(self, reply: Reply | None) -> bytes:
        """The end of the stream of a run that has an answer; None if it is paused."""
        ...

    def fail(self, problem: Problem) -> bytes:
        """The end of the stream of a run that failed after the stream began."""
        ...


class AnswerWriter(Protocol):
    """Writes the answer of a run on one wire."""

    def whole(self, run: GatewayRun) -> bytes:
        """The answer of an ended or paused run, as one JSON body."""
        ...

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        """Calls `pause` when the run waits for its client."""
        ...

    def stream(self, run: GatewayRun) -> StreamWriter: ...


async def read_run_request(
    gateway: Gateway,
    scope: Scope,
    receive: Receive,
    read: Callable[[bytes, RequestLimits], RunRequest],
) -> RunRequest:
    """Counts the request against its key's rate limit, and reads its body and its headers.

    Raises `Refused`, and `InvalidRequest`, which names the field.
    """
    body = await counted_body(gateway, scope, receive)
    request = await by_size(len(body), read, body, gateway.limits)
    return with_headers(request, exchange_of(scope))


async def counted_body(gateway: Gateway, scope: Scope, receive: Receive) -> bytes:
    """Counts the request against its key's rate limit, and reads its body. Raises `Refused`."""
    await gateway.admission.count(exchange_of(scope).key)
    return await read_body(scope, receive, gateway.config.limits.max_body_bytes)


def with_headers(request: RunRequest, exchange: Exchange) -> RunRequest:
    """The request with what its headers choose. Raises `InvalidRequest`."""
    mode, session = _requested_mode(exchange), exchange.header(SESSION_HEADER)
    if mode or session:
        request = replace(request, mode=mode, session=session)
    return with_budget(request, exchange)


def with_budget(request: RunRequest, exchange: Exchange) -> RunRequest:
    """The request with the budgets of its body or its headers. Raises `InvalidRequest`."""
    if not request.extra and BUDGET_HEADERS.isdisjoint(exchange.headers):
        return request
    given: dict[str, Any] = {}
    sent = dict.fromkeys(BUDGET_FIELDS)
    for name, (fields, header) in BUDGET_FIELDS.items():
        found = next((field for field in fields if field in request.extra), None)
        if found is not None:
            sent[name], given[name] = found, request.extra[found]
        elif value := exchange.header(header):
            sent[name], given[name] = header.decode(), value
    given = {name: value for name, value in given.items() if value is not None}
    if not any(sent.values()):
        return request
    extra = {name: value for name, value in request.extra.items() if name not in sent.values()}
    values = {
        name: BUDGET_READERS[name](value, sent[name] or name) for name, value in given.items()
    }
    return replace(request, extra=extra, budget=RequestBudget(**values))


def _count_from(value: Any, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS:
        value = int(value)
    elif type(value) is float and value.is_integer():
        value = int(value)  # in JSON, 1 and 1.0 are the same
    if type(value) is not int or value < 1:
        raise InvalidRequest(f"{name}: must be a whole number, 1 or more", name)
    return value


def _cost_from(value: Any, name: str) -> Decimal:
    try:
        cost = exact(value, name)
    except ConfigError:
        cost = Decimal(0)
    if not cost:
        raise InvalidRequest(f"{name}: must be a number above 0, at most 40 digits long", name)
    return cost


def _seconds_from(value: Any, name: str) -> float:
    seconds = float(_cost_from(value, name))
    if seconds > YEAR_SECONDS:
        raise InvalidRequest(f"{name}: must be at most one year, in seconds", name)
    return seconds


BUDGET_FIELDS: dict[str, tuple[tuple[str, ...], bytes]] = {
    "max_tokens_total": (
        ("max_tokens_total", "maxTokensTotal"),
        b"x-windlass-max-tokens-total",
    ),
    "max_cost": (("max_cost", "maxCost"), b"x-windlass-max-cost"),
    "timeout": (("timeout",), b"x-windlass-timeout"),
}
"""The fields of a body, on any wire, and the header of each budget."""
BUDGET_HEADERS = frozenset(header for _, header in BUDGET_FIELDS.values())
BUDGET_READERS: dict[str, Callable[[Any, str], Any]] = {
    "max_tokens_total": _count_from,
    "max_cost": _cost_from,
    "timeout": _seconds_from,
}


def _requested_mode(exchange: Exchange) -> Mode | None:
    value = exchange.header(MODE_HEADER)
    if not value:
        return None
    try:
        return mode_from(value, "X-Function-Calling-Mode")
    except ConfigError as error:
        raise InvalidRequest(str(error), "X-Function-Calling-Mode") from None


async def input_tokens(gateway: Gateway, request: RunRequest, scope: Scope) -> int:
    """Estimates the input tokens of a request, with the tools and the prompt of the gateway."""
    exchange = exchange_of(scope)
    served = gateway.registry.served(request.model, exchange.key)
    exchange.model = served.name
    plan, _ = await gateway.planning.new(request, exchange, served)
    return await by_size(request.size, estimated_tokens, plan.messages, plan.declarations)


async def answer(
    gateway: Gateway,
    request: RunRequest,
    scope: Scope,
    receive: Receive,
    send: Send,
    writer: AnswerWriter,
) -> None:
    """Starts the run of a request and sends its answer. Raises `Refused` and `ClientGone`."""
    exchange = exchange_of(scope)
    exchange.stream = request.live
    run = await gateway.start(request, exchange, receive)
    await answer_run(gateway, run, scope, receive, send, writer, live=request.live)


async def answer_run(
    gateway: Gateway,
    run: GatewayRun,
    scope: Scope,
    receive: Receive,
    send: Send,
    writer: AnswerWriter,
    *,
    live: bool,
) -> None:
    """Sends the answer of a run that has started. Raises `Refused` and `ClientGone`."""
    exchange = exchange_of(scope)
    watch = DisconnectWatch(receive, run, exchange)
    try:
        if live:
            heartbeat = gateway.config.server.heartbeat
            stream = writer.stream(run)
            stream = _ValidatedStream(stream) if holds_back(run.origin) else stream
            direct = scope.get(DIRECT, False)
            await _StreamedAnswer(run, stream, send, watch, heartbeat, direct=direct).send()
        else:
            await _send_whole(run, writer, send, watch)
    finally:
        watch.end()
        _record_outcome(run, exchange)
    if exchange.client_gone:
        raise ClientGone


class _ValidatedStream:
    """Writes an answer with a schema after it is known to be valid."""

    def __init__(self, writer: StreamWriter) -> None:
        self._writer, self._accepted = writer, AcceptedText()
        self.begin, self.end, self.fail = writer.begin, writer.end, writer.fail

    @property
    def heartbeat(self) -> bytes:
        return self._writer.heartbeat

    @property
    def paused(self) -> bool:
        return self._writer.paused

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        return self._writer.encode(self._accepted.passed(events))


class DisconnectWatch:
    """Stops the run when its client disconnects, unless the run is a `background` run.

    The watch starts after `WATCH_DELAY`, because a quick answer does not need it.
    """

    def __init__(self, receive: Receive, run: GatewayRun, exchange: Exchange) -> None:
        self._receive, self._run, self._exchange = receive, run, exchange
        self._task: asyncio.Task[None] | None = None
        self._on_disconnect: Callable[[], None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_DELAY, self._begin)

    @property
    def run_continues(self) -> bool:
        """Whether the client has disconnected while the run is still active."""
        return self._exchange.client_gone and not self._run.task.done()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._on_disconnect = callback

    def end(self) -> None:
        self._timer.cancel()
        task, self._task = self._task, None  # breaks a cycle: the task's frames refer to us
        if task is not None:
            task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await disconnected(self._receive)
        self._exchange.client_gone = True
        if not self._run.background:
            await self._run.stop()
        if self._on_disconnect is not None:
            self._on_disconnect()


async def _send_whole(
    run: GatewayRun, writer: AnswerWriter, send: Send, watch: DisconnectWatch
) -> None:
    """Waits for the end of the run and sends its answer in one piece. Raises `Refused`."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end_waiting(_: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    run.task.add_done_callback(end_waiting)
    watch.on_disconnect(end_waiting)
    writer.on_pause(run, end_waiting)
    await ended
    if watch.run_continues:
        return
    if not run.task.done():
        await respond_json(send, writer.whole(run), _headers(run))
        return
    if (problem := run.problem()) is not None:
        raise Refused(problem)
    body = await by_size(_answer_size(run.reply), writer.whole, run)
    await respond_json(send, body, _headers(run))


def _answer_size(reply: Reply) -> int:
    """The approximate size of an answer in bytes."""
    size = len(reply.text) + CALL_SIZE * len(reply.pending)
    return size + LARGE if any(len(call.json) > LARGE for call in reply.pending) else size


def _headers(run: GatewayRun) -> tuple[Header, ...]:
    return (
        (b"x-windlass-run-id", run.id.encode()),
        (b"x-function-calling-mode", run.mode.encode()),
    )


def _record_outcome(run: GatewayRun, exchange: Exchange) -> None:
    exchange.mode = run.mode
    if run.task.done() and run.error is None:
        exchange.reply = run.reply


class _StreamedAnswer:
    """One streamed answer.

    The response starts with the first event that the client sees. A run that fails before this
    gets the same error status as a request without streaming.
    """

    def __init__(
        self,
        run: GatewayRun,
        writer: StreamWriter,
        send: Send,
        watch: DisconnectWatch,
        heartbeat: float,
        *,
        direct: bool,
    ) -> None:
        """`direct`: whether `send` may be called in the run's task."""
        self._run, self._writer, self._send_message = run, writer, send
        self._watch, self._heartbeat = watch, heartbeat
        self._direct = direct
        self._started = False
        self._last_sent = time.monotonic()
        self._unsent: Awaitable[None] | None = None
        """The rest of a write that has to wait until the client reads."""

    async def send(self) -> None:
        events = self._run.events()
        self._watch.on_disconnect(events.wake)
        while True:
            idle = time.monotonic() - self._last_sent
            # A client sees soon that its request is accepted, even if the model is not ready yet.
            heartbeat = PREPARING_HEARTBEAT if self._run.plan.notice() else self._heartbeat
            try:
                take = self._pass_on if self._direct else None
                batch = await events.some(max(0.0, heartbeat - idle), take)
            except StorageError:
                return await self._end(b"")
            if self._unsent is not None:
                await self._unsent
                self._unsent = None
                if not batch and not self._watch.run_continues:
                    continue  # the log may have failed meanwhile
            if self._watch.run_continues:
                return None
            *slices, last = in_slices(batch)
            for some in slices:
                if data := self._writer.encode(some):
                    await self._write(data)
                await asyncio.sleep(0)
            data = self._writer.encode(last)
            if self._writer.paused:
                return await self._write(data + self._writer.end(None), more=False)
            if (batch and batch[-1].done) or (not batch and events.over):
                return await self._end(data)
            if not data and time.monotonic() - self._last_sent >= heartbeat:
                data = self._writer.heartbeat
            if data:
                await self._write(data)
                self._last_sent = time.monotonic()

    def _pass_on(self, events: Sequence[RunEvent]) -> bool:
        """Sends short texts in the step that publishes them. Leaves everything else to `send`."""
        if (
            self._unsent is not None
            or self._watch.run_continues
            or len(events) > MAX_TEXTS_AT_ONCE
            or any(type(each) is not TextDelta for each in events)
        ):
            return False
        if data := self._writer.encode(events):
            self._last_sent = time.monotonic()
            steps = self._write(data).__await__()
            try:
                awaited = next(steps)
            except StopIteration:
                return True
            self._unsent = resumed(steps, awaited)
            asyncio.get_running_loop().call_soon(self._run.log.wake)
        return True

    async def _end(self, data: bytes) -> None:
        await asyncio.wait([self._run.task])
        problem = self._run.problem()
        if problem is None:
            await self._write(data + self._writer.end(self._run.reply), more=False)
        elif self._started or data:
            await self._write(data + self._writer.fail(problem), more=False)
        else:
            raise Refused(problem)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            self._started = True
            headers = [*SSE_HEADERS, *_headers(self._run)]
            start = {"type": "http.response.start", "status": 200, "headers": headers}
            await self._send_message(start)
            data = self._writer.begin() + data
        await self._send_message({"type": "http.response.body", "body": data, "more_body": more})
