"""The HTTP server of the fakes, in its own thread. No other module here uses sockets."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import msgspec
from aiohttp import web

from windlass.testing.exchange import PlannedResponse, Received

# How long a shutdown waits for connections. Not 0: aiohttp reads 0 as "no limit".
SHUTDOWN_SECONDS = 0.05


class ServerThread:
    """Serves on 127.0.0.1 until `stop`, for clients in any task, thread or process."""

    def __init__(
        self, answer: Callable[[Received], PlannedResponse], write_size: int | None, port: int = 0
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
        """Starts the server and returns its port. Raises `OSError` if it cannot listen."""
        self._thread.start()
        return self._port.result()

    def stop(self) -> None:
        """Closes all connections and waits until the thread has ended."""
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
            return web.Response()  # The client has disconnected: this is not sent.
        finally:
            self._tasks.discard(task)

    async def _play(self, request: web.BaseRequest, planned: PlannedResponse) -> web.StreamResponse:
        if planned.length is not None or not planned.writes:
            await planned.pace.wait_rest()
        await planned.pace.wait_before(0)
        if planned.end == "never":
            await asyncio.get_running_loop().create_future()
        response = web.StreamResponse(status=planned.status, headers=planned.headers)
        response.content_length = planned.length
        if planned.length is None:
            response.enable_chunked_encoding()
        if planned.writes:
            await response.prepare(request)
        for piece, data in enumerate(planned.writes):
            await planned.pace.wait_before(piece)
            if piece == len(planned.writes) - 1:
                await planned.pace.wait_rest()
            for part in _parts(data, self._write_size):
                await response.write(part)
        if planned.end == "close" and request.transport is not None:
            # Written data is still sent; aiohttp then sees a closed connection and logs nothing.
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
