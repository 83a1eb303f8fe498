"""One event loop in a thread of its own, where all connections to MCP servers live.

A connection is made once and used by any number of runs, from sync code, threads and event loops
that come and go. A server that dies, or cancels what it should not, disturbs nobody else's loop.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["awaited", "blocked_on", "submit"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0


def submit(coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
    """Begins the coroutine on the loop. Cancelling the future cancels it there."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background())


async def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Waits for the coroutine in whatever loop the caller has; a cancelled caller cancels it."""
    return await asyncio.wrap_future(submit(coroutine))


def blocked_on(coroutine: Coroutine[Any, Any, T]) -> T:
    """Waits for the coroutine in sync code."""
    return submit(coroutine).result()


def _background() -> asyncio.AbstractEventLoop:
    """Made at its first use; a forked child makes its own."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="windlass-mcp", daemon=True).start()
        return _loop
