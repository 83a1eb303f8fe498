"""`RunLog`: where runs are kept, whatever keeps them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from windlass.events import RunEvent
from windlass.runs.log import Follower, MemoryLog
from windlass.runs.records import Order, Retention, RunRecord

__all__ = ["RunLog"]


class RunLog(Protocol):
    """Keeps the events of many runs. Every method raises `StorageError` if it cannot."""

    def begin(self, record: RunRecord) -> MemoryLog:
        """The log of a new run, to be written by this process."""
        ...

    async def claim(self, wanted: Callable[[RunRecord], bool] = ...) -> list[RunRecord]:
        """The runs that were left open by a process that is gone; from now on they are ours."""
        ...

    async def reopen(self, run_id: str) -> MemoryLog:
        """The log of a claimed run with all that is in it, to be written on."""
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
        before: float | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        """The runs that are kept, newest first; `before` is a time. None does not choose."""
        ...

    async def order(self, run_id: str, order: Order) -> None:
        """Passes an order on to the process that the run goes in. Raises `RunNotFound`."""
        ...

    async def delete(self, run_id: str) -> None:
        """Forgets an ended run wholly. Raises `RunNotFound`, also for a run that goes."""
        ...

    async def expire(self, retention: Retention) -> int:
        """Forgets the ended runs that are too many; says how many those were."""
        ...

    async def aclose(self) -> None: ...
