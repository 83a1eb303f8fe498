"""`RunLog`, the interface of all run logs, and `LogHealth`, the health of one."""

from collections.abc import Callable, Sequence
from typing import Protocol, Unpack

from windlass.events import RunEvent
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.records import Order, Retention, RunFilters, RunRecord


class LogHealth:
    """Whether a log is writable.

    A failed write sets `cause`. Only a check clears it, because small writes may still succeed on a
    full disk.
    """

    def __init__(self) -> None:
        self.cause: str | None = None
        """Why the log is not writable; None if it is."""
        self.on_change: Callable[[str | None], None] | None = None
        """Called with the new cause, in any thread."""

    def failed(self, cause: str) -> None:
        self._set(cause)

    def recovered(self) -> None:
        self._set(None)

    def _set(self, cause: str | None) -> None:
        if cause != self.cause:
            self.cause = cause
            if self.on_change is not None:
                self.on_change(cause)


class RunLog(Protocol):
    """Stores the events of many runs. Every method raises `StorageError` if it fails."""

    health: LogHealth
    """Whether the log is writable."""

    async def open(self) -> None:
        """Connects to the storage. Otherwise the first use connects."""
        ...

    def begin(self, record: RunRecord) -> MemoryLog:
        """Returns the log of a new run, which this process writes."""
        ...

    async def claim(self, wanted: Callable[[RunRecord], bool] = ...) -> list[RunRecord]:
        """Claims interrupted runs for this process, and returns them.

        These are open runs of exited processes, and runs of this process whose log has failed.
        """
        ...

    async def is_interrupted(self, run_id: str) -> bool:
        """Whether the run has not ended and no process works on it. Raises `RunNotFound`."""
        ...

    async def reopen(self, run_id: str) -> MemoryLog:
        """Returns the log of a claimed run with all its events, to resume it. Raises `Damaged`."""
        ...

    async def orders(self, run_id: str) -> Sequence[Order]:
        """Returns the pending orders of a reopened run, oldest first.

        The run does not receive these orders again through its log.
        """
        ...

    async def give_up(self, record: RunRecord, reason: str) -> None:
        """Ends a claimed run whose events are unreadable with an error."""
        ...

    async def check(self) -> None:
        """Raises `StorageError` if the log is not writable; else clears `health.cause`."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        """Returns the events after a number: at least one if any, at most about `limit`."""
        ...

    def follow(self, run_id: str, after: int = 0) -> Follower:
        """Follows all events after a number, also those that another process writes."""
        ...

    async def status(self, run_id: str) -> RunRecord:
        """Raises `RunNotFound`."""
        ...

    async def list(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Sequence[RunRecord]:
        """Returns the stored runs, newest first. The order does not depend on the clock.

        `filters` select runs. With `before`, the list starts after that run.
        """
        ...

    async def order(self, run_id: str, order: Order) -> bool:
        """Sends an order to the process that owns the run. Raises `RunNotFound`.

        The order is stored on return. Returns False if another decision about the call exists.
        """
        ...

    async def delete(self, run_id: str) -> None:
        """Deletes an ended run and all its data. Raises `RunNotFound`, also for an active run."""
        ...

    async def expire(self, retention: Retention) -> int:
        """Deletes the ended runs that exceed the retention, and returns their number."""
        ...

    async def aclose(self) -> None: ...
