"""`JetStreamLog`: a run log in NATS JetStream, shared by a fleet of processes."""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias, Unpack

import msgspec
from msgspec.structs import replace
from nats.errors import MaxPayloadError

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunEvent
from windlass.jsontext import encode_json
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.jetstream.follower import stream_follower
from windlass.runs.jetstream.leases import ProcessLeases
from windlass.runs.jetstream.orders import Orders
from windlass.runs.jetstream.streams import Append, BucketEntry, Last, Streams
from windlass.runs.persisted_log import Batch, Damaged, NotWritable, OwnRuns, StoredLog, TakenOver
from windlass.runs.protocol import LogHealth
from windlass.runs.records import (
    Order,
    Retention,
    RunFilter,
    RunFilters,
    RunRecord,
    expired,
    newest_first,
    start_order,
)

log = logging.getLogger("windlass.runs")

LEASE_SECONDS = 3.0
"""A process that does not renew its lease for this long is pinged. Without answer, it has exited.
"""
UNSTARTED_SECONDS = 120.0
"""How long a run may be open without any event before it is deleted."""
DAMAGED_SECONDS = 60.0
"""How long to wait before an unreadable record is read again."""
DECODE_BATCH = 500
"""The number of records that are decoded before other tasks run."""
FILTER_BATCH = 5_000
"""The number of records that are filtered before other tasks run."""
CLOSE_SECONDS = 5.0
"""How long closing may take."""
UNOWNED = b""
"""The owner of released runs, which any process may claim."""

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])
_records = msgspec.json.Decoder(RunRecord)

RunPlace: TypeAlias = tuple[int, float, str]
"""The place of a run in the order of starts, and its id."""
Write: TypeAlias = Callable[[Batch, Append], Awaitable[int]]
"""Writes a batch and returns the number of its message."""


