"""`RunLog`: where runs are kept, whatever keeps them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from windlass.events import RunEvent
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.health import LogHealth
from windlass.runs.records import Order, Retention, RunRecord

__all__ = ["RunLog"]


class RunLog(Protocol):
    """Keeps the events of many runs. Every method raises `StorageError` if it cannot."""

    health: LogHealth
    """Whether it can be written."""

    async def open(self) -> None:
        """Connects, where runs are stored elsewhere; the first use does so by itself."""
        ...

    def begin(self, record: RunRecord) -> MemoryLog:
        """The log of a new run, to be written by this process."""
        ...

    async def claim(self, wanted: Callable[[RunRecord], bool] = ...) -> list[RunRecord]:
        """The open runs of exited processes, and those of this process whose log has failed.

        From now on they belong to this process.
        """
        ...

    async def is_interrupted(self, run_id: str) -> bool:
        """Whether the run has not ended and no process works on it. Raises `RunNotFound`."""
        ...

    async def reopen(self, run_id: str) -> MemoryLog:
        """The log of a claimed run with all its events, to continue. Raises `Damaged`."""
        ...

    async def orders(self, run_id: str) -> Sequence[Order]:
        """The orders that wait for a reopened run, oldest first. No others are passed twice."""
        ...

    async def give_up(self, record: RunRecord, reason: str) -> None:
        """Ends a claimed run with an error whose events cannot be read."""
        ...

    async def check(self) -> None:
        """Raises `StorageError` if the log cannot be written; else `health` has no cause."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        """The events after that number; at least one if there is any, at most about `limit`."""
        ...

    def follow(self, run_id: str, after: int = 0) -> Follower:
        """Every event after that number, as it comes, whichever process writes it."""
        ...

    async def status(self, run_id: str) -> RunRecord:
        """Raises `RunNotFound`."""
        ...

    async def list(
        self,
        *,
        owner: str | None = None,
        chat: str | None = None,
        open: bool | None = None,
        before: RunRecord | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        """The stored runs, newest first, whatever the clock said when they began.

        `before` is the run that the list begins after. None means no filter.
        """
        ...

    async def order(self, run_id: str, order: Order) -> bool:
        """Passes an order on to the process that has the run. Raises `RunNotFound`.

        It is stored when this returns. False for a decision about a call that has one already.
        """
        ...

    async def delete(self, run_id: str) -> None:
        """Forgets an ended run wholly. Raises `RunNotFound`, also for a run that goes."""
        ...

    async def expire(self, retention: Retention) -> int:
        """Forgets the ended runs that are too many; says how many those were."""
        ...

    async def aclose(self) -> None: ...
