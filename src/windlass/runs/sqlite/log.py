"""`SQLiteLog`: runs in one file that outlive the process, for every process of the machine."""

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunEvent
from windlass.runs.event_log import Follower, MemoryLog, PollingFollower
from windlass.runs.health import LogHealth
from windlass.runs.owned import OwnRuns
from windlass.runs.persisted_log import StoredLog
from windlass.runs.records import Order, Retention, RunRecord
from windlass.runs.sqlite import database, keepers, queries
from windlass.runs.sqlite.connection import Connection
from windlass.runs.sqlite.database import (
    Synchronous,
    check_room,
    connect,
    delete_step,
    empty_journal,
    free_pages,
    in_words,
    is_broken,
    transaction,
)
from windlass.runs.sqlite.writer import Writer

__all__ = ["SQLiteLog"]

log = logging.getLogger("windlass.runs")

T = TypeVar("T")
READERS = 4
STEP_RUNS = 100
"""How many runs one step of an expiry deletes: some milliseconds of the file's one writer."""
STEP_PAUSE = 0.01
"""Seconds between two steps, at least; a step that takes longer is followed by a longer pause."""
ORDER_SECONDS = 0.2
"""How often orders from other processes are looked for while runs go."""

_orders = msgspec.json.Decoder(Order)


