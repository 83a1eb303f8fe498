"""One event loop in a background thread: where the sync face does its work.

It serves plain code, many threads at once, and code that is itself inside an event loop.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any, TypeVar

from windlass.errors import ConfigError

__all__ = ["Portal", "close_at_exit", "close_when_idle", "portal"]

T = TypeVar("T")
AClose = Callable[[], Coroutine[Any, Any, None]]

EXIT_SECONDS = 10.0
"""How long the end of the process waits for clients that were not closed."""

log = logging.getLogger("windlass.client")


class Portal:
    """A running event loop and the way into it from other threads."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_DaemonThreads())
        self._calls: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._exiting = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine to its end with the caller's context variables.

        An interrupt (Ctrl-C) cancels it. Raises `ConfigError` where waiting would never end: inside
        an async tool, which runs on this very loop. At the end of the process other threads than
        the main one wait here until they end with it.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise ConfigError("inside an async tool, use AsyncClient: Client would wait for itself")
        ends_with_process = threading.current_thread() is not threading.main_thread()
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        settling = self._settle(coroutine, outcome)
        tasks: list[asyncio.Task[None]] = []

        def abandon() -> None:
            settling.close()
            coroutine.close()

        def begin() -> None:
            if self._exiting and ends_with_process:
                abandon()
                return
            task = self._loop.create_task(settling)
            tasks.append(task)
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            # A task that is cancelled before its first step has not begun the coroutine.
            task.add_done_callback(lambda _: coroutine.close())

        def cancel() -> None:
            for task in tasks:
                task.cancel()
            if not tasks:
                abandon()

        try:
            self._loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(cancel)
            raise
        finally:
            del outcome  # it holds an error whose traceback holds this frame

    async def _settle(
        self, coroutine: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]
    ) -> None:
        try:
            outcome.set_result(await coroutine)
        except asyncio.CancelledError:
            if not self._exiting:  # then its thread would print a traceback of no use
                outcome.cancel()
                outcome.set_running_or_notify_cancel()
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asked
            outcome.set_exception(error)
        finally:
            del outcome  # as in `run`

    def close_soon(self, aclose: AClose) -> None:
        """Closes a client on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(self._begin_to_close, aclose)

    def _begin_to_close(self, aclose: AClose) -> None:
        task = self._loop.create_task(_closed(aclose))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end(self, acloses: Iterable[AClose]) -> None:
        """Closes the clients and cancels all that still runs; for the end of the process.

        Returns after `EXIT_SECONDS` even if something does not let itself be cancelled.
        """
        self._exiting = True
        ending = asyncio.run_coroutine_threadsafe(self._end(list(acloses)), self._loop)
        with contextlib.suppress(TimeoutError, KeyboardInterrupt):
            ending.result(EXIT_SECONDS)

    async def _end(self, acloses: list[AClose]) -> None:
        await _cancelled(self._calls)
        await asyncio.gather(*self._closing, *map(_closed, acloses))
        await _cancelled(asyncio.all_tasks() - {asyncio.current_task()})
        await self._loop.shutdown_asyncgens()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Calls the function on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(function)


class _DaemonThreads(ThreadPoolExecutor):
    """A thread for each job. The usual pool refuses jobs as soon as the main thread has ended,
    and other threads, which may still ask models, would no longer find the address of a host."""

    def submit(
        self, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller
                future.set_exception(error)

        threading.Thread(target=work, name="windlass-job", daemon=True).start()
        return future


async def _closed(aclose: AClose) -> None:
    """No caller waits for it, so a failure is logged."""
    try:
        await aclose()
    except Exception as error:  # noqa: BLE001
        log.warning("cannot close a client: %s: %s", type(error).__name__, error)


async def _cancelled(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancels the tasks and waits for them."""
    remaining = [task for task in tasks if task is not None]
    for task in remaining:
        task.cancel()
    await asyncio.gather(*remaining, return_exceptions=True)


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


def close_when_idle(aclose: AClose) -> None:
    """Closes what the portal's loop has opened; if there is no portal, nothing was opened.

    It does not wait, so it is safe anywhere, also where the garbage collector calls it.
    """
    if (current := _current()) is not None:
        current.close_soon(aclose)


def close_at_exit(acloses: Iterable[AClose]) -> None:
    """Closes clients at the end of the process and waits for it."""
    if (current := _current()) is not None:
        current.end(acloses)


def _current() -> Portal | None:
    """The portal, if this process has made one."""
    return _portal if _portal is not None and _portal.pid == os.getpid() else None
