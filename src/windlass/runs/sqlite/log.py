"""`SQLiteLog`: a run log in one SQLite file, shared by the processes of one machine."""

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, Unpack

import msgspec

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunEvent
from windlass.runs.event_log import Follower, MemoryLog, PollingFollower
from windlass.runs.persisted_log import OwnRuns, StoredLog
from windlass.runs.protocol import LogHealth
from windlass.runs.records import Order, Retention, RunFilter, RunFilters, RunRecord
from windlass.runs.sqlite import database, process_locks, queries
from windlass.runs.sqlite.connection import ThreadConnection
from windlass.runs.sqlite.database import (
    Synchronous,
    check_room,
    connect,
    delete_step,
    empty_journal,
    free_pages,
    is_broken,
    readable_errors,
    transaction,
)
from windlass.runs.sqlite.writer import Writer
from windlass.threads import DaemonThreads

log = logging.getLogger("windlass.runs")

T = TypeVar("T")
READERS = 4
STEP_RUNS = 100
"""How many runs one step of an expiry deletes, which blocks writers for some milliseconds."""
STEP_PAUSE = 0.01
"""The minimum pause between two steps, in seconds. A pause is at least as long as its step."""
ORDER_SECONDS = 0.2
"""How often to check for orders from other processes, while this process has active runs."""

_orders = msgspec.json.Decoder(Order)


