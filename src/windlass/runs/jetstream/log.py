"""`JetStreamLog`: runs that a fleet of processes shares, wherever they are."""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from nats.errors import MaxPayloadError

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunEvent
from windlass.jsontext import encode_json
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.health import LogHealth
from windlass.runs.jetstream.buckets import Entry
from windlass.runs.jetstream.follower import stream_follower
from windlass.runs.jetstream.keepers import Keepers
from windlass.runs.jetstream.known import KnownRuns
from windlass.runs.jetstream.orders import Orders
from windlass.runs.jetstream.streams import Append, Last, Streams
from windlass.runs.jetstream.writer import RunWriter
from windlass.runs.owned import OwnRuns
from windlass.runs.persisted_log import Batch, Damaged, NotWritable, StoredLog, TakenOver
from windlass.runs.records import Order, Retention, RunRecord, chosen, expired, place_of

__all__ = ["JetStreamLog"]

log = logging.getLogger("windlass.runs")

LEASE_SECONDS = 3.0
"""A process that has not said for so long that it lives is asked; without an answer it is gone."""
UNBEGUN_SECONDS = 120.0
DAMAGED_SECONDS = 60.0
AT_A_STRETCH = 500
"""So many records are decoded before others get their turn."""
CLOSE_SECONDS = 5.0
"""For the last words of a process that ends."""
NOBODY = b""
"""Has the runs that were left in order: whoever comes first may go on with them."""

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])
_records = msgspec.json.Decoder(RunRecord)