class SQLiteLog:
    """Opened by its first use. `synchronous="full"` waits for the disk at every step.

    A `reserve` of so many bytes, in a file beside it, keeps room to store a stop on a full disk.
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
        self._readers: ThreadPoolExecutor | None = None
        self._connections: list[Connection] = []
        self._local = threading.local()
        self._own = OwnRuns()
        self._live = self._own.live
        self._orders: asyncio.Task[None] | None = None
        self._process: int | None = None
        """Which has the file open. Its forks have none of its threads, and do not own its runs."""
        self._obeyed: set[tuple[int, str]] = set()

    async def open(self) -> None:
        """The file is opened by its first use."""

    def begin(self, record: RunRecord) -> MemoryLog:
        self._check_process()
        log = StoredLog(
            record.id, self._writer, record=record, clock=self._clock, on_end=self._forget
        )
        return self._keep(record.id, log)

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        def take(connection: sqlite3.Connection) -> list[RunRecord]:
            with transaction(connection):
                ours = [record for record in self._left_open(connection) if wanted(record)]
                connection.executemany(
                    "UPDATE runs SET keeper = ? WHERE id = ?",
                    [(self._writer.keeper, record.id) for record in ours],
                )
            self._own.claimed.update(record.id for record in ours)
            return ours

        return await self._write(take)

    async def cut_off(self) -> set[str]:
        """The runs that have not ended, and that no process works on."""
        return {record.id for record in await self._read(self._left_open)}

    async def is_interrupted(self, run_id: str) -> bool:
        keeper = await self._read(partial(queries.keeper_of, run_id=run_id))
        if keeper is None:
            return False
        if keeper == self._writer.keeper:
            return self._own.is_free(run_id)
        return not keepers.is_alive(self.path, keeper)

    async def reopen(self, run_id: str) -> MemoryLog:
        try:
            events = await self.read(run_id)
        except BaseException:
            self._own.claimed.discard(run_id)
            raise
        log = StoredLog(run_id, self._writer, events, clock=self._clock, on_end=self._forget)
        return self._keep(run_id, log)

    async def orders(self, run_id: str) -> Sequence[Order]:
        rows = await self._read(partial(queries.orders_of, run_id=run_id))
        self._obeyed.update((number, run_id) for number, _ in rows)
        return [order for _, data in rows if (order := _order_in(run_id, data)) is not None]

    async def give_up(self, record: RunRecord, reason: str) -> None:
        after = (await self.status(record.id)).events
        log = StoredLog(record.id, self._writer, after=after, clock=self._clock)
        log.append(RunEnded("error", error=reason))
        await log.leave()

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
        owner: str | None = None,
        chat: str | None = None,
        open: bool | None = None,
        before: RunRecord | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        choose = partial(
            queries.records, owner=owner, chat=chat, open=open, before=before, limit=limit
        )
        return await self._read(choose)

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

        await self.status(run_id)  # without the writer: a run that is not known is the usual error
        return await self._write(give, vital=order.kind == "stop")

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"the run {run_id!r} has not ended")
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
        """Writes what is to be written and lets go of the file. Runs that still go are left open.

        What cannot be written is told to the readers of its run.
        """
        if self._process != os.getpid():
            return
        if self._orders is not None:
            self._orders.cancel()
        left = [log.leave() for log in self._live.values()]
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
        """Deletes the runs that `choose` returns, or with `repeat` until it returns none; how many.

        Wholly: neither the file nor its journal holds anything of them afterwards. In short steps,
        with pauses in which other writers get their turn, also those of other processes.
        """
        loop = asyncio.get_running_loop()
        free_before = await self._read(free_pages)
        count = 0
        while True:
            begun = loop.time()
            step = await self._write(partial(delete_step, choose=choose, free_before=free_before))
            count += step.runs
            if not step.achieved or not (repeat or step.left):
                break
            await asyncio.sleep(max(STEP_PAUSE, loop.time() - begun))
        end = loop.time() + database.BUSY_SECONDS
        while not await self._write(empty_journal):
            if loop.time() > end:
                raise StorageError(
                    f"deleted, but {self.path}-wal still holds it, since another process reads: "
                    "it goes with the next deletion"
                )
            await asyncio.sleep(STEP_PAUSE)
        return count

    def _left_open(self, connection: sqlite3.Connection) -> Sequence[RunRecord]:
        found = queries.open_runs(connection)
        ours = self._writer.keeper
        held = {keeper for _, keeper in found} - {ours}
        gone = {keeper for keeper in held if not keepers.is_alive(self.path, keeper)}
        return [
            record
            for record, keeper in found
            # A run of ours that nothing works on has lost its log on the way, as on a full disk.
            if keeper in gone or (keeper == ours and self._own.is_free(record.id))
        ]

    def _keep(self, run_id: str, log: StoredLog) -> StoredLog:
        self._own.keep(run_id, log)
        if self._orders is None or self._orders.done():
            self._orders = asyncio.create_task(self._look_for_orders())
        return log

    def _forget(self, run_id: str) -> None:
        self._own.let_go(run_id)

    async def _look_for_orders(self) -> None:
        """While runs go here: what other processes ask of them."""
        while self._live:
            await asyncio.sleep(ORDER_SECONDS)
            try:
                await self._obey_orders()
            except StorageError:
                pass  # whoever writes will hear of it
            except Exception:
                log.exception("An order was not obeyed")

    async def _obey_orders(self) -> None:
        """Each once. They stay until their run has ended: what came of them may not be kept yet."""
        rows = await self._read(queries.orders)
        self._obeyed &= {(number, run_id) for number, run_id, _, _ in rows}
        for number, run_id, data, _ in rows:
            run = self._live.get(run_id)
            if run is None or run.on_order is None or (number, run_id) in self._obeyed:
                continue
            self._obeyed.add((number, run_id))
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
            self._readers = ThreadPoolExecutor(READERS, f"windlass {self.path.name} reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._do, work)

    def _check_process(self) -> None:
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise StorageError(
                f"{self.path} was opened before this process was forked: make a new client here"
            )

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(self.path)
            self._connections.append(connection)
        with connection:
            opened = connection.get(partial(connect, self.path, self._synchronous))
            try:
                with in_words(self.path):
                    return work(opened)
            except StorageError as error:
                if is_broken(error.__cause__):  # the next one may find the file whole
                    connection.close()
                raise


def _order_in(run_id: str, data: bytes) -> Order | None:
    try:
        return _orders.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        log.warning("An order cannot be read: %s", error, extra={"run_id": run_id})
        return None