class SQLiteLog:
    """The first use opens the file. `synchronous="full"` syncs every write to disk.

    A second file reserves `reserve` bytes, so that a stop can be stored on a full disk.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        reserve: int = 0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._synchronous: Synchronous = synchronous
        self.health = LogHealth()
        self._writer = Writer(self.path, synchronous, self.health, reserve)
        self._readers: DaemonThreads | None = None
        self._connections: list[ThreadConnection] = []
        self._local = threading.local()
        self._own = OwnRuns()
        self._live = self._own.live
        self._orders: asyncio.Task[None] | None = None
        self._process: int | None = None
        """The process that has the file open. Its forks do not have its threads or runs."""
        self._handled: set[tuple[int, str]] = set()

    async def open(self) -> None:
        """Does nothing: the first use opens the file."""

    def begin(self, record: RunRecord) -> MemoryLog:
        self._check_process()
        return self._begin(record)

    async def store(self, record: RunRecord, events: MemoryLog) -> None:
        """Stores a run of this process that was only in memory, with all its later events.

        Returns when the past events are stored.
        """
        self._check_process()
        log = self._begin(record)
        log.on_order = lambda order: events.on_order(order) if events.on_order else None
        events.listen(log.copy, on_close=log.close)
        await log.settled()

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        def take(connection: sqlite3.Connection) -> list[RunRecord]:
            with transaction(connection):
                found = [record for record in self._interrupted(connection) if wanted(record)]
                connection.executemany(
                    "UPDATE runs SET keeper = ? WHERE id = ?",
                    [(self._writer.number, record.id) for record in found],
                )
            self._own.claimed.update(record.id for record in found)
            return found

        return await self._write(take)

    async def cut_off(self) -> set[str]:
        """Returns the ids of interrupted runs: open runs that no process runs."""
        return {record.id for record in await self._read(self._interrupted)}

    async def is_interrupted(self, run_id: str) -> bool:
        writer = await self._read(partial(queries.writer_of, run_id=run_id))
        if writer is None:
            return False
        if writer == self._writer.number:
            return self._own.is_free(run_id)
        return not process_locks.is_alive(self.path, writer)

    async def reopen(self, run_id: str) -> MemoryLog:
        try:
            events = await self.read(run_id)
        except BaseException:
            self._own.claimed.discard(run_id)
            raise
        log = StoredLog(run_id, self._writer, events, clock=self._clock, on_end=self._forget)
        return self._add(run_id, log)

    async def orders(self, run_id: str) -> Sequence[Order]:
        rows = await self._read(partial(queries.orders_of, run_id=run_id))
        self._handled.update((number, run_id) for number, _ in rows)
        return [order for _, data in rows if (order := _order_in(run_id, data)) is not None]

    async def give_up(self, record: RunRecord, reason: str) -> None:
        after = (await self.status(record.id)).events
        log = StoredLog(record.id, self._writer, after=after, clock=self._clock)
        log.append(RunEnded("error", error=reason))
        await log.flush_and_close()

    async def check(self) -> None:
        await self._write(check_room)
        self._writer.reserve.fill()
        self.health.recovered()

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        look = partial(queries.events_after, run_id=run_id, after=after, limit=limit)
        events, _ = await self._read(look)
        return events

    def follow(self, run_id: str, after: int = 0) -> Follower:
        live = self._live.get(run_id)
        if live is not None:
            return live.follow(after)

        async def more(number: int) -> list[RunEvent] | None:
            events, ended = await self._read(
                partial(queries.page_after, run_id=run_id, after=number)
            )
            return None if ended and not events else events

        return PollingFollower(more, after)

    async def status(self, run_id: str) -> RunRecord:
        return await self._read(partial(queries.record_of, run_id=run_id))

    async def list(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Sequence[RunRecord]:
        wanted = RunFilter(**filters)
        return await self._read(partial(queries.records, wanted=wanted, before=before, limit=limit))

    async def order(self, run_id: str, order: Order) -> bool:
        live = self._live.get(run_id)
        if live is not None and live.on_order is not None:
            live.on_order(order)
            return True

        def give(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                if queries.record_of(connection, run_id).ended is not None:
                    return order.kind == "stop"
                rows = queries.orders_of(connection, run_id)
                given = [_order_in(run_id, data) for _, data in rows]
                calls = {each.call_id for each in given if each and each.kind == "approve"}
                if order.call_id in calls and order.kind == "approve":
                    return order in given  # the same decision once more
                query = "INSERT INTO orders (run_id, data) VALUES (?, ?)"
                connection.execute(query, (run_id, msgspec.json.encode(order)))
            return True

        await self.status(run_id)  # reads first: an unknown run must not wait for the writer
        return await self._write(give, vital=order.kind == "stop")

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"run {run_id!r} has not ended")
        await self._delete(partial(queries.ended_run, run_id=run_id), repeat=False)

    async def expire(self, retention: Retention) -> int:
        look = partial(queries.expiry_cutoff, retention=retention, now=(self._clock or time.time)())
        cutoff = await self._read(look)
        if cutoff is None and not await self._read(queries.has_deleted):
            return 0
        return await self._delete(
            partial(queries.runs_to_expire, cutoff=cutoff, max_runs=STEP_RUNS), repeat=True
        )

    async def aclose(self) -> None:
        """Writes all pending events and closes the file. Active runs stay open in the file.

        If a run's events cannot be written, its readers receive the error.
        """
        if self._process != os.getpid():
            return
        if self._orders is not None:
            self._orders.cancel()
        left = [log.flush_and_close() for log in self._live.values()]
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.wrap_future(self._writer.close())
        self._own.clear()
        if self._readers is not None:
            self._readers.shutdown()
            self._readers = None
        while self._connections:
            with self._connections.pop() as connection:
                connection.close()
        self._local = threading.local()
        self._process = None

    async def _delete(
        self, choose: Callable[[sqlite3.Connection], Sequence[str]], *, repeat: bool
    ) -> int:
        """Deletes the runs that `choose` returns, with `repeat` until it returns none.

        Returns the number of runs. Afterwards neither the file nor its journal has any of their
        data. Deletes in short steps, with pauses for the writers of all processes.
        """
        loop = asyncio.get_running_loop()
        free_before = await self._read(free_pages)
        count = 0
        while True:
            started = loop.time()
            step = await self._write(partial(delete_step, choose=choose, free_before=free_before))
            count += step.runs
            if not step.achieved or not (repeat or step.left):
                break
            await asyncio.sleep(max(STEP_PAUSE, loop.time() - started))
        end = loop.time() + database.BUSY_SECONDS
        while not await self._write(empty_journal):
            if loop.time() > end:
                raise StorageError(
                    f"deleted, but {self.path}-wal still has the data, since another process is "
                    "reading: the next deletion removes it"
                )
            await asyncio.sleep(STEP_PAUSE)
        return count

    async def counter(self, name: str) -> bytes:
        """Returns a value that processes share; empty if there is none."""
        return await self._read(partial(queries.counter, name=name))

    async def update_counter(self, name: str, change: Callable[[bytes], bytes]) -> bytes:
        """Changes a shared value in one step, and returns the new one."""

        def update(connection: sqlite3.Connection) -> bytes:
            with transaction(connection):
                value = change(queries.counter(connection, name=name))
                connection.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, value))
            return value

        return await self._write(update)

    def _interrupted(self, connection: sqlite3.Connection) -> Sequence[RunRecord]:
        found = queries.open_runs(connection)
        own = self._writer.number
        others = {writer for _, writer in found} - {own}
        exited = {writer for writer in others if not process_locks.is_alive(self.path, writer)}
        return [
            record
            for record, writer in found
            # A run of this process without a task is one whose log failed, as on a full disk.
            if writer in exited or (writer == own and self._own.is_free(record.id))
        ]

    def _begin(self, record: RunRecord) -> StoredLog:
        log = StoredLog(
            record.id, self._writer, record=record, clock=self._clock, on_end=self._forget
        )
        return self._add(record.id, log)

    def _add(self, run_id: str, log: StoredLog) -> StoredLog:
        self._own.add(run_id, log)
        if self._orders is None or self._orders.done():
            self._orders = asyncio.create_task(self._poll_orders())
        return log

    def _forget(self, run_id: str) -> None:
        self._own.remove(run_id)

    async def _poll_orders(self) -> None:
        """Handles orders from other processes while this process has active runs."""
        while self._live:
            await asyncio.sleep(ORDER_SECONDS)
            try:
                await self._handle_orders()
            except StorageError:
                pass  # the next write reports it
            except Exception:
                log.exception("Cannot handle order")

    async def _handle_orders(self) -> None:
        """Passes each order to its run once. Orders stay until their run has ended, since their
        effect may not be stored yet."""
        rows = await self._read(queries.orders)
        self._handled &= {(number, run_id) for number, run_id, _, _ in rows}
        for number, run_id, data, _ in rows:
            run = self._live.get(run_id)
            if run is None or run.on_order is None or (number, run_id) in self._handled:
                continue
            self._handled.add((number, run_id))
            if (order := _order_in(run_id, data)) is not None:
                run.on_order(order)
        if done := [(number, run_id) for number, run_id, _, ended in rows if ended]:
            delete = "DELETE FROM orders WHERE id = ? AND run_id = ?"
            await self._write(lambda connection: connection.executemany(delete, done).rowcount)

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, vital: bool = False) -> T:
        self._check_process()
        return await asyncio.wrap_future(self._writer.call(work, vital=vital))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_process()
        if self._readers is None:
            self._readers = DaemonThreads(READERS, f"windlass {self.path.name} reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._do, work)

    def _check_process(self) -> None:
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise StorageError(
                f"{self.path} was opened before this process was forked: create a new client here"
            )

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection: ThreadConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = ThreadConnection(self.path)
            self._connections.append(connection)
        with connection:
            opened = connection.get(partial(connect, self.path, self._synchronous))
            try:
                with readable_errors(self.path):
                    return work(opened)
            except StorageError as error:
                if is_broken(error.__cause__):  # a new connection may work
                    connection.close()
                raise


def _order_in(run_id: str, data: bytes) -> Order | None:
    try:
        return _orders.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        log.warning("Cannot read order: %s", error, extra={"run_id": run_id})
        return None
