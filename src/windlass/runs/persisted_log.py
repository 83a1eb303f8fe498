"""The log of one stored run, and the runs that this process owns.

Readers receive an event only after it is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from windlass.errors import StorageError, WindlassError, raisable
from windlass.events import (
    PartReceived,
    RunEnded,
    RunEvent,
    Status,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolRunProgress,
)
from windlass.jsontext import offloaded
from windlass.runs.encoding import are_large, encoded, in_pages
from windlass.runs.event_log import PAGE_EVENTS, MemoryLog
from windlass.runs.records import RunRecord

CAN_WAIT = frozenset(
    {
        TextDelta,
        ThoughtDelta,
        PartReceived,
        ToolCallStarted,
        ToolCallDelta,
        Status,
        ToolRunProgress,
    }
)
"""Events that a resumed run would emit again. All other events are written at once."""
COALESCE_SECONDS = 0.05


class Damaged(StorageError):
    """The stored data of a run, or the whole file, is unreadable."""


class NotWritable(StorageError):
    """One run cannot be written, and a retry would not help. Other runs are not affected."""


class TakenOver(StorageError):
    """Another process has taken over the run, and only that process may write it."""


class Batch(Struct):
    """Events of one run that are written together."""

    run_id: str
    events: Sequence[RunEvent]
    data: bytes
    on_done: "BatchCallback"
    loop: asyncio.AbstractEventLoop
    """The event loop that calls `on_done`."""
    record: RunRecord | None = None
    """The run's record; only in the first batch of a new run."""
    ended: float | None = None
    reason: str | None = None
    error: str | None = None


class BatchCallback(Protocol):
    """Called when the batch is stored, or has failed."""

    def __call__(self, batch: Batch, failure: StorageError | None) -> None: ...


class BatchWriter(Protocol):
    """Writes batches, those of one run in their order."""

    def put(self, batch: Batch) -> None: ...


