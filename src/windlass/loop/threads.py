"""Runs sync functions in threads, without the small limit of asyncio's own pool.

Eight tools that each wait 50 ms take 50 ms together, and a tool that hangs takes no thread from the
others, because the pool starts a thread when none is idle. Threads are daemons: an abandoned thread
does not keep the interpreter alive.

Idle threads wait for a byte in a pipe. Writing it releases the GIL, so the thread begins at once,
and a quick function has often ended when the write returns: the event loop then needs no wake-up.
With a queue or a lock in place of the pipe, the thread would first wait for the GIL, and a call
would take twice as long.
"""

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MAX_THREADS = 1_000
_MAX_IDLE = 32
"""Further threads end when they have no job."""


async def in_thread(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls the function in a worker thread, in a copy of this context.

    What the function gives the event loop to do (`call_soon_threadsafe`) may still be to do when it
    has returned. If the caller is cancelled, the thread finishes alone, and its result is dropped.
    """
    context = contextvars.copy_context()
    job = _Job(functools.partial(context.run, function, *args, **kwargs))
    _pool.submit(job)
    if not job.has_ended:
        await job.end()
    return job.result()


class _Job:
    """A call that runs in a thread, and its outcome."""

    __slots__ = ("_failure", "_result", "_waiting", "_work", "has_ended")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._waiting: asyncio.Future[None] | None = None
        self._result: Any = None
        self._failure: BaseException | None = None
        self.has_ended = False

    def run(self) -> None:
        """Makes the call, in a worker thread."""
        if self._waiting is not None and self._waiting.cancelled():
            return
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001  the caller receives every exception
            self._failure = error

    def report_end(self) -> None:
        """Wakes the caller, if it waits."""
        self.has_ended = True
        if (waiting := self._waiting) is not None:
            # A closed loop raises here: then no caller waits.
            with contextlib.suppress(RuntimeError):
                waiting.get_loop().call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def end(self) -> None:
        """Waits until the call has ended."""
        self._waiting = asyncio.get_running_loop().create_future()
        # The thread sets `has_ended` before it reads `_waiting`: one of the two sees the other.
        if not self.has_ended:
            await self._waiting

    def result(self) -> Any:
        """Returns the result, or raises the call's exception."""
        failure, self._failure = self._failure, None
        if failure is None:
            return self._result
        try:
            if isinstance(failure, StopIteration):  # a coroutine cannot raise it
                raise RuntimeError("the function raised StopIteration") from failure
            raise failure
        finally:
            del failure  # its traceback references this frame


class _Pool:
    """Starts threads on demand. `_idle` is exact: a job never waits for a busy thread while another
    one could start."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._pipe: tuple[int, int] | None = None

    def submit(self, job: _Job) -> None:
        with self._lock:
            if self._pipe is None:
                self._pipe = os.pipe()
            woken, wakes = self._pipe
            is_idle = self._idle > 0
            if is_idle:
                self._idle -= 1
            elif self._threads < _MAX_THREADS:
                # It may raise: then the job must not run. The thread waits for the lock.
                threading.Thread(
                    target=self._serve, args=(woken,), name="windlass-tool", daemon=True
                ).start()
                self._threads += 1
            self._jobs.append(job)
        if is_idle:
            os.write(wakes, b"\0")

    def _serve(self, woken: int) -> None:
        ended: _Job | None = None
        while True:
            with self._lock:
                job = self._jobs.popleft() if self._jobs else None
                leaves = job is None and self._idle >= _MAX_IDLE
                if leaves:
                    self._threads -= 1
                elif job is None:
                    self._idle += 1
            # Only now, because the caller may submit the next job at once, to this thread.
            if ended is not None:
                ended.report_end()
                ended = None
            if leaves:
                return
            if job is None:
                os.read(woken, 1)
                continue
            job.run()
            ended = job
            del job  # an idle thread must not keep arguments and results alive

    def close(self) -> None:
        """Closes the pipe."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)


_pool = _Pool()


def _forget_threads() -> None:
    """Starts over in a forked child, which has none of its parent's threads."""
    global _pool
    _pool.close()
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
