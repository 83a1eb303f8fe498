"""An HTTP server in a thread of its own, which plays answers. The only module here with sockets."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import msgspec
from aiohttp import web

from windlass.testing.exchange import Answer, Received

# How long a shutdown waits for connections that do not mind being cancelled. It must not be 0,
# which aiohttp takes for no limit.
SHUTDOWN_SECONDS = 0.05


class ServerThread:
    """Serves on 127.0.0.1 until `stop`, whoever the client is: a task, a thread, a process."""

    def __init__(
        self, answer: Callable[[Received], Answer], write_size: int | None, port: int = 0
    ) -> None:
        self._answer = answer
        self._write_size = write_size
        self._wanted_port = port
        self._tasks: set[asyncio.Task[object]] = set()
        self._port: Future[int] = Future()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="windlass-fake", daemon=True)

    def start(self) -> int:
        """Returns the port once the server listens. Raises `OSError` if it cannot."""
        self._thread.start()
        return self._port.result()

    def stop(self) -> None:
        """Drops every connection and returns when the thread is gone."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._port.done():
                raise
            self._port.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._wanted_port, backlog=1024)
            await site.start()
            self._port.set_result(runner.addresses[0][1])
            await self._stopping.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Not request.read(), which refuses bodies over 1 MB.
            raw = await request.content.read()
            return await self._play(request, self._answer(_received(request, raw)))
        except ConnectionError:
            return web.Response()  # The client has left; nobody will read this.
        finally:
            self._tasks.discard(task)

    async def _play(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        if answer.length is not None or not answer.writes:
            await answer.pace.to_the_end()
        await answer.pace.before(0)
        if answer.end == "never":
            await asyncio.get_running_loop().create_future()
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = answer.length
        if answer.length is None:
            response.enable_chunked_encoding()
        if answer.writes:
            await response.prepare(request)
        for piece, data in enumerate(answer.writes):
            await answer.pace.before(piece)
            if piece == len(answer.writes) - 1:
                await answer.pace.to_the_end()
            for part in _parts(data, self._write_size):
                await response.write(part)
        if answer.end == "close" and request.transport is not None:
            # What is written goes out first; aiohttp then finds the connection gone, and is quiet.
            request.transport.close()
        return response


def _received(request: web.BaseRequest, raw: bytes) -> Received:
    try:
        body = msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        body = None
    return Received(
        method=request.method,
        path=request.path,
        query=dict(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=body,
        raw=raw,
    )


def _parts(data: bytes, size: int | None) -> list[bytes]:
    if size is None or not data:
        return [data] if data else []
    return [data[start : start + size] for start in range(0, len(data), size)]
