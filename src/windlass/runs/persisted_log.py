"""The log of one run that is kept: readers see what is written, and nothing before it is."""

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

__all__ = ["Batch", "BatchWriter", "Damaged", "NotWritable", "StoredLog", "TakenOver"]

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
"""What would be said again if it were lost. Everything else is written at once."""
COALESCE_SECONDS = 0.05


class Damaged(StorageError):
    """What is stored of a run, or the file itself, cannot be read."""


class NotWritable(StorageError):
    """One run cannot be written, and could not be if it was tried again; others can."""


class TakenOver(StorageError):
    """Another process has taken the run over: only that one writes it now."""


class Batch(Struct):
    """Events of one run that are written at once, and who is told."""

    run_id: str
    events: Sequence[RunEvent]
    data: bytes
    told: "Told"
    loop: asyncio.AbstractEventLoop
    """Where `told` is called."""
    record: RunRecord | None = None
    """With the first batch of a run: what is known of it."""
    ended: float | None = None
    reason: str | None = None
    error: str | None = None


class Told(Protocol):
    """Called when the batch is kept, or cannot be."""

    def __call__(self, batch: Batch, failure: StorageError | None) -> None: ...


class BatchWriter(Protocol):
    """What takes batches in, and writes those of one run in their order."""

    def put(self, batch: Batch) -> None: ...


class StoredLog(MemoryLog):
    """Numbers events when they come, and shows them to readers when they are kept.

    So a reader that comes back after a crash has never seen a number that is not kept.
    Text is written at most every 50 ms, together.
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
        """`record` is that of a new run; a resumed one has its `events` instead, or the number
        that it continues `after` if they cannot be read."""
        super().__init__(events, clock)
        self._run_id, self._writer, self._record = run_id, writer, record
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._last = self._kept = self._events[-1].seq if self._events else after
        self._pending: list[RunEvent] = []
        self._alarm: asyncio.Handle | None = None
        self._hurried = False
        self._encoding: asyncio.Task[None] | None = None
        """Large events that are encoded off the event loop."""
        self._written_at = 0.0
        self._settling: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def settled(self) -> Callable[[], Awaitable[None]]:
        return self._settle

    @property
    def numbered(self) -> int:
        return self._last

    def append(self, event: RunEvent) -> None:
        if self.ended or self.closed:
            return
        self._last += 1
        self._pending.append(replace(event, seq=self._last, time=self._now()))
        self.ended = event.done
        if type(event) not in CAN_WAIT:
            self._hurry()
        elif self._alarm is None:
            due = self._written_at + COALESCE_SECONDS
            self._alarm = self._loop.call_at(due, self._write)

    async def _settle(self) -> None:
        if self.failure is not None:
            raise raisable(self.failure)
        if self.closed:  # nothing may begin that the log will not know of
            raise asyncio.CancelledError
        number = max(1, self._last)  # a run is kept once its first event is
        if self._kept >= number:
            return
        self._hurry()
        kept: asyncio.Future[None] = self._loop.create_future()
        self._settling.append((number, kept))
        await kept

    async def leave(self) -> None:
        """Writes what is there and closes. Raises `StorageError` if that cannot be written."""
        try:
            if self._last > self._kept:
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
        """Writes as soon as what else happens in this moment has been said too."""
        if not self._hurried and self._pending:
            if self._alarm is not None:
                self._alarm.cancel()
            self._hurried = True
            self._alarm = self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._alarm, self._hurried = None, False
        if self._encoding is not None:  # what has come since is written after it
            return
        self._written_at = self._loop.time()
        events, self._pending = self._pending, []
        if not events:
            return
        if are_large(events):
            self._encoding = self._loop.create_task(self._write_large(events))
            return
        try:
            few = len(events) <= PAGE_EVENTS  # and small, so that they are one page
            pages = [(events, encoded(events))] if few else _encoded_pages(events)
        except Exception as error:  # noqa: BLE001 - whatever a tool has put into its result
            self._refuse(error)
        else:
            for page, data in pages:
                self._put(page, data)

    async def _write_large(self, events: Sequence[RunEvent]) -> None:
        """The same off the event loop; later events wait."""
        try:
            pages = await offloaded(_encoded_pages, events)
        except Exception as error:  # noqa: BLE001 - whatever a tool has put into its result
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
        batch = Batch(self._run_id, events, data, self._told, self._loop, record, *ended)
        self._writer.put(batch)

    def _told(self, batch: Batch, failure: StorageError | None) -> None:
        if self.closed:
            return
        if failure is not None:
            self.close(failure)
            return
        self._kept = batch.events[-1].seq
        self._release()
        if batch.reason is not None:
            self._on_end(self._run_id)
        for event in batch.events:
            self._publish(event)

    def _release(self) -> None:
        """Lets those go on who wait for what is kept now, or never will be."""
        waiting, self._settling = self._settling, []
        for number, kept in waiting:
            if kept.done():
                continue
            if self.failure is not None:
                kept.set_exception(raisable(self.failure))
            elif self.closed:
                kept.cancel()
            elif number <= self._kept:
                kept.set_result(None)
            else:
                self._settling.append((number, kept))


def _encoded_pages(events: Sequence[RunEvent]) -> list[tuple[Sequence[RunEvent], bytes]]:
    return [(page, encoded(page)) for page in in_pages(events)]
