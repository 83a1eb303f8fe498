"""`JetStreamLog`: runs that a fleet of processes shares, wherever they are."""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunEvent
from windlass.jsontext import encode_json
from windlass.messaging.connection import NatsError
from windlass.runs.jetstream.follower import stream_follower
from windlass.runs.jetstream.streams import Streams, TakenOver
from windlass.runs.log import Follower, MemoryLog
from windlass.runs.records import Order, Retention, RunRecord, chosen, expired
from windlass.runs.stored import Batch, StoredLog

__all__ = ["JetStreamLog"]

LEASE_SECONDS = 3.0
"""A process that has not said for so long that it lives has lost its runs to the others."""
ORDER_SECONDS = 0.1
"""How often orders are looked through while this process lives."""

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])
_records = msgspec.json.Decoder(RunRecord)
_order = msgspec.json.Decoder(Order)


class JetStreamLog:
    """Belongs to one event loop. `connection` goes to `nats.connect`."""

    def __init__(
        self,
        servers: str | list[str],
        *,
        replicas: int = 1,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
        **connection: Any,
    ) -> None:
        self._streams = Streams(servers, replicas, lease, connection)
        self._lease, self._clock = lease, clock
        self.keeper = f"keeper-{secrets.token_hex(8)}"
        self._live: dict[str, StoredLog] = {}
        self._writers: dict[str, _RunWriter] = {}
        self._living: list[asyncio.Task[None]] = []
        self._orders: dict[str, Order] = {}
        """By run and a number of their own."""
        self._obeyed: set[str] = set()
        self._starting = asyncio.Lock()

    def begin(self, record: RunRecord) -> MemoryLog:
        writer = self._writers[record.id] = _RunWriter(self, record.id)
        log = StoredLog(record.id, writer, record=record, clock=self._clock, on_end=self._forget)
        self._live[record.id] = log
        return log

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        await self.live()
        streams = self._streams
        leases = await streams.all(streams.leases)
        claimed: list[RunRecord] = []
        for run_id, (keeper, revision) in (await streams.all(streams.open_runs)).items():
            if keeper.decode() in leases or run_id in self._live:
                continue
            try:
                record = await self.status(run_id)
            except RunNotFound:
                continue
            if record.ended is not None:  # it was written to its end, and no further
                await self._close(record)
                continue
            if not wanted(record):
                continue
            if await streams.put(streams.open_runs, run_id, self.keeper.encode(), revision):
                claimed.append(record)
        return sorted(claimed, key=lambda record: record.created)

    async def reopen(self, run_id: str) -> MemoryLog:
        await self.live()
        writer = self._writers[run_id] = _RunWriter(self, run_id)
        events: list[RunEvent] = []
        async for number, data in self._streams.batches(run_id, direct=False):
            events += _events.decode(data)
            writer.after = number
            writer.size += len(data)
        log = StoredLog(run_id, writer, events, clock=self._clock, on_end=self._forget)
        self._live[run_id] = log
        return log

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events: list[RunEvent] = []
        async for _, data in self._streams.batches(run_id):
            events += [event for event in _events.decode(data) if event.seq > after]
            if limit is not None and len(events) >= limit:
                break
        if not events:
            await self.status(run_id)
        return events

    def follow(self, run_id: str, after: int = 0) -> Follower:
        live = self._live.get(run_id)
        if live is not None:
            return live.follow(after)
        return stream_follower(self._streams, run_id, after, lambda: self.status(run_id))

    async def status(self, run_id: str) -> RunRecord:
        streams = self._streams
        await streams.connection()
        found = await streams.get(streams.records, run_id)
        if found is None:
            raise RunNotFound(f"no run {run_id!r} is known here")
        record = _records.decode(found[0])
        if record.ended is None and (last := await streams.last(run_id)):
            record = _up_to(record, _events.decode(last[0])[-1], last[1])
        return record

    async def list(
        self,
        *,
        owner: str | None = None,
        chat: str | None = None,
        open: bool | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        streams = self._streams
        await streams.connection()
        kept = await streams.all(streams.records)
        records = [_records.decode(data) for data, _ in kept.values()]
        # What is written of a run that goes is older than its events.
        records = [each if each.ended else await self.status(each.id) for each in records]
        return chosen(records, owner=owner, chat=chat, open=open, limit=limit)

    async def order(self, run_id: str, order: Order) -> None:
        live = self._live.get(run_id)
        if live is not None and live.on_order is not None:
            live.on_order(order)
            return
        if (await self.status(run_id)).ended is None:
            key = f"{run_id}.{secrets.token_hex(8)}"
            await self._streams.put(self._streams.orders, key, encode_json(order))

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"the run {run_id!r} has not ended")
        await self._streams.purge(run_id)

    async def expire(self, retention: Retention) -> int:
        gone = expired(await self.list(open=False), retention, self._clock())
        for record in gone:
            await self._streams.purge(record.id)
        return len(gone)

    async def aclose(self) -> None:
        for log in list(self._live.values()):
            with contextlib.suppress(StorageError):
                await log.leave()
        if self._living:
            for task in self._living:
                task.cancel()
            with contextlib.suppress(NatsError, TimeoutError):
                await self._streams.leases.delete(self.keeper)
            self._living = []
        await self._streams.aclose()

    async def live(self) -> None:
        """Says from now on that this process lives, and hears orders for its runs."""
        async with self._starting:
            if self._living:
                return
            await self._streams.connection()
            await self._streams.put(self._streams.leases, self.keeper, b"")
            self._living = [
                asyncio.create_task(work)
                for work in (self._keep_living(), self._hear_orders(), self._obey_orders())
            ]

    async def written(self, run_id: str, batch: Batch, after: int, size: int) -> int:
        """Writes a run's next batch, and what is known of the run at its begin and end."""
        streams = self._streams
        if batch.record is not None:
            await self.live()
            await streams.put(streams.records, run_id, encode_json(batch.record))
            await streams.put(streams.open_runs, run_id, self.keeper.encode())
        try:
            number = await streams.append(run_id, batch.data, batch.events[0].seq, after, size)
        except TakenOver:
            self._live.pop(run_id, None)
            raise
        end = batch.events[-1]
        if isinstance(end, RunEnded) and (found := await streams.get(streams.records, run_id)):
            await self._close(_up_to(_records.decode(found[0]), end, size))
        return number

    async def _close(self, record: RunRecord) -> None:
        """Writes down how a run has ended. Done once more, it does no harm."""
        streams = self._streams
        await streams.put(streams.records, record.id, encode_json(record))
        await streams.drop(streams.open_runs, record.id)
        for key in [key for key in self._orders if key.startswith(f"{record.id}.")]:
            await streams.drop(streams.orders, key)

    async def _keep_living(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with contextlib.suppress(StorageError):
                await self._streams.put(self._streams.leases, self.keeper, b"")

    async def _hear_orders(self) -> None:
        """What is asked of runs, wherever they go."""
        async for key, data in self._streams.watch(self._streams.orders):
            if data:
                self._orders[key] = _order.decode(data)
            else:
                self._orders.pop(key, None)
                self._obeyed.discard(key)

    async def _obey_orders(self) -> None:
        """Each once. They stay until their run has ended: what came of them may not be kept yet."""
        while True:
            await asyncio.sleep(ORDER_SECONDS)
            for key, order in list(self._orders.items()):
                log = self._live.get(key.partition(".")[0])
                if log is not None and log.on_order is not None and key not in self._obeyed:
                    self._obeyed.add(key)
                    log.on_order(order)

    def _forget(self, run_id: str) -> None:
        self._live.pop(run_id, None)
        self._writers.pop(run_id, None)


def _up_to(record: RunRecord, last: RunEvent, size: int) -> RunRecord:
    """What is known of a run whose log has come to this event."""
    record = replace(record, events=last.seq, size=size)
    if not isinstance(last, RunEnded):
        return record
    return replace(record, ended=last.time, reason=last.reason, error=last.error)


class _RunWriter:
    """Writes the batches of one run, one after another."""

    def __init__(self, log: JetStreamLog, run_id: str) -> None:
        self._log, self._run_id = log, run_id
        self._batches: deque[Batch] = deque()
        self._task: asyncio.Task[None] | None = None
        self.after = 0
        """The number of the message that the next one comes behind."""
        self.size = 0

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            try:
                self.size += len(batch.data)
                self.after = await self._log.written(self._run_id, batch, self.after, self.size)
            except StorageError as error:
                batch.told(batch, error)
            except Exception as error:  # noqa: BLE001 - the run is told, and does not wait for ever
                batch.told(batch, StorageError(f"the log failed: {error!r}"))
            else:
                batch.told(batch, None)
