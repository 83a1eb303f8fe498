"""One event loop in a background thread: where the sync face does its work.

It serves plain code, many threads at once, and code that is itself inside an event loop.
"""

import asyncio
import concurrent.futures
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from windlass.errors import ConfigError

__all__ = ["Portal", "close_when_idle", "portal"]

T = TypeVar("T")


class Portal:
    """A running event loop and the way into it from other threads."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine to its end with the caller's context variables.

        An interrupt (Ctrl-C) cancels it. Raises `ConfigError` where waiting would never end: inside
        an async tool, which runs on this very loop.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise ConfigError("inside an async tool, use AsyncClient: Client would wait for itself")
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        settling = _settle(coroutine, outcome)
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(settling))

        self._loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            raise
        finally:
            del outcome  # it holds an error whose traceback holds this frame

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs the coroutine function on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(lambda: self._spawned(function()))

    def _spawned(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Calls the function on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(function)


async def _settle(coroutine: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]) -> None:
    try:
        outcome.set_result(await coroutine)
    except asyncio.CancelledError:
        outcome.cancel()
        outcome.set_running_or_notify_cancel()
    except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asked
        outcome.set_exception(error)
    finally:
        del outcome  # as in `Portal.run`


_lock = threading.Lock()
_portal: Portal | None = None


def portal() -> Portal:
    """The process's portal, made at its first use; a forked child makes its own."""
    global _portal
    current = _portal
    if current is None or current.pid != os.getpid():
        with _lock:
            if _portal is None or _portal.pid != os.getpid():
                _portal = Portal()
            current = _portal
    return current


def close_when_idle(aclose: Callable[[], Coroutine[Any, Any, None]], *, wait: bool = False) -> None:
    """Closes what the portal's loop has opened; if there is no portal, nothing was opened.

    Without `wait` it is safe anywhere, also where the garbage collector calls it.
    """
    current = _portal
    if current is None or current.pid != os.getpid():
        return
    if wait:
        current.run(aclose())
    else:
        current.spawn(aclose)
