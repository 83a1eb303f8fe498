"""`DaemonThreads`, a pool of threads that works until the process exits, and the usable cores."""

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")


QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")
"""The quota of a container, on Linux."""


def available_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        quota, period = QUOTA_FILE.read_text("ascii").split()
        cores = min(cores or 1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no such file, or no quota
    return max(1, cores or 1)


class DaemonThreads(Executor):
    """Starts its threads on demand.

    The standard pool rejects jobs as soon as the main thread has ended, although other threads may
    still use clients, and clients are closed after that. In a forked child it waits forever for
    threads that only the parent has.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._mutex = threading.Lock()
        self._workers = PoolThreads()
        _pools.add(self)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        with self._mutex:
            workers = self._workers
            workers.jobs.put(Job(future, functools.partial(fn, *args, **kwargs)))
            if not workers.idle.acquire(blocking=False) and len(workers.threads) < self._count:
                name = f"{self._name}_{len(workers.threads)}"
                thread = threading.Thread(target=workers.serve, name=name, daemon=True)
                workers.threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads after the waiting jobs. A later job starts new threads."""
        with self._mutex:
            workers, self._workers = self._workers, PoolThreads()
        if cancel_futures:
            workers.cancel_waiting()
        for _ in workers.threads:
            workers.jobs.put(None)
        if wait:
            for thread in workers.threads:
                thread.join()

    def after_fork(self) -> None:
        """Forgets the parent's threads, jobs and locks."""
        self._mutex = threading.Lock()
        self._workers = PoolThreads()


class Job(NamedTuple):
    """A call, and the future that receives its result."""

    future: Future[Any]
    call: Callable[[], Any]


class PoolThreads:
    """The threads of a pool, and the jobs that they take."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.idle = threading.Semaphore(0)
        """Counts the threads that wait for a job."""

    def serve(self) -> None:
        while (job := self.jobs.get()) is not None:
            _do(job)
            del job  # frees its arguments while the thread waits
            self.idle.release()

    def cancel_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while (job := self.jobs.get_nowait()) is not None:
                job.future.cancel()


def _do(job: Job) -> None:
    if not job.future.set_running_or_notify_cancel():
        return
    try:
        result = job.call()
    except BaseException as error:  # noqa: BLE001 - the caller receives it
        job.future.set_exception(error)
    else:
        job.future.set_result(result)


_pools: "WeakSet[DaemonThreads]" = WeakSet()


def _reset_all() -> None:
    for pool in list(_pools):
        pool.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
