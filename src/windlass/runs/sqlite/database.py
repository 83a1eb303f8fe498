"""The SQLite file: opening, schema, migrations, deletion, and error messages."""

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from windlass.errors import StorageError, WindlassError
from windlass.runs.persisted_log import Damaged
from windlass.runs.sqlite.connection import check_not_inherited

Synchronous = Literal["normal", "full"]
"""`normal` survives a crash of the process; `full` syncs to disk and survives a power failure."""

BUSY_SECONDS = 10.0
ROOM_BYTES = 256 * 1024
"""Free space that a check requires before the file counts as writable again: many events."""
STEP_BYTES = 2**20
"""How many bytes one step of a deletion deletes, which blocks writers for some milliseconds."""
STEP_PAGES = 512
"""How many free pages one step of a deletion returns to the file system."""
JOURNAL_MS = 50
"""How long an attempt to empty the journal may block writers while it waits for readers."""
APPLICATION = 0x57494E44  # "WIND"
TAKEN_OVER = "another process has taken over the run"
"""SQLite's error text for a write that the fence rejects."""

_making = threading.Lock()
MIGRATIONS = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        model TEXT NOT NULL,
        created REAL NOT NULL,
        owner TEXT NOT NULL,
        chat TEXT NOT NULL,
        title TEXT NOT NULL,
        origin BLOB NOT NULL,
        keeper INTEGER NOT NULL,
        ended REAL,
        reason TEXT,
        error TEXT,
        events INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_time ON runs (created);
    CREATE INDEX runs_by_chat ON runs (chat, created) WHERE chat <> '';
    CREATE INDEX runs_open ON runs (keeper) WHERE ended IS NULL;

    -- Consecutive events that were written together: a JSON array.
    CREATE TABLE batches (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        data BLOB NOT NULL,
        ended REAL,
        reason TEXT,
        error TEXT,
        PRIMARY KEY (run_id, first)
    ) WITHOUT ROWID;
    -- One statement writes a batch and updates the record of its run: both, or neither.
    CREATE TRIGGER batch_written AFTER INSERT ON batches BEGIN
        UPDATE runs SET
            events = new.last,
            size = size + length(new.data),
            ended = new.ended,
            reason = new.reason,
            error = new.error
        WHERE id = new.run_id;
    END;

    CREATE TABLE keepers (id INTEGER PRIMARY KEY AUTOINCREMENT, started REAL NOT NULL);
    CREATE TABLE orders (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        data BLOB NOT NULL
    );
    """,
    # Numbers of orders are never reused: processes identify handled orders by number.
    """
    CREATE TABLE numbered_orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        data BLOB NOT NULL
    );
    INSERT INTO numbered_orders (id, run_id, data) SELECT id, run_id, data FROM orders;
    DROP TABLE orders;
    ALTER TABLE numbered_orders RENAME TO orders;
    CREATE INDEX orders_by_run ON orders (run_id);
    -- A log has no gaps: nothing is written after a batch that failed.
    CREATE TRIGGER batch_follows BEFORE INSERT ON batches
    WHEN new.first <> (SELECT events FROM runs WHERE id = new.run_id) + 1 BEGIN
        SELECT RAISE(ABORT, 'the batch does not follow the last one');
    END;
    """,
    # Runs are numbered, so that their order does not depend on the clock. Indexes avoid scans.
    """
    ALTER TABLE runs ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN end_number INTEGER;
    CREATE TABLE begun (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
    INSERT INTO begun (id) SELECT id FROM runs ORDER BY created, id;
    UPDATE runs SET number = (SELECT number FROM begun WHERE begun.id = runs.id);
    DROP TABLE begun;
    CREATE TABLE over (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
    INSERT INTO over (id) SELECT id FROM runs WHERE ended IS NOT NULL ORDER BY ended, created, id;
    UPDATE runs SET end_number = (SELECT number FROM over WHERE over.id = runs.id);
    DROP TABLE over;
    DROP INDEX runs_by_time;
    DROP INDEX runs_by_chat;
    DROP INDEX runs_open;
    CREATE INDEX runs_by_number ON runs (number);
    CREATE INDEX runs_by_chat ON runs (chat, number) WHERE chat <> '';
    CREATE INDEX runs_by_owner ON runs (owner, number);
    CREATE INDEX runs_open ON runs (number) WHERE ended IS NULL;
    CREATE INDEX runs_by_age ON runs (ended) WHERE ended IS NOT NULL;
    CREATE INDEX runs_by_end ON runs (end_number, size) WHERE end_number IS NOT NULL;
    -- Deleted runs whose batches are not deleted yet.
    CREATE TABLE deleted (run_id TEXT PRIMARY KEY) WITHOUT ROWID;
    DROP TRIGGER batch_written;
    CREATE TRIGGER batch_written AFTER INSERT ON batches BEGIN
        UPDATE runs SET
            events = new.last,
            size = size + length(new.data),
            ended = new.ended,
            reason = new.reason,
            error = new.error,
            end_number = CASE WHEN new.ended IS NOT NULL THEN (
                SELECT ifnull(max(end_number), 0) + 1 FROM runs WHERE end_number IS NOT NULL
            ) END
        WHERE id = new.run_id;
    END;
    """,
    # Lists by reason, model and title use an index. Each index ends with the number, for the order.
    """
    ALTER TABLE runs ADD COLUMN folded TEXT NOT NULL DEFAULT '';
    UPDATE runs SET folded = folded_title(CAST(title AS BLOB));
    DROP INDEX runs_by_owner;
    CREATE INDEX runs_by_owner ON runs (owner, number, folded);
    CREATE INDEX runs_in_chats ON runs (owner, number) WHERE chat <> '';
    CREATE INDEX runs_by_model ON runs (owner, model, number);
    CREATE INDEX runs_by_reason ON runs (owner, reason, number, model) WHERE reason IS NOT NULL;
    """,
    # What keys of a gateway have used, by name.
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BROKEN = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
)
_WHOLE_FILE = (*_BUSY, *_BROKEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM)


def connect(path: Path, synchronous: Synchronous = "normal") -> sqlite3.Connection:
    """Opens the file. Creates and migrates it as needed.

    Raises `StorageError` if the file is damaged, not a run log, or from a later version, and in a
    process that was forked while the file was in use.
    """
    check_not_inherited(path)
    _make(path)
    with readable_errors(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A damaged text must not hide its run or others.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            if _version(connection, path) == 0:
                # Only for a new file, since the pragma needs the write lock.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _make(path: Path) -> None:
    """Creates the file if needed, readable by its owner only, since it has private messages.

    An existing file is never opened here: closing it would drop the locks that SQLite has on it in
    this process, and the next process that exits would delete our journal.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _making:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageError(f"cannot open {path} for writing: {error.strerror}") from error


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switches to WAL mode. Retries, since SQLite does not wait if two processes do it at once."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) == len(MIGRATIONS):
        return
    with transaction(connection):
        # Another process may have migrated the file while this one waited for the lock.
        version = _version(connection, path)
        connection.create_function("folded_title", 1, folded_title)
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")


def folded_title(title: str | bytes) -> str:
    """Returns the title in the form in which titles are searched: without case.

    Replaces invalid characters: lone surrogates, which SQLite rejects, and damaged bytes.
    """
    data = title if isinstance(title, bytes) else title.encode("utf-8", "replace")
    return data.decode("utf-8", "replace").casefold()


def _version(connection: sqlite3.Connection, path: Path) -> int:
    # One statement reads a consistent state: another process may be creating the file.
    version, application, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if (version or tables) and application != APPLICATION:
        raise StorageError(f"{path} is a database, but not a run log: use another file")
    if version > len(MIGRATIONS):
        raise StorageError(
            f"{path} has schema version {version}, but this version of Windlass supports up to "
            f"{len(MIGRATIONS)}: update Windlass, or use another file"
        )
    return version


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """A transaction that takes the write lock at its start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def fence(connection: sqlite3.Connection, writer: int) -> None:
    """Rejects events that this connection writes to runs which another process has taken over."""
    connection.execute(
        "CREATE TEMP TRIGGER run_is_ours BEFORE INSERT ON main.batches"
        f" WHEN (SELECT keeper FROM main.runs WHERE id = new.run_id) <> {writer}"
        f" BEGIN SELECT RAISE(ABORT, '{TAKEN_OVER}'); END"
    )


def check_room(connection: sqlite3.Connection) -> None:
    """Checks that the file is writable: writes and removes a blob. Raises SQLite's errors."""
    with transaction(connection):
        connection.execute("CREATE TABLE room (data BLOB)")
        connection.execute("INSERT INTO room VALUES (zeroblob(?))", (ROOM_BYTES,))
        connection.execute("DROP TABLE room")
    connection.executescript("PRAGMA incremental_vacuum")


class DeleteStep(NamedTuple):
    """The result of one step of a deletion."""

    runs: int
    achieved: bool
    """Whether the step deleted or freed anything; in a damaged file that may be impossible."""
    left: bool
    """Whether batches of deleted runs, or their pages, are still in the file."""


def delete_step(
    connection: sqlite3.Connection,
    choose: Callable[[sqlite3.Connection], Sequence[str]],
    free_before: int,
) -> DeleteStep:
    """Deletes the runs that `choose` returns, some batches of deleted runs, and some free pages.

    `free_before` pages were free before the deletion, and may stay free.
    """
    # The batches of a large run take many steps, so deleting its record must not cascade.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        with transaction(connection):
            run_ids = [(run_id,) for run_id in choose(connection)]
            connection.executemany("INSERT OR IGNORE INTO deleted VALUES (?)", run_ids)
            connection.executemany("DELETE FROM orders WHERE run_id = ?", run_ids)
            runs = connection.executemany("DELETE FROM runs WHERE id = ?", run_ids).rowcount
            batches, left = _delete_batches(connection)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")
    free = free_pages(connection)
    # Not `execute`, which takes only one step and so frees only one page.
    connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    still_free = free_pages(connection)
    return DeleteStep(
        runs=max(0, runs),
        achieved=runs > 0 or batches > 0 or still_free < free,
        left=left or still_free > free_before,
    )


def _delete_batches(connection: sqlite3.Connection) -> tuple[int, bool]:
    """Deletes some batches of deleted runs. Returns their number, and whether more are left."""
    count, room = 0, STEP_BYTES
    for (run_id,) in connection.execute("SELECT run_id FROM deleted LIMIT 200").fetchall():
        query = "SELECT first, length(data) FROM batches WHERE run_id = ? ORDER BY first"
        last = -1
        for first, size in connection.execute(query, (run_id,)):
            if room <= 0:
                break
            last, room = first, room - size
        else:
            connection.execute("DELETE FROM deleted WHERE run_id = ?", (run_id,))
        some = "DELETE FROM batches WHERE run_id = ? AND first <= ?"
        count += connection.execute(some, (run_id, last)).rowcount
        if room <= 0:
            break
    left = connection.execute("SELECT EXISTS (SELECT 1 FROM deleted)").fetchone()[0]
    return count, bool(left)


def free_pages(connection: sqlite3.Connection) -> int:
    """Returns the number of unused pages in the file."""
    return connection.execute("PRAGMA freelist_count").fetchone()[0]


def empty_journal(connection: sqlite3.Connection) -> bool:
    """Moves the whole journal into the file. Returns False if a reader still needs the journal."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()  # does not block writers
    # The rest blocks writers until all readers have finished, so give up early and retry later.
    connection.execute(f"PRAGMA busy_timeout = {JOURNAL_MS}")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
    return not busy


@contextlib.contextmanager
def readable_errors(path: Path) -> Generator[None]:
    """Converts every error of the file to `StorageError`, with advice.

    A damaged file causes not only SQLite errors, but also values of a wrong type.
    """
    try:
        yield
    except sqlite3.Error as error:
        damaged = _code(error) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        raise (Damaged if damaged else StorageError)(_message(path, error)) from error
    except WindlassError:
        raise
    except Exception as error:
        raise StorageError(f"cannot read or write {path}: {error!r}") from error


def is_busy(error: BaseException | None) -> bool:
    """Whether another process locked the file."""
    return _code(error) & 0xFF in _BUSY


def is_full(error: BaseException | None) -> bool:
    """Whether the disk is full."""
    return _code(error) & 0xFF == sqlite3.SQLITE_FULL


def is_taken_over(error: BaseException | None) -> bool:
    """Whether the fence rejected a write."""
    return isinstance(error, sqlite3.Error) and str(error) == TAKEN_OVER


def is_broken(error: BaseException | None) -> bool:
    """Whether a new connection may work where this one failed."""
    return _code(error) & 0xFF in _BROKEN


def file_failure(error: BaseException) -> str | None:
    """Returns why the whole file is not writable; None if the failure concerns only one run."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.strerror or str(cause)
    return str(cause) if _code(cause) & 0xFF in _WHOLE_FILE else None


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _message(path: Path, error: sqlite3.Error) -> str:
    match _code(error):
        case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return f"the run is no longer in {path}: it was deleted while it was running"
        case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY | sqlite3.SQLITE_CONSTRAINT_TRIGGER:
            return f"the run in {path} has events that this process did not write"
        case _:
            pass
    match _code(error) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return f"the disk is full: cannot write {path} until there is free space"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return (
                f"{path} is damaged ({error}): move it away to start a new one; "
                f"`sqlite3 {path} .recover` recovers what is readable"
            )
        case sqlite3.SQLITE_IOERR:
            return f"cannot read or write {path}: {error}"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another process has locked {path} for more than {BUSY_SECONDS:g} seconds"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return f"cannot open {path} for writing: {error}"
        case _:
            return f"{path}: {error}"
