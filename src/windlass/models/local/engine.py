"""llama.cpp in this process, through `xllamacpp`: loads weights once and runs requests in order."""

import asyncio
import atexit
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from windlass.errors import ConfigError, ModelError
from windlass.models.local.weights import QWEN
from windlass.threads import DaemonThreads, available_cores

BATCH_TOKENS = 64
"""Prompt tokens per batch. A request can be stopped between two batches."""

_CACHE_MEGABYTES = 256
"""The cache of earlier prompts."""

MAX_SOCKET_PATH = 100
"""Characters; just under the limit of the operating systems."""


class LlamaServer(Protocol):
    """The part of the runtime that Windlass uses. A callback that returns True stops a request."""

    def handle_chat_completions(self, prompt: bytes, callback: Callable[[bytes], bool]) -> None: ...


def check_runtime() -> None:
    """Raises `ConfigError` with the install command if the runtime is not installed."""
    if find_spec("xllamacpp") is None:
        raise ConfigError(
            f"local/ needs the runtime xllamacpp, which is not installed: {QWEN.command}"
        )


def open_server(path: Path, context: int) -> LlamaServer:
    """Loads the weights. Raises `ConfigError` if they, or the runtime, cannot be loaded."""
    runtime = _imported()
    params = runtime.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_batch = context, 1, BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = available_cores()
    params.cache_ram_mib = _CACHE_MEGABYTES
    params.no_extra_bufts = True  # needs two thirds of the memory at the same speed
    params.warmup = False  # it would block all Python threads
    params.verbosity = 0
    try:
        with _private_endpoint(params):
            return runtime.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"llama.cpp cannot load {path}: {error}") from error


def _imported() -> Any:
    check_runtime()
    # Spinning threads take CPU time from the working ones.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    try:
        xllamacpp = import_module("xllamacpp")
    except ImportError as error:
        if "libgomp" in str(error):
            raise ConfigError(
                "llama.cpp needs the system library libgomp, which is not installed;"
                " on Debian and Ubuntu: apt-get install libgomp1"
            ) from error
        raise ConfigError(f"cannot load the runtime xllamacpp: {error}") from error
    return xllamacpp


@contextmanager
def _private_endpoint(params: Any) -> Generator[None]:
    """Makes the runtime, which always listens, listen where no other process can connect.

    That is a socket in a private folder, which is deleted as soon as the weights are loaded. Where
    that is not possible, it is a port of this machine. In both cases a random key is required.
    """
    params.api_keys, params.ui, params.endpoint_slots = [secrets.token_urlsafe(32)], False, False
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        socket = str(Path(folder, "llama.sock"))
        if sys.platform != "win32" and len(socket) <= MAX_SOCKET_PATH:
            params.hostnames = [socket]
        yield


OnChunk = Callable[[bytes], bool]
"""Receives a chunk of the answer. Returning True stops the request."""


class Engine:
    """One file of weights. Requests run one at a time, in order; the first loads the weights."""

    def __init__(
        self, path: Path, context: int, open: Callable[[Path, int], LlamaServer] = open_server
    ) -> None:
        self.path, self.context = path, context
        self._open = open
        self._server: LlamaServer | None = None
        self._thread = DaemonThreads(1, "windlass-local")

    @property
    def is_loaded(self) -> bool:
        return self._server is not None

    async def load(self) -> None:
        """Loads the weights if necessary. Raises `ConfigError` if that fails."""
        await asyncio.wrap_future(self._thread.submit(self._loaded))

    async def chunks(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """The chunks of an answer. Closing the generator stops the request, even while it queues.

        Raises `ModelError` for a request that the runtime refuses.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        stopped = threading.Event()

        def send(chunk: bytes | None) -> bool:
            with suppress(RuntimeError):  # the loop is closed: there is no reader
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
        """Waits for the running request, drops queued ones, and frees the memory."""
        self._thread.shutdown(cancel_futures=True)
        self._server = None

    def _loaded(self) -> LlamaServer:
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
    """The engine of this process for these weights. A forked process has its own."""
    key = (os.getpid(), path, context)
    with _lock:
        if key not in _engines:
            _engines[key] = Engine(path, context)
        return _engines[key]


@atexit.register
def unload() -> None:
    """Frees the memory of all weights. A model loads them again at its next use."""
    with _lock:
        mine = [key for key in _engines if key[0] == os.getpid()]
        engines = [_engines.pop(key) for key in mine]
    for engine in engines:
        engine.close()