class StoredLog(MemoryLog):
    """Numbers events when they are appended, and publishes them when they are stored.

    So a crash never loses an event that a reader has seen. Text deltas are written together, at
    most every 50 ms.
    """

    def __init__(
        self,
        run_id: str,
        writer: BatchWriter,
        events: Iterable[RunEvent] = (),
        *,
        record: RunRecord | None = None,
        after: int = 0,
        clock: Callable[[], float] | None = None,
        on_end: Callable[[str], None] = lambda _: None,
    ) -> None:
        """A new run has a `record`. A resumed run has its `events` instead, or the last event
        number in `after` if the events are unreadable."""
        super().__init__(events, clock)
        self._run_id, self._writer, self._record = run_id, writer, record
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._last = self._stored = self._events[-1].seq if self._events else after
        self._pending: list[RunEvent] = []
        self._alarm: asyncio.Handle | None = None
        self._hurried = False
        self._encoding: asyncio.Task[None] | None = None
        """Encodes large events off the event loop."""
        self._written_at = 0.0
        self._settling: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def settled(self) -> Callable[[], Awaitable[None]]:
        return self._settle

    @property
    def numbered(self) -> int:
        return self._last

    def extend(self, events: Sequence[RunEvent]) -> None:
        if not events or self.ended or self.closed:
            return
        now, first = self._now(), self._last + 1
        self._add([replace(event, seq=n, time=now) for n, event in enumerate(events, first)])

    def copy(self, event: RunEvent) -> None:
        """Appends the next event of another log, with its number and its time."""
        if not self.closed:
            self._add([event])

    def _add(self, events: Sequence[RunEvent]) -> None:
        self._pending += events
        self._last = events[-1].seq
        self.ended = events[-1].done
        if any(type(event) not in CAN_WAIT for event in events):
            self._hurry()
        elif self._alarm is None:
            due = self._written_at + COALESCE_SECONDS
            self._alarm = self._loop.call_at(due, self._write)

    async def _settle(self) -> None:
        if self.failure is not None:
            raise raisable(self.failure)
        if self.closed:  # nothing may start that the log does not record
            raise asyncio.CancelledError
        number = max(1, self._last)  # a run is stored with its first event
        if self._stored >= number:
            return
        self._hurry()
        stored: asyncio.Future[None] = self._loop.create_future()
        self._settling.append((number, stored))
        await stored

    async def flush_and_close(self) -> None:
        """Writes all pending events and closes. Raises `StorageError` if they cannot be written."""
        try:
            if self._last > self._stored:
                await self._settle()
        finally:
            if not self.closed:
                self.close()

    def close(self, failure: WindlassError | None = None) -> None:
        super().close(failure)
        if self._alarm is not None:
            self._alarm.cancel()
        self._pending.clear()
        self._release()
        self._on_end(self._run_id)

    def _hurry(self) -> None:
        """Writes in the next iteration of the event loop, with events that arrive until then."""
        if not self._hurried and self._pending:
            if self._alarm is not None:
                self._alarm.cancel()
            self._hurried = True
            self._alarm = self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._alarm, self._hurried = None, False
        if self._encoding is not None:  # later events are written after it
            return
        self._written_at = self._loop.time()
        events, self._pending = self._pending, []
        if not events:
            return
        if are_large(events):
            self._encoding = self._loop.create_task(self._write_large(events))
            return
        try:
            few = len(events) <= PAGE_EVENTS  # and small, so they fit in one page
            pages = [(events, encoded(events, large=False))] if few else _encoded_pages(events)
        except Exception as error:  # noqa: BLE001 - a tool's result may raise anything
            self._refuse(error)
        else:
            for page, data in pages:
                self._put(page, data)

    async def _write_large(self, events: Sequence[RunEvent]) -> None:
        """Encodes and writes large events off the event loop. Later events wait."""
        try:
            pages = await offloaded(_encoded_pages, events)
        except Exception as error:  # noqa: BLE001 - a tool's result may raise anything
            self._refuse(error)
            return
        finally:
            self._encoding = None
        if not self.closed:
            for page, data in pages:
                self._put(page, data)
            self._write()

    def _refuse(self, error: Exception) -> None:
        self.close(NotWritable(f"an event cannot be written as JSON: {error}"))

    def _put(self, events: Sequence[RunEvent], data: bytes) -> None:
        end = events[-1] if isinstance(events[-1], RunEnded) else RunEnded("answer")
        ended = (end.time, end.reason, end.error) if end.seq else (None, None, None)
        record, self._record = self._record, None
        batch = Batch(self._run_id, events, data, self._batch_done, self._loop, record, *ended)
        self._writer.put(batch)

    def _batch_done(self, batch: Batch, failure: StorageError | None) -> None:
        if self.closed:
            return
        if failure is not None:
            self.close(failure)
            return
        self._stored = batch.events[-1].seq
        self._release()
        if batch.reason is not None:
            self._on_end(self._run_id)
        self._publish(batch.events)

    def _release(self) -> None:
        """Wakes the waiters whose events are stored. If the log has failed or closed, wakes all."""
        waiting, self._settling = self._settling, []
        for number, stored in waiting:
            if stored.done():
                continue
            if self.failure is not None:
                stored.set_exception(raisable(self.failure))
            elif self.closed:
                stored.cancel()
            elif number <= self._stored:
                stored.set_result(None)
            else:
                self._settling.append((number, stored))


def _encoded_pages(events: Sequence[RunEvent]) -> list[tuple[Sequence[RunEvent], bytes]]:
    return [(page, encoded(page)) for page in in_pages(events)]


class OwnRuns:
    """The runs that this process owns. If the log of a run fails, the process still owns the run.

    No other process may resume it. This process may claim it again after its task has ended.
    """

    def __init__(self) -> None:
        self.live: dict[str, StoredLog] = {}
        """The logs of active runs."""
        self.claimed: set[str] = set()
        """Claimed runs that have not been reopened yet."""
        self._closed: dict[str, StoredLog] = {}
        """Logs that were closed before the run ended. The run's task may still be ending."""

    def add(self, run_id: str, log: StoredLog) -> StoredLog:
        self.live[run_id] = log
        self.claimed.discard(run_id)
        self._closed.pop(run_id, None)
        return log

    def remove(self, run_id: str) -> StoredLog | None:
        """Removes a run that has ended or whose log was closed; returns its log if it was live."""
        log = self.live.pop(run_id, None)
        if log is not None and log.closed:
            self._closed[run_id] = log
        return log

    def is_free(self, run_id: str) -> bool:
        """Whether no task of this process works on the run."""
        closed = self._closed.get(run_id)
        return (
            run_id not in self.live
            and run_id not in self.claimed
            and not (closed is not None and closed.in_use)
        )

    def clear(self) -> None:
        self.claimed.clear()
        self._closed.clear()
