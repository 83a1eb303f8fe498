"""The one thread that writes to the file; what has piled up while it wrote goes in together."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from windlass.errors import StorageError
from windlass.runs.encoding import encode_in_steps
from windlass.runs.health import LogHealth
from windlass.runs.persisted_log import Batch, NotWritable, TakenOver
from windlass.runs.sqlite import keepers
from windlass.runs.sqlite.connection import Connection
from windlass.runs.sqlite.database import (
    Synchronous,
    connect,
    fence,
    file_failure,
    in_words,
    is_broken,
    is_busy,
    is_full,
    is_taken_over,
    transaction,
)
from windlass.runs.sqlite.reserve import Reserve

__all__ = ["Writer"]

T = TypeVar("T")
MOST_BATCHES = 1_000
"""In one statement: SQLite takes some 32,000 values."""


class Call(Struct):
    """Anything else that is done with the file."""

    work: Callable[[sqlite3.Connection], Any]
    future: "Future[Any]"
    vital: bool = False
    """Whether it may use the reserve of a full disk."""


Job: TypeAlias = Batch | Call | None
"""None is the last."""
Outcome: TypeAlias = tuple[Batch, StorageError | None]


class Writer:
    """Begins with the first thing to write. `close` writes what is there, and ends it.

    Every failure reaches its caller, and the thread goes on with the next job.
    """

    def __init__(
        self,
        path: Path,
        synchronous: Synchronous,
        health: LogHealth | None = None,
        reserve: int = 0,
    ) -> None:
        self.health = health or LogHealth()
        self.reserve = Reserve(path, reserve)
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._connection = Connection(path)
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._over: Future[None] | None = None
        """The end of the thread that writes, if there is one."""
        self._closing: Future[None] | None = None
        """The end of the thread before it, which may still write."""
        self._mutex = threading.Lock()
        self._broken = False
        """Whether the connection is to be made anew."""
        self.keeper = 0
        """This writer's number in the file, once it has begun."""

    def put(self, batch: Batch) -> None:
        self._give(batch)

    def call(self, work: Callable[[sqlite3.Connection], T], *, vital: bool = False) -> "Future[T]":
        """Does something else with the file, in its turn. The future raises `StorageError`.

        What is `vital` may use the reserve of a full disk.
        """
        future: Future[T] = Future()
        self._give(Call(work, future, vital))
        return future

    def close(self) -> "Future[None]":
        """Lets go of the file when all is written, which the future says.

        Not by a thread of an executor: there are none any more when a program ends.
        """
        with self._mutex:
            over, self._over = self._over, None
            self._closing = over or self._closing
            jobs, self._jobs = self._jobs, queue.SimpleQueue()
        if over is None:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        jobs.put(None)
        return over

    def _give(self, job: Job) -> None:
        with self._mutex:
            self._jobs.put(job)
            if self._over is None:
                self._over = Future()
                self._over.set_running_or_notify_cancel()  # who waits for it cannot cancel it
                threading.Thread(
                    target=self._work,
                    args=(self._jobs, self._over, self._closing),
                    name=f"windlass {self._path.name}",
                    daemon=True,
                ).start()

    def _work(
        self,
        waiting: "queue.SimpleQueue[Job]",
        end: "Future[None]",
        before: "Future[None] | None",
    ) -> None:
        over = False
        try:
            if before is not None:
                before.result()
            while not over:
                jobs = [waiting.get()]
                while not waiting.empty():
                    jobs.append(waiting.get_nowait())
                over = None in jobs
                with self._connection:
                    self._work_on(jobs)
            with self._connection:
                self._connection.close()
                if self.keeper:
                    keepers.release(self._path, self.keeper)
                    self.keeper = 0
        finally:
            end.set_result(None)

    def _work_on(self, jobs: Sequence[Job]) -> None:
        self._broken = False
        try:
            connection = self._connection.get(self._open)
        except Exception as error:  # noqa: BLE001 - it is that of every caller
            self.health.failed(file_failure(error) or str(error))
            known = isinstance(error, StorageError)
            _refuse(jobs, error if known else StorageError(f"{self._path}: {error!r}"))
            return
        self._do(connection, jobs)
        if self._broken:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        """Raises `StorageError`. A later connection of this writer has the same keeper."""
        connection = connect(self._path, self._synchronous)
        try:
            with in_words(self._path):
                if self.keeper:
                    query = "INSERT OR IGNORE INTO keepers (id, started) VALUES (?, ?)"
                    connection.execute(query, (self.keeper, time.time()))
                else:
                    query = "INSERT INTO keepers (started) VALUES (?)"
                    keeper = connection.execute(query, (time.time(),)).lastrowid or 0
                    keepers.hold(self._path, keeper)
                    self.keeper = keeper
                fence(connection, self.keeper)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            raise
        self.reserve.fill()
        return connection

    def _do(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
        batches: list[Batch] = []
        for job in jobs:
            if isinstance(job, Batch):
                batches.append(job)
                continue
            self._write(connection, batches)
            batches = []
            if job is not None:
                self._call(connection, job)
        self._write(connection, batches)

    def _call(self, connection: sqlite3.Connection, call: Call) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            result = self._called(connection, call)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self._note(connection, error)
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _called(self, connection: sqlite3.Connection, call: Call) -> Any:
        try:
            with in_words(self._path):
                return call.work(connection)
        except StorageError as error:
            if not (call.vital and is_full(error.__cause__) and self.reserve.release()):
                raise
        with in_words(self._path):
            return call.work(connection)

    def _write(self, connection: sqlite3.Connection, batches: Sequence[Batch]) -> None:
        for start in range(0, len(batches), MOST_BATCHES):
            some = batches[start : start + MOST_BATCHES]
            failure = self._try(connection, some)
            if failure is not None and len(some) > 1 and not is_busy(failure.__cause__):
                # One that cannot be written, as of a run that was deleted, is no other's trouble.
                _tell([(batch, self._try(connection, [batch])) for batch in some])
            else:
                _tell([(batch, failure) for batch in some])

    def _note(self, connection: sqlite3.Connection, failure: Exception) -> None:
        """Before anyone hears of a failure: what it means for the next writes."""
        if (cause := file_failure(failure)) is not None:
            self.health.failed(cause)
        self._broken |= is_broken(failure.__cause__) or connection.in_transaction

    def _try(self, connection: sqlite3.Connection, some: Sequence[Batch]) -> StorageError | None:
        try:
            with in_words(self._path):
                if any(batch.record is not None for batch in some):
                    with transaction(connection):
                        _insert_runs(connection, some, self.keeper)
                        _insert(connection, some)
                else:
                    _insert(connection, some)  # a statement is a transaction of its own
        except Exception as error:  # noqa: BLE001 - the thread lives on for the other runs
            self._note(connection, error)
            if is_taken_over(error.__cause__):
                return TakenOver(f"another process has taken the run {some[0].run_id} over")
            if isinstance(error, StorageError) and file_failure(error) is not None:
                return error
            return NotWritable(str(error))
        return None


def _insert_runs(connection: sqlite3.Connection, some: Sequence[Batch], keeper: int) -> None:
    """In a transaction: no other process numbers a run at the same time."""
    records = [batch.record for batch in some if batch.record is not None]
    places = ",".join(["(?,?,?,?,?,?,?,?,?)"] * len(records))
    [last] = connection.execute("SELECT ifnull(max(number), 0) FROM runs").fetchone()
    values: list[object] = []
    for number, record in enumerate(records, last + 1):
        values += (number, record.id, record.model, record.created, record.owner, record.chat)
        values += (_whole(record.title), encode_in_steps(record.origin), keeper)
    connection.execute(
        "INSERT INTO runs (number, id, model, created, owner, chat, title, origin, keeper)"
        f" VALUES {places}",
        values,
    )


def _insert(connection: sqlite3.Connection, some: Sequence[Batch]) -> None:
    """One statement for all: each that runs gives up the interpreter and must get it back."""
    places = ",".join(["(?,?,?,?,?,?,?)"] * len(some))
    values: list[object] = []
    for batch in some:
        first, last = batch.events[0].seq, batch.events[-1].seq
        error = None if batch.error is None else _whole(batch.error)
        values += (batch.run_id, first, last, batch.data, batch.ended, batch.reason, error)
    connection.execute(
        f"INSERT INTO batches (run_id, first, last, data, ended, reason, error) VALUES {places}",
        values,
    )


def _whole(text: str) -> str:
    """The text without halves of characters, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()


def _refuse(jobs: Sequence[Job], error: StorageError) -> None:
    _tell([(job, error) for job in jobs if isinstance(job, Batch)])
    for job in jobs:
        if isinstance(job, Call) and job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)


def _tell(outcomes: Sequence[Outcome]) -> None:
    """Wakes each event loop once, however many of its runs are written."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].loop, []).append(outcome)
    for loop, theirs in by_loop.items():
        # A loop that has ended has no readers any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_hear, loop, theirs)


def _hear(loop: asyncio.AbstractEventLoop, outcomes: Sequence[Outcome]) -> None:
    """In this one call, so that a later commit's outcomes cannot be told before these."""
    for batch, failure in outcomes:
        try:
            batch.told(batch, failure)
        except Exception as error:  # noqa: BLE001 - what a run's listeners do is no other's trouble
            said = f"a listener of the run {batch.run_id} failed"
            loop.call_exception_handler({"message": said, "exception": error})
