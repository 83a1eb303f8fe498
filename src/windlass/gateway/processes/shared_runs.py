"""The runs of a gateway with several processes that has no configured run log."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol, Unpack

from msgspec.structs import replace

from windlass.errors import RunNotFound, StorageError
from windlass.runs.event_log import MemoryLog
from windlass.runs.records import RunFilters, RunRecord
from windlass.runs.sqlite import SQLiteLog

log = logging.getLogger("windlass.gateway")

MAX_ID_CHARS = 100
"""No run has a longer id, so longer ids are not sent to other processes."""
STEP_RUNS = 50
"""How many runs are stored in one step, which blocks the event loop for some milliseconds."""


class UnstoredRun(Protocol):
    """A run of this process, active or ended."""

    in_memory: bool
    """Whether the run is only in memory, and may be stored."""

    def content(self) -> tuple[RunRecord, MemoryLog]:
        """The record as of the start of the run, and its events."""
        ...


class OtherProcesses(Protocol):
    """The connection to the other processes of this gateway."""

    on_search: Callable[[str], Awaitable[object]] | None
    """Stores the runs that another process looks for."""

    async def search(self, run_id: str) -> None:
        """Asks the other processes to store this run, or all runs for an empty id."""
        ...


class SharedRuns(SQLiteLog):
    """A temporary file that the processes of one gateway share.

    A run that stops with its client is not written to the file. It stays in the memory of its
    process until another process looks for it, or for all runs; then its process stores it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        others: OtherProcesses,
        own_runs: Callable[[str], Iterable[UnstoredRun]],
    ) -> None:
        """`own_runs` returns the run of this process with an id, or all of them for an empty id."""
        super().__init__(path)
        self._others, self._own_runs = others, own_runs
        self._storing = asyncio.Lock()
        others.on_search = self.store_unstored

    def begin(self, record: RunRecord) -> MemoryLog:
        return super().begin(_numbered(record))

    async def store(self, record: RunRecord, events: MemoryLog) -> None:
        await super().store(_numbered(record), events)

    async def status(self, run_id: str) -> RunRecord:
        try:
            return await super().status(run_id)
        except RunNotFound:
            if len(run_id) > MAX_ID_CHARS:
                raise
            if not await self.store_unstored(run_id):
                await self._others.search(run_id)
        return await super().status(run_id)

    async def list(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Sequence[RunRecord]:
        if before is None and not filters.get("chat"):  # a run of a chat is stored at its start
            await asyncio.gather(self.store_unstored(), self._others.search(""))
        return await super().list(before=before, limit=limit, **filters)

    async def store_unstored(self, run_id: str = "") -> bool:
        """Stores the run of this process with this id, or all of them. Returns whether any was."""
        async with self._storing:  # a second search waits until the run is stored
            runs = iter([run for run in self._own_runs(run_id) if run.in_memory])
            any_stored = False
            while some := list(islice(runs, STEP_RUNS)):
                any_stored |= any(await asyncio.gather(*map(self._store_one, some)))
            return any_stored

    async def _store_one(self, run: UnstoredRun) -> bool:
        """Stores the run. If that fails, it stays in memory, and the next search tries again."""
        run.in_memory = False
        try:
            await self.store(*run.content())
        except StorageError as error:
            run.in_memory = True
            log.error("Cannot store a run for other processes: %s", error)
        return not run.in_memory


def _numbered(record: RunRecord) -> RunRecord:
    """The record with its start time as its number: runs may be stored in another order."""
    return replace(record, number=int(record.created * 1e6))