class JetStreamLog:
    """Belongs to one event loop. `connection` goes to `nats.connect`."""

    def __init__(
        self,
        servers: str | list[str],
        *,
        replicas: int = 1,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] | None = None,
        **connection: Any,
    ) -> None:
        self._streams = Streams(servers, replicas, lease, connection)
        self.health = LogHealth()
        self._clock = clock
        self._lease = lease
        self._name_keeper()
        self._orders = Orders(self._streams, self._obey)
        self._own = OwnRuns()
        self._live, self._claimed = self._own.live, self._own.claimed
        self._left: set[str] = set()
        """Runs that are ours, and do not go any more."""
        self._unbegun: dict[str, float] = {}
        """Since when runs are known to be open without any event."""
        self._noted: set[str] = set()
        self._known = KnownRuns()
        self._unread: dict[str, Entry | None] = {}
        """Records that have changed (None: are deleted), and are still to be read."""
        self._damaged: dict[str, float] = {}
        """Until when records rest that cannot be read, as while their runs are being deleted."""
        self._reading = asyncio.Lock()
        self._lives = False
        self._starting = asyncio.Lock()

    def begin(self, record: RunRecord) -> MemoryLog:
        writer = RunWriter(record.id, self._written)
        run = StoredLog(record.id, writer, record=record, clock=self._clock, on_end=self._let_go)
        return self._own.keep(record.id, run)

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        await self.live()
        found = await self._streams.open_runs.all()
        keepers = {entry.value.decode() for entry in found.values()}
        gone = await self._keepers.gone(keepers - {self.keeper, NOBODY.decode()})
        claimed: list[RunRecord] = []
        for run_id, (keeper, revision) in found.items():
            # What is ours and does not go here was lost on the way, as by an answer that was.
            free = keeper in (NOBODY, self.keeper.encode()) or keeper.decode() in gone
            if not free or not self._own.is_free(run_id):
                continue
            try:
                record = await self._unfinished(run_id)
            except Damaged as error:  # which is no other run's trouble
                self._note(error)
                continue
            if record is None or not wanted(record):
                continue
            if await self._streams.open_runs.replace(run_id, self.keeper.encode(), revision):
                self._claimed.add(run_id)
                claimed.append(record)
        return sorted(claimed, key=place_of)

    async def is_interrupted(self, run_id: str) -> bool:
        found = await self._streams.open_runs.get(run_id)
        if found is None:
            return False
        if found.value == self.keeper.encode():
            return self._own.is_free(run_id)
        keeper = found.value.decode()
        return found.value == NOBODY or bool(await self._keepers.gone({keeper}))

    async def reopen(self, run_id: str) -> MemoryLog:
        await self.live()
        events: list[RunEvent] = []
        after = size = 0
        try:
            async for number, data in self._streams.batches(run_id, whole=True):
                events += _decoded(run_id, data)
                after, size = number, size + len(data)
        except BaseException:
            self._claimed.discard(run_id)
            raise
        writer = RunWriter(run_id, self._written, after, size)
        self._left.discard(run_id)
        self._orders.begin_again(run_id)
        run = StoredLog(run_id, writer, events, clock=self._clock, on_end=self._let_go)
        return self._own.keep(run_id, run)

    async def orders(self, run_id: str) -> Sequence[Order]:
        return await self._orders.waiting(run_id)

    async def give_up(self, record: RunRecord, reason: str) -> None:
        last = await self._streams.last(record.id) or Last(0, b"", 0)
        writer = RunWriter(record.id, self._written, last.number, last.size)
        run = StoredLog(record.id, writer, after=record.events, clock=self._clock)
        run.append(RunEnded("error", error=reason))
        await run.leave()

    async def check(self) -> None:
        await self.live()
        await self._streams.leases.put(self.keeper, b"")
        self.health.recovered()

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events: list[RunEvent] = []
        async for _, data in self._streams.batches(run_id, whole=True):
            events += [event for event in _decoded(run_id, data) if event.seq > after]
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
        kept = await self._kept_record(run_id)
        record = kept and await self._newest(kept)
        if not record or not record.events:
            raise RunNotFound(f"no run {run_id!r} is known here")
        return record

    async def list(
        self,
        *,
        owner: str | None = None,
        chat: str | None = None,
        open: bool | None = None,
        before: RunRecord | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        await self._read_records()
        records = self._known.found(owner, chat, open, before)
        going = [self._readable(record) for record in records if record.ended is None]
        ended = (record for record in records if record.ended is not None)
        begun = (each for each in (*ended, *await asyncio.gather(*going)) if each and each.events)
        return chosen(begun, owner=owner, chat=chat, open=open, before=before, limit=limit)

    async def order(self, run_id: str, order: Order) -> bool:
        if self._obey(run_id, order):
            return True
        if (await self.status(run_id)).ended is not None:
            return order.kind == "stop"
        return await self._orders.give(run_id, order)

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"the run {run_id!r} has not ended")
        await self._streams.purge(run_id)

    async def expire(self, retention: Retention) -> int:
        gone = expired(await self.list(open=False), retention, (self._clock or time.time)())
        for record in gone:
            await self._streams.purge(record.id)
        return len(gone)

    async def aclose(self) -> None:
        if self._streams.inherited:
            return
        self._orders.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for run in list(self._live.values()):
                    with contextlib.suppress(StorageError):
                        await run.leave()
                if self._lives:
                    with contextlib.suppress(StorageError):
                        await asyncio.gather(*map(self._release, self._left))
                        await self._keepers.leave()
        self._keepers.close()
        await self._streams.aclose()

    async def open(self) -> None:
        """Connects to NATS. Raises `NatsUnreachable`, `StorageError` and `ConfigError`."""
        await self.live()

    async def live(self) -> None:
        """Says from now on that this process lives, and hears orders for its runs."""
        async with self._starting:
            if not self._lives:
                if self._process != os.getpid():  # the process has forked since the log was made
                    self._name_keeper()
                await self._keepers.join()
                await self._orders.listen()
                self._lives = True

    def _name_keeper(self) -> None:
        """No two processes have one name: each would take the runs of the other for its own."""
        self._process = os.getpid()
        self.keeper = f"keeper-{secrets.token_hex(8)}"
        self._keepers = Keepers(self._streams, self.keeper, self._lease)

    async def _written(self, batch: Batch, append: Append) -> int:
        """Writes a run's next batch, and what is known of the run at its begin and end."""
        try:
            return await self._write(batch, append)
        except TakenOver:
            raise
        except StorageError as error:
            if isinstance(error.__cause__, MaxPayloadError):
                raise NotWritable(str(error)) from error
            self.health.failed(str(error))
            raise

    async def _write(self, batch: Batch, append: Append) -> int:
        streams = self._streams
        if batch.record is not None:
            await self.live()
            # In this order: whoever finds it open finds all that was begun of it. The number of
            # that message in its stream orders runs: the clocks of a fleet do not agree.
            number = await streams.open_runs.put(append.run_id, self.keeper.encode())
            await self._keep_record(replace(batch.record, number=number))
        number = await streams.append(append)
        if isinstance(batch.events[-1], RunEnded) and (
            record := await self._kept_record(append.run_id)
        ):
            await self._close(_up_to(record, Last(number, append.data, append.size)))
        return number

    async def _close(self, record: RunRecord) -> None:
        """Writes down how a run has ended. Done once more, it does no harm."""
        await self._keep_record(record)
        await self._streams.open_runs.drop(record.id)
        await self._orders.forget(record.id)

    async def _unfinished(self, run_id: str) -> RunRecord | None:
        """An open run; None if it has ended or not begun."""
        try:
            record = await self.status(run_id)
        except RunNotFound:
            await self._forget_unbegun(run_id)
            return None
        self._unbegun.pop(run_id, None)
        if record.ended is not None:  # it was written to its end, and no further
            await self._close(record)
            return None
        return record

    async def _forget_unbegun(self, run_id: str) -> None:
        """A run whose process was gone before its first event was kept: nobody was told of it.

        Nothing is hurried here: what is on its way to a cluster may take its time.
        """
        now = asyncio.get_running_loop().time()
        if now - self._unbegun.setdefault(run_id, now) >= UNBEGUN_SECONDS:
            await self._streams.purge(run_id)
            del self._unbegun[run_id]

    async def _newest(self, record: RunRecord) -> RunRecord:
        """What is written of a run that goes is older than its events."""
        last = None if record.ended else await self._streams.last(record.id)
        return _up_to(record, last) if last else record

    async def _read_records(self) -> None:
        """Reads what is new of all records. What is not read when it fails is read next time."""
        async with self._reading:
            changes = await self._streams.records.changes()
            self._unread |= changes
            now = asyncio.get_running_loop().time()
            rest = (each for each, until in self._damaged.items() if now < until)
            waiting = self._unread.keys() - (set(rest) - changes.keys())
            for number, run_id in enumerate(waiting):
                if number % AT_A_STRETCH == 0:
                    await asyncio.sleep(0)
                await self._read_record(run_id, self._unread[run_id])

    async def _read_record(self, run_id: str, entry: Entry | None) -> None:
        if entry is None or entry.revision != self._known.revision(run_id):
            self._known.drop(run_id)
        if entry is not None and self._known.revision(run_id) is None:
            try:
                record = await self._unpacked_record(run_id, entry)
            except Damaged as error:
                self._note(error)
                self._damaged[run_id] = asyncio.get_running_loop().time() + DAMAGED_SECONDS
                return
            self._known.put(record, entry.revision)
        self._damaged.pop(run_id, None)
        del self._unread[run_id]

    async def _kept_record(self, run_id: str) -> RunRecord | None:
        entry = await self._streams.records.get(run_id)
        return entry and await self._unpacked_record(run_id, entry)

    async def _unpacked_record(self, run_id: str, entry: Entry) -> RunRecord:
        return _records.decode(await self._streams.unpacked(run_id, entry.value))

    async def _keep_record(self, record: RunRecord) -> None:
        data = await self._streams.packed(record.id, encode_json(record))
        await self._streams.records.put(record.id, data)

    async def _readable(self, record: RunRecord) -> RunRecord | None:
        try:
            return await self._newest(record)
        except Damaged:
            return None

    async def _release(self, run_id: str) -> None:
        """Lets others go on with a run of ours, now and not when we are gone."""
        found = await self._streams.open_runs.get(run_id)
        if found is not None and found.value == self.keeper.encode():
            await self._streams.open_runs.replace(run_id, NOBODY, found.revision)

    def _note(self, damage: Damaged) -> None:
        if str(damage) not in self._noted:
            self._noted.add(str(damage))
            log.error("Cannot read a run: %s", damage)

    def _obey(self, run_id: str, order: Order) -> bool:
        run = self._live.get(run_id)
        if run is None or run.on_order is None:
            return False
        run.on_order(order)
        return True

    def _let_go(self, run_id: str) -> None:
        """Nothing more is written of it here."""
        run = self._own.let_go(run_id)
        if run is not None and run.closed:
            self._left.add(run_id)
            self._orders.begin_again(run_id)


def _up_to(record: RunRecord, last: Last) -> RunRecord:
    """What is known of a run whose log has come to this batch."""
    event = _decoded(record.id, last.data)[-1]
    record = replace(record, events=event.seq, size=last.size)
    if not isinstance(event, RunEnded):
        return record
    return replace(record, ended=event.time, reason=event.reason, error=event.error)


def _decoded(run_id: str, data: bytes) -> Sequence[RunEvent]:
    try:
        return _events.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the log of the run {run_id} is damaged: {error}") from error
