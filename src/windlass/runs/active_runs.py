"""The runs that a client knows: started, followed, stopped, and forgotten after a time."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from windlass.errors import RunNotFound, TooManyRuns

__all__ = ["RunStore", "StoredRun"]


class StoredRun(Protocol):
    """What the store needs to know of a run."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> asyncio.Task[None]: ...


R = TypeVar("R", bound=StoredRun)
F = TypeVar("F")


class RunStore(Generic[R, F]):
    """Bounded: running runs by a hard limit, finished ones by age, number and size.

    A finished run is kept in the form that `keep` gives it, or as it is. Nothing is timed in the
    background: runs whose time is over go when the store is next used.
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
        """Raises `TooManyRuns` if one more may not start now."""
        self._forget()
        if len(self._running) >= self._max_running:
            raise TooManyRuns(f"{self._max_running} runs are running, and more are not allowed")

    def add(self, run: R) -> None:
        self._forget()
        self.forget(run.id)  # one that was lost here, and is resumed now
        self._runs[run.id] = self._running[run.id] = run
        run.task.add_done_callback(lambda _: self._finish(run))

    def get(self, run_id: str) -> R | F:
        self._forget()
        try:
            return self._runs[run_id]
        except KeyError:
            raise RunNotFound(f"no run {run_id!r} is known here") from None

    def forget(self, run_id: str) -> None:
        """Lets go of a run that has ended; one that is not known is forgotten already."""
        if run_id in self._finished:
            _, size = self._finished.pop(run_id)
            del self._runs[run_id]
            self._finished_bytes -= size

    def all(self) -> list[R | F]:
        """Every run that is known, oldest first."""
        self._forget()
        return list(self._runs.values())

    def running(self) -> list[R]:
        """Those that have not finished, oldest first."""
        return list(self._running.values())

    def _finish(self, run: R) -> None:
        if self._running.get(run.id) is not run:
            return  # it was lost and resumed, which is another one
        del self._running[run.id]
        kept = self._runs[run.id] = self._keep(run)
        size = self._size_of(kept)
        self._finished[run.id] = (self._clock(), size)
        self._finished_bytes += size

    def _forget(self) -> None:
        oldest = self._clock() - self._keep_finished
        # In order of their ends: the first that may stay ends the search.
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
