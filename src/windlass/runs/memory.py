"""`MemoryRunLog`: a run log in memory, which is lost when the process exits."""

import time
from collections.abc import Callable, Sequence
from typing import Unpack

from msgspec.structs import replace

from windlass.errors import RunNotFound
from windlass.events import RunEnded, RunEvent
from windlass.runs.encoding import encoded
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.protocol import LogHealth
from windlass.runs.records import (
    Order,
    Retention,
    RunFilter,
    RunFilters,
    RunRecord,
    expired,
    newest_first,
)


class MemoryRunLog:
    """A `RunLog` in memory. It never has runs of exited processes to claim."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.health = LogHealth()
        self._clock = clock
        self._last_number = 0
        self._runs: dict[str, tuple[RunRecord, MemoryLog]] = {}

    async def open(self) -> None:
        """Does nothing: memory needs no connection."""

    def begin(self, record: RunRecord) -> MemoryLog:
        log = MemoryLog(clock=self._clock)
        self._last_number += 1
        self._runs[record.id] = (replace(record, number=self._last_number), log)
        return log

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        return []

    async def is_interrupted(self, run_id: str) -> bool:
        log = self._run(run_id)[1]
        return log.closed and not log.ended

    async def reopen(self, run_id: str) -> MemoryLog:
        return self._run(run_id)[1]

    async def orders(self, run_id: str) -> Sequence[Order]:
        return ()

    async def give_up(self, record: RunRecord, reason: str) -> None:
        self._run(record.id)[1].append(RunEnded("error", error=reason))

    async def check(self) -> None:
        """Does nothing: memory is always writable."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events = self._run(run_id)[1].recorded()
        return list(events[after : None if limit is None else after + limit])

    def follow(self, run_id: str, after: int = 0) -> Follower:
        return self._run(run_id)[1].follow(after)

    async def status(self, run_id: str) -> RunRecord:
        self._run(run_id)
        return self._now(run_id)

    async def list(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Sequence[RunRecord]:
        wanted = RunFilter(**filters)
        records = map(self._now, self._runs)
        return newest_first(filter(wanted.matches, records), before, limit)

    async def order(self, run_id: str, order: Order) -> bool:
        log = self._run(run_id)[1]
        if log.on_order is not None and not log.ended:
            log.on_order(order)
        return True

    async def delete(self, run_id: str) -> None:
        if not self._run(run_id)[1].ended:
            raise RunNotFound(f"run {run_id!r} has not ended")
        del self._runs[run_id]

    async def expire(self, retention: Retention) -> int:
        ended = [record for record in await self.list(open=False) if record.ended is not None]
        too_old = expired(ended, retention, (self._clock or time.time)())
        for record in too_old:
            del self._runs[record.id]
        return len(too_old)

    async def aclose(self) -> None:
        self._runs.clear()

    def _run(self, run_id: str) -> tuple[RunRecord, MemoryLog]:
        try:
            return self._runs[run_id]
        except KeyError:
            raise RunNotFound(f"run {run_id!r} not found") from None

    def _now(self, run_id: str) -> RunRecord:
        record, log = self._runs[run_id]
        if record.ended is None:
            record = _up_to_date(record, log)
            if record.ended is not None:  # remember it: computing the size encodes all events
                self._runs[run_id] = (record, log)
        return record


def _up_to_date(record: RunRecord, log: MemoryLog) -> RunRecord:
    events = log.recorded()
    record = replace(record, events=len(events), size=len(encoded(events)))
    last = events[-1] if events else None
    if not isinstance(last, RunEnded):
        return record
    return replace(record, ended=last.time, reason=last.reason, error=last.error)
