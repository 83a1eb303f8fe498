"""`POST /v1/chat/completions`: a run, and its client who waits for it."""

import asyncio
import time
from collections.abc import Callable

from windlass.errors import StorageError
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
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
from windlass.gateway.runs.run import GatewayRun
from windlass.jsontext import LARGE, by_size
from windlass.loop.pace import in_slices
from windlass.wires.chat.read_request import ChatRequest, read_request
from windlass.wires.chat.write_events import HEARTBEAT, ChunkEncoder, completion, error_chunk

__all__ = ["SSE_HEADERS", "ChatCompletions", "ask", "wants_tool_events"]

A_MOMENT = 0.1
CALL_SIZE = 256
"""Bytes, about, that a call takes in an answer."""
SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ChatCompletions:
    """The endpoint, as plain ASGI: it is where the gateway's time goes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        request = await ask(self._gateway, scope, receive)
        exchange.stream = request.stream
        run = await self._gateway.start(
            request, exchange, receive, live=request.stream, background=request.background
        )
        watch = _Watch(receive, run, exchange)
        try:
            if request.stream:
                heartbeat = self._gateway.config.server.heartbeat
                await _Streaming(run, exchange, send, watch, heartbeat).answer()
            else:
                await _answer(run, send, watch)
        finally:
            watch.end()
            _note(run, exchange)
        if exchange.client_gone:
            raise ClientGone


async def ask(gateway: Gateway, scope: Scope, receive: Receive) -> ChatRequest:
    """The request in the body of this exchange. Raises `Refused`."""
    await gateway.admission.count(exchange_of(scope).key)
    body = await read_body(scope, receive, gateway.config.limits.max_body_bytes)
    limits, earlier_text = gateway.limits, gateway.config.server.earlier_text
    return await by_size(len(body), read_request, body, limits, earlier_text)


def wants_tool_events(request: ChatRequest, exchange: Exchange) -> bool:
    """By the request's `stream_options`, or by `Accept: text/event-stream; events=windlass`."""
    if request.include_tool_events:
        return True
    accept = exchange.header(b"accept").replace(" ", "").lower()
    return "text/event-stream;events=windlass" in accept


class _Watch:
    """Looks out for a client that leaves: its run goes with it, unless it asked for `background`.

    It begins after a moment, because an answer that comes at once needs no looking out.
    """

    def __init__(self, receive: Receive, run: GatewayRun, exchange: Exchange) -> None:
        self._receive, self._run, self._exchange = receive, run, exchange
        self._task: asyncio.Task[None] | None = None
        self._tell: Callable[[], None] | None = None
        self._alarm = asyncio.get_running_loop().call_later(A_MOMENT, self._begin)

    @property
    def left_alone(self) -> bool:
        """Whether the client is gone and the run goes on without it."""
        return self._exchange.client_gone and not self._run.task.done()

    def when_gone(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def end(self) -> None:
        self._alarm.cancel()
        task, self._task = self._task, None  # a cancelled task holds the frames that hold us
        if task is not None:
            task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._look_out())

    async def _look_out(self) -> None:
        await disconnected(self._receive)
        self._exchange.client_gone = True
        if not self._run.background:
            await self._run.run.stop()
        if self._tell is not None:
            self._tell()


async def _answer(run: GatewayRun, send: Send, watch: _Watch) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end_waiting(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    run.task.add_done_callback(end_waiting)
    watch.when_gone(end_waiting)
    await over
    if watch.left_alone:
        return
    if (problem := run.problem()) is not None:
        raise Refused(problem)
    reply = run.reply
    size = len(reply.text) + CALL_SIZE * len(reply.pending)
    if any(len(call.json) > LARGE for call in reply.pending):
        size += LARGE
    body = await by_size(size, completion, run.head, reply, run.call_ids, run.request.form)
    await respond_json(send, body, _headers(run))


def _headers(run: GatewayRun) -> tuple[Header, ...]:
    return (
        (b"x-windlass-run-id", run.id.encode()),
        (b"x-function-calling-mode", run.mode.encode()),
    )


def _note(run: GatewayRun, exchange: Exchange) -> None:
    exchange.mode = run.mode
    if run.task.done() and run.run.error is None:
        exchange.reply = run.reply


class _Streaming:
    """One streamed answer.

    It begins with the first thing that the client is to see: a run that fails before has a status
    of its own, as it has without streaming.
    """

    def __init__(
        self,
        run: GatewayRun,
        exchange: Exchange,
        send: Send,
        watch: _Watch,
        heartbeat: float,
    ) -> None:
        self._run, self._send, self._watch = run, send, watch
        self._heartbeat = heartbeat
        self._encoder = ChunkEncoder(
            run.head,
            run.plan.tools,
            run.call_ids,
            include_usage=run.request.include_usage,
            tool_events=wants_tool_events(run.request, exchange),
            form=run.request.form,
        )
        self._begun = False

    async def answer(self) -> None:
        events = self._run.run.events()
        self._watch.when_gone(events.wake)
        spoken = time.monotonic()
        while True:
            quiet = time.monotonic() - spoken
            try:
                batch = await events.some(max(0.0, self._heartbeat - quiet))
            except StorageError:
                return await self._end(b"")
            if self._watch.left_alone:
                return None
            *slices, last = in_slices(batch)
            for some in slices:
                if chunks := self._encoder.encode(some):
                    await self._write(chunks)
                await asyncio.sleep(0)
            chunks = self._encoder.encode(last)
            if (batch and batch[-1].done) or (not batch and events.over):
                return await self._end(chunks)
            if not chunks and time.monotonic() - spoken >= self._heartbeat:
                chunks = HEARTBEAT
            if chunks:
                await self._write(chunks)
                spoken = time.monotonic()

    async def _end(self, chunks: bytes) -> None:
        await asyncio.wait([self._run.task])
        problem = self._run.problem()
        if problem is None:
            await self._write(chunks + self._encoder.end(self._run.reply), more=False)
        elif self._begun or chunks:
            await self._write(chunks + error_chunk(problem), more=False)
        else:
            raise Refused(problem)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if not self._begun:
            self._begun = True
            headers = [*SSE_HEADERS, *_headers(self._run)]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            data = self._encoder.begin() + data
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
