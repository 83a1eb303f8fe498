"""The thread that writes to the SQLite file, and the disk space that it reserves.

It writes all waiting batches together.
"""

import asyncio
import contextlib
import os
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
from windlass.runs.persisted_log import Batch, NotWritable, TakenOver
from windlass.runs.protocol import LogHealth
from windlass.runs.sqlite import process_locks
from windlass.runs.sqlite.connection import ThreadConnection
from windlass.runs.sqlite.database import (
    Synchronous,
    connect,
    fence,
    file_failure,
    folded_title,
    is_broken,
    is_busy,
    is_full,
    is_taken_over,
    readable_errors,
    transaction,
)

T = TypeVar("T")
MAX_BATCHES = 1_000
"""The maximum number of batches in one statement: SQLite takes about 32,000 values."""
RESERVE_BYTES = 64 * 1024
"""Enough for several stops: one needs three or four pages of the journal."""


class Reserve:
    """Disk space reserved by a file next to the database. `size` 0 reserves none."""

    def __init__(self, database: Path, size: int) -> None:
        self._path = Path(f"{database}-reserve")
        self._size = size

    def fill(self) -> None:
        """Creates the file if it is missing and the disk has room."""
        if not self._size or self._path.exists():
            return
        try:
            with self._path.open("xb") as file:
                file.write(os.urandom(self._size))  # file systems store zeros without using space
        except OSError:
            self.release()

    def release(self) -> bool:
        """Frees the space. Returns False if there was none."""
        with contextlib.suppress(OSError):
            self._path.unlink()
            return True
        return False


class WriterCall(Struct):
    """A function to call with the connection."""

    work: Callable[[sqlite3.Connection], Any]
    future: "Future[Any]"
    vital: bool = False
    """Whether it may use the reserve of a full disk."""


WriterJob: TypeAlias = Batch | WriterCall | None
"""None is the last job."""
BatchOutcome: TypeAlias = tuple[Batch, StorageError | None]


class Writer:
    """Starts its thread with the first job. `close` writes all waiting jobs and ends the thread.

    Every failure is reported to its caller, and the thread continues with the next job.
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
        self._connection = ThreadConnection(path)
        self._jobs: queue.SimpleQueue[WriterJob] = queue.SimpleQueue()
        self._over: Future[None] | None = None
        """Done when the thread ends; None without a thread."""
        self._closing: Future[None] | None = None
        """Done when the previous thread ends, which may still be writing."""
        self._mutex = threading.Lock()
        self._broken = False
        """Whether the connection must be opened again."""
        self.number = 0
        """This writer's number in the table `keepers`, once it is open."""

    def put(self, batch: Batch) -> None:
        self._give(batch)

    def call(self, work: Callable[[sqlite3.Connection], T], *, vital: bool = False) -> "Future[T]":
        """Calls `work` with the connection, after the waiting jobs. The future raises
        `StorageError`.

        A `vital` call may use the reserve of a full disk.
        """
        future: Future[T] = Future()
        self._give(WriterCall(work, future, vital))
        return future

    def close(self) -> "Future[None]":
        """Closes the file after all jobs. The future is done when the file is closed.

        This does not use an executor, whose threads end before the program does.
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

    def _give(self, job: WriterJob) -> None:
        with self._mutex:
            self._jobs.put(job)
            if self._over is None:
                self._over = Future()
                self._over.set_running_or_notify_cancel()  # so that a waiter cannot cancel it
                threading.Thread(
                    target=self._work,
                    args=(self._jobs, self._over, self._closing),
                    name=f"windlass {self._path.name}",
                    daemon=True,
                ).start()

    def _work(
        self,
        waiting: "queue.SimpleQueue[WriterJob]",
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
                if self.number:
                    process_locks.release(self._path, self.number)
                    self.number = 0
        finally:
            end.set_result(None)

    def _work_on(self, jobs: Sequence[WriterJob]) -> None:
        self._broken = False
        try:
            connection = self._connection.get(self._open)
        except Exception as error:  # noqa: BLE001 - every caller receives it
            self.health.failed(file_failure(error) or str(error))
            known = isinstance(error, StorageError)
            _refuse(jobs, error if known else StorageError(f"{self._path}: {error!r}"))
            return
        self._do(connection, jobs)
        if self._broken:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        """Opens a connection. All connections of this writer use the same number.

        Raises `StorageError`.
        """
        connection = connect(self._path, self._synchronous)
        try:
            with readable_errors(self._path):
                if self.number:
                    query = "INSERT OR IGNORE INTO keepers (id, started) VALUES (?, ?)"
                    connection.execute(query, (self.number, time.time()))
                else:
                    query = "INSERT INTO keepers (started) VALUES (?)"
                    number = connection.execute(query, (time.time(),)).lastrowid or 0
                    process_locks.hold(self._path, number)
                    self.number = number
                fence(connection, self.number)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            raise
        self.reserve.fill()
        return connection

    def _do(self, connection: sqlite3.Connection, jobs: Sequence[WriterJob]) -> None:
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

    def _call(self, connection: sqlite3.Connection, call: WriterCall) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            result = self._called(connection, call)
        except Exception as error:  # noqa: BLE001 - the caller receives it
            self._note(connection, error)
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _called(self, connection: sqlite3.Connection, call: WriterCall) -> Any:
        try:
            with readable_errors(self._path):
                return call.work(connection)
        except StorageError as error:
            if not (call.vital and is_full(error.__cause__) and self.reserve.release()):
                raise
        with readable_errors(self._path):
            return call.work(connection)

    def _write(self, connection: sqlite3.Connection, batches: Sequence[Batch]) -> None:
        for start in range(0, len(batches), MAX_BATCHES):
            some = batches[start : start + MAX_BATCHES]
            failure = self._try(connection, some)
            if failure is not None and len(some) > 1 and not is_busy(failure.__cause__):
                # Write each alone: one bad batch, as of a deleted run, must not affect the others.
                _report([(batch, self._try(connection, [batch])) for batch in some])
            else:
                _report([(batch, failure) for batch in some])

    def _note(self, connection: sqlite3.Connection, failure: Exception) -> None:
        """Updates the health and the connection's state, before the failure is reported."""
        if (cause := file_failure(failure)) is not None:
            self.health.failed(cause)
        self._broken |= is_broken(failure.__cause__) or connection.in_transaction

    def _try(self, connection: sqlite3.Connection, some: Sequence[Batch]) -> StorageError | None:
        try:
            with readable_errors(self._path):
                if any(batch.record is not None for batch in some):
                    with transaction(connection):
                        _insert_runs(connection, some, self.number)
                        _insert(connection, some)
                else:
                    _insert(connection, some)  # one statement is one transaction
        except Exception as error:  # noqa: BLE001 - the thread must continue for the other runs
            self._note(connection, error)
            if is_taken_over(error.__cause__):
                return TakenOver(f"another process has taken over run {some[0].run_id}")
            if isinstance(error, StorageError) and file_failure(error) is not None:
                return error
            return NotWritable(str(error))
        return None


