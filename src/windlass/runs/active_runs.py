"""The running runs of a process, and its recently finished ones."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from windlass.errors import RunNotFound, TooManyRuns


class KnownRun(Protocol):
    """A run that is known by its id."""

    @property
    def id(self) -> str: ...


class RunWithTask(KnownRun, Protocol):
    """A run whose loop is a task of this process."""

    @property
    def task(self) -> asyncio.Task[None]: ...


R = TypeVar("R", bound=RunWithTask)
F = TypeVar("F", bound=KnownRun)


class RunStore(Generic[R, F]):
    """Limits running runs by number, and finished runs by age, number and size.

    `keep` converts a run when it finishes. The store has no background task: it removes expired
    runs when it is next used.
    """

    def __init__(
        self,
        *,
        keep: Callable[[R], R | F] = lambda run: run,
        max_running: int = 100,
        keep_finished: float = 300.0,
        max_finished: int = 1_000,
        max_finished_bytes: int = 128 * 2**20,
        size_of: Callable[[R | F], int] = lambda _: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep = keep
        self._max_running = max_running
        self._keep_finished = keep_finished
        self._max_finished = max_finished
        self._max_finished_bytes = max_finished_bytes
        self._size_of = size_of
        self._clock = clock
        self._runs: dict[str, R | F] = {}
        self._running: dict[str, R] = {}
        self._finished: dict[str, tuple[float, int]] = {}
        self._finished_bytes = 0

    def admit(self) -> None:
        """Raises `TooManyRuns` if another run may not start now."""
        self._expire()
        if len(self._running) >= self._max_running:
            raise TooManyRuns(f"too many runs: {self._max_running} are running, which is the limit")

    def add(self, run: R) -> None:
        self._expire()
        self.forget(run.id)  # an earlier attempt of a run that is resumed now
        self._runs[run.id] = self._running[run.id] = run
        run.task.add_done_callback(lambda _: self._finish(run))

    def get(self, run_id: str) -> R | F:
        self._expire()
        try:
            return self._runs[run_id]
        except KeyError:
            raise RunNotFound(f"run {run_id!r} not found") from None

    def forget(self, run_id: str) -> None:
        """Removes a finished run, if it is here."""
        if run_id in self._finished:
            _, size = self._finished.pop(run_id)
            del self._runs[run_id]
            self._finished_bytes -= size

    def all(self) -> list[R | F]:
        """All runs, oldest first."""
        self._expire()
        return list(self._runs.values())

    def running(self) -> list[R]:
        """The running runs, oldest first."""
        return list(self._running.values())

    def _finish(self, run: R) -> None:
        if self._running.get(run.id) is not run:
            return  # the run was resumed, and another object represents it now
        del self._running[run.id]
        finished = self._runs[run.id] = self._keep(run)
        size = self._size_of(finished)
        self._finished[run.id] = (self._clock(), size)
        self._finished_bytes += size

    def _expire(self) -> None:
        oldest = self._clock() - self._keep_finished
        # Finished runs are in the order of their ends: stop at the first that may stay.
        while self._finished:
            run_id, (ended, size) = next(iter(self._finished.items()))
            crowded = (
                len(self._finished) > self._max_finished
                or self._finished_bytes > self._max_finished_bytes
            )
            if ended > oldest and not crowded:
                break
            del self._runs[run_id], self._finished[run_id]
            self._finished_bytes -= size
