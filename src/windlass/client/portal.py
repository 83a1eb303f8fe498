"""One event loop in a background thread, where the blocking client runs.

Many threads can use it at once, also code that runs inside another event loop.
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
from typing import Any, Generic, TypeVar, cast

from windlass.errors import ConfigError

T = TypeVar("T")
AClose = Callable[[], Coroutine[Any, Any, None]]

EXIT_SECONDS = 10.0
"""How long the process waits at exit for clients that were not closed."""

log = logging.getLogger("windlass.client")


class Portal:
    """An event loop in a background thread. Other threads run coroutines on it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_ThreadPerJob())
        self._calls: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._exiting = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine with the caller's context variables, and returns its result.

        An interrupt (Ctrl-C) cancels it. Raises `ConfigError` inside an async tool, which runs on
        this loop and would wait forever. When the process exits, threads other than the main one
        block here until it has exited.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise ConfigError("cannot use Client inside an async tool: use AsyncClient")
        ends_with_process = threading.current_thread() is not threading.main_thread()
        outcome: _Outcome[T] = _Outcome()  # `_Outcome[T]()` is slow
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
            task.add_done_callback(end)

        def end(task: asyncio.Task[None]) -> None:
            self._calls.discard(task)
            # A task that is cancelled before its first step never starts the coroutine.
            coroutine.close()

        def cancel() -> None:
            for task in tasks:
                task.cancel()
            if not tasks:
                abandon()

        try:
            self._loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
            return outcome.result()
        except BaseException:
            if not outcome.is_set:
                self._loop.call_soon_threadsafe(cancel)
            raise
        finally:
            del outcome  # its error's traceback references this frame

    async def _settle(self, coroutine: Coroutine[Any, Any, T], outcome: "_Outcome[T]") -> None:
        try:
            outcome.set(await coroutine)
        except asyncio.CancelledError:
            if not self._exiting:  # at exit, the thread would print a useless traceback
                outcome.fail(concurrent.futures.CancelledError())
        except BaseException as error:  # noqa: BLE001 - the calling thread raises it
            outcome.fail(error)
        finally:
            del outcome  # as in `run`

    def close_soon(self, aclose: AClose) -> None:
        """Closes a client on the loop without waiting for it."""
        self._loop.call_soon_threadsafe(self._begin_to_close, aclose)

    def _begin_to_close(self, aclose: AClose) -> None:
        task = self._loop.create_task(_closed(aclose))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end(self, acloses: Iterable[AClose]) -> None:
        """Closes the clients and cancels all tasks, when the process exits.

        Returns after `EXIT_SECONDS` at the latest.
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
        """Calls the function on the loop without waiting for it."""
        self._loop.call_soon_threadsafe(function)


class _Outcome(Generic[T]):
    """The outcome of a call, for the one thread that waits for it.

    The condition of a `concurrent.futures.Future` takes half as long as a whole call.
    """

    __slots__ = ("_error", "_unset", "_value", "is_set")

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()
        self.is_set = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def set(self, value: T) -> None:
        self._value, self.is_set = value, True
        self._unset.release()

    def fail(self, error: BaseException) -> None:
        self._error, self.is_set = error, True
        self._unset.release()

    def result(self) -> T:
        """Waits for the outcome. Raises the error of the call."""
        self._unset.acquire()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback references this frame
        return cast("T", self._value)


class _ThreadPerJob(ThreadPoolExecutor):
    """Starts a thread for each job. The usual pool rejects jobs after the main thread has ended,
    and then other threads, which may still call models, could not resolve host names."""

    def submit(
        self, fn: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller receives it
                future.set_exception(error)

        threading.Thread(target=work, name="windlass-job", daemon=True).start()
        return future


async def _closed(aclose: AClose) -> None:
    """Closes a client. Logs a failure, since no caller waits for it."""
    try:
        await aclose()
    except Exception as error:  # noqa: BLE001
        log.warning("cannot close client: %s: %s", type(error).__name__, error)


async def _cancelled(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancels the tasks and waits for them."""
    remaining = [task for task in tasks if task is not None]
    for task in remaining:
        task.cancel()
    await asyncio.gather(*remaining, return_exceptions=True)


_lock = threading.Lock()
_portal: Portal | None = None


def portal() -> Portal:
    """Returns the portal of this process, created at its first use. A forked child has its own."""
    global _portal
    current = _portal
    if current is None or current.pid != os.getpid():
        with _lock:
            if _portal is None or _portal.pid != os.getpid():
                _portal = Portal()
            current = _portal
    return current


def close_when_idle(aclose: AClose) -> None:
    """Closes a client on the portal's loop. Without a portal, the client has nothing to close.

    It does not wait, so the garbage collector can call it.
    """
    if (current := _current()) is not None:
        current.close_soon(aclose)


def close_at_exit(acloses: Iterable[AClose]) -> None:
    """Closes clients when the process exits, and waits for them."""
    if (current := _current()) is not None:
        current.end(acloses)


def _current() -> Portal | None:
    """Returns the portal if this process has created one."""
    return _portal if _portal is not None and _portal.pid == os.getpid() else None
