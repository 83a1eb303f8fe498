"""Runs sync functions in threads, without the small limit of asyncio's own pool.

Eight tools that each wait 50 ms take 50 ms together, and a tool that hangs takes no thread from the
others, because the pool starts a thread when none is idle. Threads are daemons: an abandoned thread
does not keep the interpreter alive.
"""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MAX_THREADS = 1_000
_IDLE_SECONDS = 30.0


async def in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls the function in a worker thread, in a copy of this context.

    If the caller is cancelled, the thread finishes alone, and its result is dropped.
    """
    context = contextvars.copy_context()
    job = _Job(asyncio.get_running_loop(), lambda: context.run(function, *args, **kwargs))
    _pool.submit(job)
    return await job.future


class _Job:
    """A call that runs in a thread, and the future that receives its result."""

    __slots__ = ("_failure", "_loop", "_result", "_work", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> None:
        self._loop = loop
        self._work = work
        self._result: Any = None
        self._failure: BaseException | None = None
        self.future: asyncio.Future[Any] = loop.create_future()

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001  the caller receives every exception
            self._failure = error

    def deliver(self) -> None:
        # A closed loop raises here: then no caller waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        failure = self._failure
        if self.future.done():
            return
        if failure is None:
            self.future.set_result(self._result)
        elif isinstance(failure, StopIteration):  # a future rejects it, as a coroutine does
            error = RuntimeError("the function raised StopIteration")
            error.__cause__ = failure
            self.future.set_exception(error)
        else:
            self.future.set_exception(failure)


class _Pool:
    """Starts threads on demand. `_idle` and `_waiting` are exact: a job never waits for a busy
    thread while another one could start."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._waiting = 0

    def submit(self, job: _Job) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, name="windlass-tool", daemon=True).start()
            else:
                self._waiting += 1
        self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle:  # otherwise a job was just assigned to this thread
                        self._idle -= 1
                        self._threads -= 1
                        return
                continue
            job.run()
            # Mark the thread idle before delivery: the caller may submit the next job at once.
            with self._lock:
                if self._waiting:
                    self._waiting -= 1
                else:
                    self._idle += 1
            job.deliver()
            del job  # an idle thread must not keep arguments and results alive


_pool = _Pool()


def _forget_threads() -> None:
    """Starts over in a forked child, which has none of its parent's threads."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
