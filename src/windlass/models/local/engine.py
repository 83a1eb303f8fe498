"""Weights in memory, once in a process: requests come from any thread, and run one by one."""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from windlass.errors import ModelError
from windlass.models.local.runtime import Server, open_server

__all__ = ["Engine", "engine_of", "unload"]

OnChunk = Callable[[bytes], bool]
"""Takes a piece of the answer; True asks for no more."""


class Engine:
    """One file of weights. Requests run in the order in which they came; loading is part of it."""

    def __init__(
        self, path: Path, context: int, open: Callable[[Path, int], Server] = open_server
    ) -> None:
        self.path, self.context = path, context
        self._open = open
        self._server: Server | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-local")

    async def load(self) -> None:
        """Loads the weights if they are not loaded. Raises `ConfigError` if they cannot be."""
        await asyncio.wrap_future(self._thread.submit(self._loaded))

    async def chunks(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """The answer to one request as it comes; closing it stops the request, also in the queue.

        Raises `ModelError` for a request that the runtime refuses.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        stopped = threading.Event()

        def send(chunk: bytes | None) -> bool:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
                return stopped.is_set()
            return True

        def end(done: Future[None]) -> None:
            send(None)

        answer = self._thread.submit(self._answer, body, send, stopped)
        answer.add_done_callback(end)
        try:
            while (chunk := await arrived.get()) is not None:
                yield chunk
            answer.result()
        finally:
            stopped.set()

    def close(self) -> None:
        """Waits for the request that runs, drops those that wait, and frees the memory."""
        self._thread.shutdown(cancel_futures=True)
        self._server = None

    def _loaded(self) -> Server:
        if self._server is None:
            self._server = self._open(self.path, self.context)
        return self._server

    def _answer(self, body: bytes, on_chunk: OnChunk, stopped: threading.Event) -> None:
        if stopped.is_set():
            return
        server = self._loaded()
        try:
            server.handle_chat_completions(body, on_chunk)
        except (RuntimeError, ValueError) as error:
            raise ModelError(str(error), status=400) from error


_engines: dict[tuple[int, Path, int], Engine] = {}
_lock = threading.Lock()


def engine_of(path: Path, context: int) -> Engine:
    """The one engine of this process for these weights. A forked process has its own."""
    key = (os.getpid(), path, context)
    with _lock:
        if key not in _engines:
            _engines[key] = Engine(path, context)
        return _engines[key]


@atexit.register
def unload() -> None:
    """Frees the memory of all weights; a model that is used again loads its own anew."""
    with _lock:
        mine = [key for key in _engines if key[0] == os.getpid()]
        engines = [_engines.pop(key) for key in mine]
    for engine in engines:
        engine.close()