class KnownRuns:
    """Cached run records, with indexes by owner, chat and state."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}
        self._revisions: dict[str, int] = {}
        self._by_chat: dict[str, set[str]] = {}
        self._by_owner: dict[str, list[RunPlace]] = {}
        """The runs of each owner, oldest first."""
        self._open: set[str] = set()

    def revision(self, run_id: str) -> int | None:
        """Returns the revision of the cached record; None if there is none."""
        return self._revisions.get(run_id)

    def put(self, record: RunRecord, revision: int) -> None:
        self.drop(record.id)
        self._records[record.id] = record
        self._revisions[record.id] = revision
        insort(self._by_owner.setdefault(record.owner, []), _place(record))
        if record.chat:
            self._by_chat.setdefault(record.chat, set()).add(record.id)
        if record.ended is None:
            self._open.add(record.id)

    def drop(self, run_id: str) -> None:
        record = self._records.pop(run_id, None)
        if record is None:
            return
        del self._revisions[run_id]
        self._open.discard(run_id)
        places = self._by_owner[record.owner]
        del places[bisect_left(places, _place(record))]
        if not places:
            del self._by_owner[record.owner]
        if record.chat:
            runs = self._by_chat[record.chat]
            runs.discard(run_id)
            if not runs:
                del self._by_chat[record.chat]

    def open(self) -> list[RunRecord]:
        """Returns the runs whose records are open. They may have ended since."""
        return [self._records[run_id] for run_id in self._open]

    def newest(
        self, owner: str | None, chat: str | None, before: RunRecord | None
    ) -> Iterable[RunRecord]:
        """Yields the runs of an owner and a chat, newest first. Skips runs that are dropped
        meanwhile."""
        places = self._places(owner, chat)
        end = len(places) if before is None else bisect_left(places, start_order(before))
        known = map(self._records.get, (run_id for _, _, run_id in reversed(places[:end])))
        return filter(None, known)

    def _places(self, owner: str | None, chat: str | None) -> Sequence[RunPlace]:
        if chat:
            return sorted(_place(self._records[run_id]) for run_id in self._by_chat.get(chat, ()))
        if owner is None:
            return sorted(chain.from_iterable(self._by_owner.values()))
        return self._by_owner.get(owner, ())


def _place(record: RunRecord) -> RunPlace:
    return (*start_order(record), record.id)


class RunWriter:
    """Writes the batches of one run, one after another, while this process owns the run."""

    def __init__(self, run_id: str, write: Write, after: int = 0, size: int = 0) -> None:
        """`after` is the number of the last message, `size` the size of the log so far."""
        self._run_id, self._write = run_id, write
        self._after, self._size = after, size
        self._name = secrets.token_hex(8)
        self._batches: deque[Batch] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._size += len(batch.data)
            try:
                self._after = await self._write(batch, self._append(batch))
            except Exception as error:  # noqa: BLE001 - the run must learn of every failure
                self._batches.clear()  # nothing is written after a gap
                known = isinstance(error, StorageError)
                batch.on_done(
                    batch, error if known else StorageError(f"cannot write run log: {error!r}")
                )
            else:
                batch.on_done(batch, None)

    def _append(self, batch: Batch) -> Append:
        # The name distinguishes this writer's earlier attempts from messages of others.
        name = f"{self._run_id}:{batch.events[0].seq}:{self._name}"
        return Append(self._run_id, batch.data, self._after, self._size, name)


class JetStreamLog:
    """A run log in NATS JetStream, for one event loop. `connection` goes to `nats.connect`."""

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
        self._name_process()
        self._orders = Orders(self._streams, self._handle_order)
        self._own = OwnRuns()
        self._live, self._claimed = self._own.live, self._own.claimed
        self._left: set[str] = set()
        """Runs that this process owns, and whose logs it has closed."""
        self._unstarted: dict[str, float] = {}
        """When each open run without any event was first seen."""
        self._logged: set[str] = set()
        self._known = KnownRuns()
        self._unread: dict[str, BucketEntry | None] = {}
        """Changed records (None: deleted) that have not been read yet."""
        self._damaged: dict[str, float] = {}
        """When to read each unreadable record again. Its run may be in the process of deletion."""
        self._reading = asyncio.Lock()
        self._started = False
        self._starting = asyncio.Lock()

    def begin(self, record: RunRecord) -> MemoryLog:
        writer = RunWriter(record.id, self._written)
        run = StoredLog(record.id, writer, record=record, clock=self._clock, on_end=self._on_end)
        return self._own.add(record.id, run)

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        await self.live()
        found = await self._streams.open_runs.all()
        owners = {entry.value.decode() for entry in found.values()}
        exited = await self._leases.exited(owners - {self.process_name, UNOWNED.decode()})
        claimed: list[RunRecord] = []
        for run_id, (owner, revision) in found.items():
            # This process may own a run without running it, if an answer of NATS was lost.
            free = owner in (UNOWNED, self.process_name.encode()) or owner.decode() in exited
            if not free or not self._own.is_free(run_id):
                continue
            try:
                record = await self._unfinished(run_id)
            except Damaged as error:  # other runs are not affected
                self._log_once(error)
                continue
            if record is None or not wanted(record):
                continue
            if await self._streams.open_runs.replace(run_id, self.process_name.encode(), revision):
                self._claimed.add(run_id)
                claimed.append(record)
        return sorted(claimed, key=start_order)

    async def is_interrupted(self, run_id: str) -> bool:
        found = await self._streams.open_runs.get(run_id)
        if found is None:
            return False
        if found.value == self.process_name.encode():
            return self._own.is_free(run_id)
        owner = found.value.decode()
        return found.value == UNOWNED or bool(await self._leases.exited({owner}))

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
        self._orders.reset(run_id)
        run = StoredLog(run_id, writer, events, clock=self._clock, on_end=self._on_end)
        return self._own.add(run_id, run)

    async def orders(self, run_id: str) -> Sequence[Order]:
        return await self._orders.waiting(run_id)

    async def give_up(self, record: RunRecord, reason: str) -> None:
        last = await self._streams.last(record.id) or Last(0, b"", 0)
        writer = RunWriter(record.id, self._written, last.number, last.size)
        run = StoredLog(record.id, writer, after=record.events, clock=self._clock)
        run.append(RunEnded("error", error=reason))
        await run.flush_and_close()

    async def check(self) -> None:
        await self.live()
        await self._streams.leases.put(self.process_name, b"")
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
        stored = await self._stored_record(run_id)
        record = stored and await self._newest(stored)
        if not record or not record.events:
            raise RunNotFound(f"run {run_id!r} not found")
        return record

    async def list(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Sequence[RunRecord]:
        wanted = RunFilter(**filters)
        await self._read_records()
        active = filter(wanted.may_match, self._known.open())
        newest = await asyncio.gather(*map(self._readable, active))
        found = [each for each in newest if each and each.events and wanted.matches(each)]
        if not wanted.open:  # by id, since an active run may have ended meanwhile
            ended = await self._ended(wanted, before, limit)
            found = {each.id: each for each in (*found, *ended)}.values()
        return newest_first(found, before, limit)

    async def _ended(
        self, wanted: RunFilter, before: RunRecord | None, limit: int | None
    ) -> Sequence[RunRecord]:
        """Returns the newest runs that match and whose records have an end."""
        found: list[RunRecord] = []
        newest = self._known.newest(wanted.owner, wanted.chat, before)
        for number, record in enumerate(newest, 1):
            if len(found) == limit:
                break
            if record.ended is not None and wanted.matches(record):
                found.append(record)
            if number % FILTER_BATCH == 0:
                await asyncio.sleep(0)
        return found

    async def order(self, run_id: str, order: Order) -> bool:
        if self._handle_order(run_id, order):
            return True
        if (await self.status(run_id)).ended is not None:
            return order.kind == "stop"
        return await self._orders.give(run_id, order)

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"run {run_id!r} has not ended")
        await self._streams.purge(run_id)

    async def expire(self, retention: Retention) -> int:
        now = (self._clock or time.time)()
        too_old = await asyncio.to_thread(expired, await self.list(open=False), retention, now)
        for record in too_old:
            await self._streams.purge(record.id)
        return len(too_old)

    async def aclose(self) -> None:
        if self._streams.inherited:
            return
        self._orders.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for run in list(self._live.values()):
                    with contextlib.suppress(StorageError):
                        await run.flush_and_close()
                if self._started:
                    with contextlib.suppress(StorageError):
                        await asyncio.gather(*map(self._release, self._left))
                        await self._leases.leave()
        self._leases.close()
        await self._streams.aclose()

    async def open(self) -> None:
        """Connects to NATS. Raises `NatsUnreachable`, `StorageError` and `ConfigError`."""
        await self.live()

    async def live(self) -> None:
        """Starts renewing this process's lease and handling orders for its runs."""
        async with self._starting:
            if not self._started:
                if self._process != os.getpid():  # the process forked after the log was created
                    self._name_process()
                await self._leases.join()
                await self._orders.listen()
                self._started = True

    def _name_process(self) -> None:
        """Gives this process a unique name, so that it owns no runs of other processes."""
        self._process = os.getpid()
        self.process_name = f"keeper-{secrets.token_hex(8)}"
        self._leases = ProcessLeases(self._streams, self.process_name, self._lease)

    async def _written(self, batch: Batch, append: Append) -> int:
        """Writes a run's next batch, and its record at the start and at the end."""
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
            # The owner first, so that other processes find every started run. The number of this
            # message gives the order of runs, since the clocks of a fleet do not agree.
            number = await streams.open_runs.put(append.run_id, self.process_name.encode())
            await self._store_record(replace(batch.record, number=number))
        number = await streams.append(append)
        if isinstance(batch.events[-1], RunEnded) and (
            record := await self._stored_record(append.run_id)
        ):
            await self._close(_updated(record, Last(number, append.data, append.size)))
        return number

    async def _close(self, record: RunRecord) -> None:
        """Stores the end of a run. It is safe to repeat."""
        await self._store_record(record)
        await self._streams.open_runs.drop(record.id)
        await self._orders.forget(record.id)

    async def _unfinished(self, run_id: str) -> RunRecord | None:
        """Returns an open run; None if it has ended or has no events yet."""
        try:
            record = await self.status(run_id)
        except RunNotFound:
            await self._delete_unstarted(run_id)
            return None
        self._unstarted.pop(run_id, None)
        if record.ended is not None:  # its last event was stored, but not its end in the record
            await self._close(record)
            return None
        return record

    async def _delete_unstarted(self, run_id: str) -> None:
        """Deletes a run whose process exited before its first event was stored.

        No client knows its id. Waits before the deletion, since the first event may still arrive.
        """
        now = asyncio.get_running_loop().time()
        if now - self._unstarted.setdefault(run_id, now) >= UNSTARTED_SECONDS:
            await self._streams.purge(run_id)
            del self._unstarted[run_id]

    async def _newest(self, record: RunRecord) -> RunRecord:
        """Updates the record of an active run from its newest events."""
        last = None if record.ended else await self._streams.last(record.id)
        return _updated(record, last) if last else record

    async def _read_records(self) -> None:
        """Reads all changed records. After a failure, the next call reads the rest."""
        async with self._reading:
            changes = await self._streams.records.changes()
            self._unread |= changes
            now = asyncio.get_running_loop().time()
            skipped = (each for each, until in self._damaged.items() if now < until)
            waiting = self._unread.keys() - (set(skipped) - changes.keys())
            for number, run_id in enumerate(waiting):
                if number % DECODE_BATCH == 0:
                    await asyncio.sleep(0)
                await self._read_record(run_id, self._unread[run_id])

    async def _read_record(self, run_id: str, entry: BucketEntry | None) -> None:
        if entry is None or entry.revision != self._known.revision(run_id):
            self._known.drop(run_id)
        if entry is not None and self._known.revision(run_id) is None:
            try:
                record = await self._unpacked_record(run_id, entry)
            except Damaged as error:
                self._log_once(error)
                self._damaged[run_id] = asyncio.get_running_loop().time() + DAMAGED_SECONDS
                return
            self._known.put(record, entry.revision)
        self._damaged.pop(run_id, None)
        del self._unread[run_id]

    async def _stored_record(self, run_id: str) -> RunRecord | None:
        entry = await self._streams.records.get(run_id)
        return entry and await self._unpacked_record(run_id, entry)

    async def _unpacked_record(self, run_id: str, entry: BucketEntry) -> RunRecord:
        return _records.decode(await self._streams.unpacked(run_id, entry.value))

    async def _store_record(self, record: RunRecord) -> None:
        data = await self._streams.packed(record.id, encode_json(record))
        await self._streams.records.put(record.id, data)

    async def _readable(self, record: RunRecord) -> RunRecord | None:
        try:
            return await self._newest(record)
        except Damaged:
            return None

    async def _release(self, run_id: str) -> None:
        """Lets other processes claim a run of this process now, before it exits."""
        found = await self._streams.open_runs.get(run_id)
        if found is not None and found.value == self.process_name.encode():
            await self._streams.open_runs.replace(run_id, UNOWNED, found.revision)

    def _log_once(self, damage: Damaged) -> None:
        if str(damage) not in self._logged:
            self._logged.add(str(damage))
            log.error("Cannot read run: %s", damage)

    def _handle_order(self, run_id: str, order: Order) -> bool:
        run = self._live.get(run_id)
        if run is None or run.on_order is None:
            return False
        run.on_order(order)
        return True

    def _on_end(self, run_id: str) -> None:
        """Called when this process no longer writes the run."""
        run = self._own.remove(run_id)
        if run is not None and run.closed:
            self._left.add(run_id)
            self._orders.reset(run_id)


def _updated(record: RunRecord, last: Last) -> RunRecord:
    """Returns the record, updated from the newest batch."""
    event = _decoded(record.id, last.data)[-1]
    record = replace(record, events=event.seq, size=last.size)
    if not isinstance(event, RunEnded):
        return record
    return replace(record, ended=event.time, reason=event.reason, error=event.error)


def _decoded(run_id: str, data: bytes) -> Sequence[RunEvent]:
    try:
        return _events.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the log of run {run_id} is damaged: {error}") from error
