"""`SQLiteLog`: runs in one file that outlive the process, for every process of the machine."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from windlass.errors import RunNotFound
from windlass.events import RunEvent
from windlass.runs.log import Follower, MemoryLog, PollingFollower
from windlass.runs.records import Order, Retention, RunRecord, expired
from windlass.runs.sqlite import keepers
from windlass.runs.sqlite.database import Synchronous, connect, in_words, transaction
from windlass.runs.sqlite.stored import StoredLog
from windlass.runs.sqlite.writer import Writer

__all__ = ["SQLiteLog"]

T = TypeVar("T")
READERS = 4
READ_EVENTS = 2_000
"""How many events a follower takes at a time, about."""
ORDER_SECONDS = 0.2
"""How often orders from other processes are looked for while runs go."""

_RECORD = "id, model, created, owner, chat, title, origin, ended, reason, error, events, size"
_events = msgspec.json.Decoder(list[RunEvent])
_orders = msgspec.json.Decoder(Order)


class SQLiteLog:
    """Opened by its first use. `synchronous="full"` waits for the disk at every step."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._synchronous: Synchronous = synchronous
        self._writer = Writer(self.path, synchronous)
        self._readers: ThreadPoolExecutor | None = None
        self._connections: list[sqlite3.Connection] = []
        self._local = threading.local()
        self._live: dict[str, StoredLog] = {}
        self._orders: asyncio.Task[None] | None = None

    def begin(self, record: RunRecord) -> MemoryLog:
        log = StoredLog(
            record.id, self._writer, record=record, clock=self._clock, on_end=self._forget
        )
        return self._keep(record.id, log)

    async def claim(self, wanted: Callable[[RunRecord], bool] = bool) -> list[RunRecord]:
        def take(connection: sqlite3.Connection) -> list[RunRecord]:
            with transaction(connection):
                rows = connection.execute(
                    f"SELECT {_RECORD}, keeper FROM runs WHERE ended IS NULL ORDER BY created"
                ).fetchall()
                held = {row[-1] for row in rows}
                gone = {keeper for keeper in held if not keepers.is_alive(self.path, keeper)}
                left = [_record(row[:-1]) for row in rows if row[-1] in gone]
                ours = [record for record in left if wanted(record)]
                connection.executemany(
                    "UPDATE runs SET keeper = ? WHERE id = ?",
                    [(self._writer.keeper, record.id) for record in ours],
                )
            return ours

        return await self._write(take)

    async def reopen(self, run_id: str) -> MemoryLog:
        events = await self.read(run_id)
        log = StoredLog(run_id, self._writer, events, clock=self._clock, on_end=self._forget)
        return self._keep(run_id, log)

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        def get(connection: sqlite3.Connection) -> list[RunEvent]:
            events: list[RunEvent] = []
            rows = connection.execute(
                "SELECT data FROM batches WHERE run_id = ? AND last > ? ORDER BY first",
                (run_id, after),
            )
            for (data,) in rows:
                events += _events.decode(data)
                if limit is not None and len(events) >= limit:
                    break
            rows.close()
            return [event for event in events if event.seq > after]

        events = await self._read(get)
        if not events and after == 0:
            await self.status(run_id)
        return events

    def follow(self, run_id: str, after: int = 0) -> Follower:
        live = self._live.get(run_id)
        if live is not None:
            return live.follow(after)
        return PollingFollower(lambda number: self.read(run_id, number, READ_EVENTS), after)

    async def status(self, run_id: str) -> RunRecord:
        query = f"SELECT {_RECORD} FROM runs WHERE id = ?"
        row = await self._read(lambda connection: connection.execute(query, (run_id,)).fetchone())
        if row is None:
            raise RunNotFound(f"no run {run_id!r} is known here")
        return _record(row)

    async def list(
        self,
        *,
        owner: str | None = None,
        chat: str | None = None,
        open: bool | None = None,
        limit: int | None = None,
    ) -> Sequence[RunRecord]:
        conditions, values = ["TRUE"], list[Any]()
        for column, value in (("owner", owner), ("chat", chat)):
            if value is not None:
                conditions.append(f"{column} = ?")
                values.append(value)
        if open is not None:
            conditions.append("ended IS NULL" if open else "ended IS NOT NULL")
        query = (
            f"SELECT {_RECORD} FROM runs WHERE {' AND '.join(conditions)}"
            " ORDER BY created DESC LIMIT ?"
        )
        values.append(-1 if limit is None else limit)
        rows = await self._read(lambda connection: connection.execute(query, values).fetchall())
        return [_record(row) for row in rows]

    async def order(self, run_id: str, order: Order) -> None:
        live = self._live.get(run_id)
        if live is not None and live.on_order is not None:
            live.on_order(order)
            return
        if (await self.status(run_id)).ended is None:
            values = (run_id, msgspec.json.encode(order))
            query = "INSERT INTO orders (run_id, data) VALUES (?, ?)"
            await self._write(lambda connection: connection.execute(query, values).rowcount)

    async def delete(self, run_id: str) -> None:
        if (await self.status(run_id)).ended is None:
            raise RunNotFound(f"the run {run_id!r} has not ended")
        await self._delete([run_id])

    async def expire(self, retention: Retention) -> int:
        gone = expired(await self.list(open=False), retention, self._clock())
        if gone:
            await self._delete([record.id for record in gone])
        return len(gone)

    async def aclose(self) -> None:
        """Writes what is to be written and lets go of the file."""
        if self._orders is not None:
            self._orders.cancel()
        for log in list(self._live.values()):
            if log.settled is not None and not log.closed:
                await log.settled()
        await asyncio.to_thread(self._writer.close)
        if self._readers is not None:
            self._readers.shutdown()
            self._readers = None
        while self._connections:
            self._connections.pop().close()
        self._local = threading.local()

    async def _delete(self, run_ids: Sequence[str]) -> None:
        """Wholly: neither the file nor its journal holds anything of them afterwards."""

        def delete(connection: sqlite3.Connection) -> None:
            for run_id in run_ids:  # one by one, so that others may write in between
                connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
            connection.execute("PRAGMA incremental_vacuum").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        await self._write(delete)

    def _keep(self, run_id: str, log: StoredLog) -> StoredLog:
        self._live[run_id] = log
        if self._orders is None or self._orders.done():
            self._orders = asyncio.create_task(self._look_for_orders())
        return log

    def _forget(self, run_id: str) -> None:
        self._live.pop(run_id, None)

    async def _look_for_orders(self) -> None:
        """While runs go here: what other processes ask of them."""
        query = "SELECT id, run_id, data FROM orders ORDER BY id"
        while self._live:
            await asyncio.sleep(ORDER_SECONDS)
            rows = await self._read(lambda connection: connection.execute(query).fetchall())
            ours = [
                (number, self._live[run], data) for number, run, data in rows if run in self._live
            ]
            if not ours:
                continue
            numbers = [(number,) for number, _, _ in ours]
            await self._write(
                lambda connection, numbers=numbers: (
                    connection.executemany("DELETE FROM orders WHERE id = ?", numbers).rowcount
                )
            )
            for _, log, data in ours:
                if log.on_order is not None:
                    log.on_order(_orders.decode(data))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.wrap_future(self._writer.call(work))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._readers is None:
            self._readers = ThreadPoolExecutor(READERS, f"windlass {self.path.name} reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._do, work)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path, self._synchronous)
            self._connections.append(connection)
        with in_words(self.path):
            return work(connection)


def _record(row: Sequence[Any]) -> RunRecord:
    run_id, model, created, owner, chat, title, origin, ended, reason, error, events, size = row
    return RunRecord(
        id=run_id,
        model=model,
        created=created,
        owner=owner,
        chat=chat,
        title=title,
        origin=msgspec.json.decode(origin),
        ended=ended,
        reason=reason,
        error=error,
        events=events,
        size=size,
    )