def _insert_runs(connection: sqlite3.Connection, some: Sequence[Batch], writer: int) -> None:
    """Inserts new runs. In a transaction, so that no other process assigns the same numbers.

    A record may have a number already.
    """
    records = [batch.record for batch in some if batch.record is not None]
    places = ",".join(["(?,?,?,?,?,?,?,?,?,?)"] * len(records))
    [last] = connection.execute("SELECT ifnull(max(number), 0) FROM runs").fetchone()
    values: list[object] = []
    for number, record in enumerate(records, last + 1):
        values += (record.number or number, record.id, record.model, record.created)
        values += (record.owner, record.chat)
        values += (_valid_utf8(record.title), folded_title(record.title))
        values += (encode_in_steps(record.origin), writer)
    connection.execute(
        "INSERT INTO runs (number, id, model, created, owner, chat, title, folded, origin, keeper)"
        f" VALUES {places}",
        values,
    )


def _insert(connection: sqlite3.Connection, some: Sequence[Batch]) -> None:
    """Inserts all batches in one statement, since each statement releases and takes the GIL."""
    places = ",".join(["(?,?,?,?,?,?,?)"] * len(some))
    values: list[object] = []
    for batch in some:
        first, last = batch.events[0].seq, batch.events[-1].seq
        error = None if batch.error is None else _valid_utf8(batch.error)
        values += (batch.run_id, first, last, batch.data, batch.ended, batch.reason, error)
    connection.execute(
        f"INSERT INTO batches (run_id, first, last, data, ended, reason, error) VALUES {places}",
        values,
    )


def _valid_utf8(text: str) -> str:
    """Replaces lone surrogates, which SQLite rejects."""
    return text.encode("utf-8", "replace").decode()


def _refuse(jobs: Sequence[WriterJob], error: StorageError) -> None:
    _report([(job, error) for job in jobs if isinstance(job, Batch)])
    for job in jobs:
        if isinstance(job, WriterCall) and job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)


def _report(outcomes: Sequence[BatchOutcome]) -> None:
    """Reports outcomes to the runs. Wakes each event loop only once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[BatchOutcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].loop, []).append(outcome)
    for loop, in_loop in by_loop.items():
        # A closed loop raises, and has no readers.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_call_back, loop, in_loop)


def _call_back(loop: asyncio.AbstractEventLoop, outcomes: Sequence[BatchOutcome]) -> None:
    """Reports all outcomes in one call, so that outcomes of a later commit cannot overtake them."""
    for batch, failure in outcomes:
        try:
            batch.on_done(batch, failure)
        except Exception as error:  # noqa: BLE001 - one run's listener must not affect other runs
            message = f"a listener of run {batch.run_id} failed"
            loop.call_exception_handler({"message": message, "exception": error})
