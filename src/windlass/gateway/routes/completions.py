"""`POST /v1/chat/completions`: starts a run and answers its client, streamed or at once."""

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

WATCH_DELAY = 0.1
"""Seconds before the gateway starts to watch for a disconnect."""
CALL_SIZE = 256
"""Approximate bytes that a call adds to an answer."""
SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ChatCompletions:
    """The endpoint, as plain ASGI: the gateway spends most of its time here."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        request = await read_chat_request(self._gateway, scope, receive)
        exchange.stream = request.stream
        run = await self._gateway.start(
            request, exchange, receive, live=request.stream, background=request.background
        )
        watch = _DisconnectWatch(receive, run, exchange)
        try:
            if request.stream:
                heartbeat = self._gateway.config.server.heartbeat
                await _StreamedAnswer(run, exchange, send, watch, heartbeat).send()
            else:
                await _send_completion(run, send, watch)
        finally:
            watch.end()
            _record_outcome(run, exchange)
        if exchange.client_gone:
            raise ClientGone


async def read_chat_request(gateway: Gateway, scope: Scope, receive: Receive) -> ChatRequest:
    """Counts the request against its key's rate limit and parses the body. Raises `Refused`."""
    await gateway.admission.count(exchange_of(scope).key)
    body = await read_body(scope, receive, gateway.config.limits.max_body_bytes)
    limits, earlier_text = gateway.limits, gateway.config.server.earlier_text
    return await by_size(len(body), read_request, body, limits, earlier_text)


def wants_tool_events(request: ChatRequest, exchange: Exchange) -> bool:
    """Whether the client asks for tool events, in `stream_options` or in the `Accept` header.

    The header is `Accept: text/event-stream; events=windlass`.
    """
    if request.include_tool_events:
        return True
    accept = exchange.header(b"accept").replace(" ", "").lower()
    return "text/event-stream;events=windlass" in accept


class _DisconnectWatch:
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
            await self._run.run.stop()
        if self._on_disconnect is not None:
            self._on_disconnect()


async def _send_completion(run: GatewayRun, send: Send, watch: _DisconnectWatch) -> None:
    """Waits for the end of the run and sends its answer in one piece. Raises `Refused`."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end_waiting(_: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    run.task.add_done_callback(end_waiting)
    watch.on_disconnect(end_waiting)
    await ended
    if watch.run_continues:
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


def _record_outcome(run: GatewayRun, exchange: Exchange) -> None:
    exchange.mode = run.mode
    if run.task.done() and run.run.error is None:
        exchange.reply = run.reply


class _StreamedAnswer:
    """One streamed answer.

    The response starts with the first chunk. A run that fails before this gets the same error
    status as a request without streaming.
    """

    def __init__(
        self,
        run: GatewayRun,
        exchange: Exchange,
        send: Send,
        watch: _DisconnectWatch,
        heartbeat: float,
    ) -> None:
        self._run, self._send_message, self._watch = run, send, watch
        self._heartbeat = heartbeat
        self._encoder = ChunkEncoder(
            run.head,
            run.plan.tools,
            run.call_ids,
            include_usage=run.request.include_usage,
            tool_events=wants_tool_events(run.request, exchange),
            form=run.request.form,
        )
        self._started = False

    async def send(self) -> None:
        events = self._run.run.events()
        self._watch.on_disconnect(events.wake)
        last_sent = time.monotonic()
        while True:
            idle = time.monotonic() - last_sent
            try:
                batch = await events.some(max(0.0, self._heartbeat - idle))
            except StorageError:
                return await self._end(b"")
            if self._watch.run_continues:
                return None
            *slices, last = in_slices(batch)
            for some in slices:
                if chunks := self._encoder.encode(some):
                    await self._write(chunks)
                await asyncio.sleep(0)
            chunks = self._encoder.encode(last)
            if (batch and batch[-1].done) or (not batch and events.over):
                return await self._end(chunks)
            if not chunks and time.monotonic() - last_sent >= self._heartbeat:
                chunks = HEARTBEAT
            if chunks:
                await self._write(chunks)
                last_sent = time.monotonic()

    async def _end(self, chunks: bytes) -> None:
        await asyncio.wait([self._run.task])
        problem = self._run.problem()
        if problem is None:
            await self._write(chunks + self._encoder.end(self._run.reply), more=False)
        elif self._started or chunks:
            await self._write(chunks + error_chunk(problem), more=False)
        else:
            raise Refused(problem)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if not self._started:
            self._started = True
            headers = [*SSE_HEADERS, *_headers(self._run)]
            start = {"type": "http.response.start", "status": 200, "headers": headers}
            await self._send_message(start)
            data = self._encoder.begin() + data
        await self._send_message({"type": "http.response.body", "body": data, "more_body": more})
