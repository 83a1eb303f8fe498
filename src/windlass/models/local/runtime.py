"""llama.cpp in this process, by `xllamacpp`: brought in when it is needed, and kept to itself."""

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from windlass.errors import ConfigError
from windlass.models.local.catalog import QWEN

__all__ = ["Server", "check_runtime", "open_server"]

_BATCH = 64
"""Tokens of a prompt that are read at once: between two batches a request can be stopped."""

_CACHE_MEGABYTES = 256
"""What is kept of prompts that were read before the last one."""

_LONGEST_SOCKET = 100
"""Characters; the systems' own limit is near."""


class Server(Protocol):
    """What we use of the runtime. A callback that returns True stops the request."""

    def handle_chat_completions(self, prompt: bytes, callback: Callable[[bytes], bool]) -> None: ...


def check_runtime() -> None:
    """Raises `ConfigError`, with the command that installs it, if the runtime is not installed."""
    if find_spec("xllamacpp") is None:
        raise ConfigError(
            f"local/ needs its runtime, xllamacpp, which is not installed: {QWEN.command}"
        )


def open_server(path: Path, context: int) -> Server:
    """Loads the weights. Raises `ConfigError` if they, or the runtime, cannot be loaded."""
    runtime = _imported()
    params = runtime.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_batch = context, 1, _BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _processors()
    params.cache_ram_mib = _CACHE_MEGABYTES
    params.no_extra_bufts = True  # two thirds of the memory at the same speed
    params.warmup = False  # it would hold up every thread of Python
    params.verbosity = 0
    try:
        with _closed_door(params):
            return runtime.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"llama.cpp cannot load {path}: {error}") from error


def _imported() -> Any:
    check_runtime()
    # Threads that wait for each other by spinning take the time of those that work.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    try:
        xllamacpp = import_module("xllamacpp")
    except ImportError as error:
        if "libgomp" in str(error):
            raise ConfigError(
                "llama.cpp needs the system's library libgomp, which is not installed;"
                " on Debian and Ubuntu: apt-get install libgomp1"
            ) from error
        raise ConfigError(f"the runtime xllamacpp cannot be loaded: {error}") from error
    return xllamacpp


def _processors() -> int:
    """Those that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _closed_door(params: Any) -> Generator[None]:
    """The runtime cannot be kept from listening: it listens where nobody can speak to it.

    That is a socket in a folder of ours alone, gone as soon as the weights are loaded. Where that
    is not possible it is a port of this machine. A key that nobody knows is asked for in any case.
    """
    params.api_keys, params.ui, params.endpoint_slots = [secrets.token_urlsafe(32)], False, False
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        socket = str(Path(folder, "llama.sock"))
        if sys.platform != "win32" and len(socket) <= _LONGEST_SOCKET:
            params.hostnames = [socket]
        yield
