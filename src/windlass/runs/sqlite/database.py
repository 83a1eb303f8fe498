"""The file: how it is opened, what is in it, how an older one is brought up to date."""

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from windlass.errors import StorageError, WindlassError
from windlass.runs.persisted_log import Damaged
from windlass.runs.sqlite.connection import check_not_inherited

__all__ = [
    "DeleteStep",
    "Synchronous",
    "check_room",
    "connect",
    "delete_step",
    "empty_journal",
    "fence",
    "file_failure",
    "free_pages",
    "in_words",
    "is_broken",
    "is_busy",
    "is_full",
    "is_taken_over",
    "transaction",
]

Synchronous = Literal["normal", "full"]
"""`normal` outlives any crash of a process; `full` waits for the disk, and outlives a power cut."""

BUSY_SECONDS = 10.0
ROOM_BYTES = 256 * 1024
"""What must fit into the file before it counts as writable again: many events, not just one."""
STEP_BYTES = 2**20
"""How much of runs one step of a deletion takes: some milliseconds of the file's one writer."""
STEP_PAGES = 512
"""How many free pages it gives back."""
JOURNAL_MS = 50
"""How long an attempt to empty the journal may hold up writers while it waits for readers."""
APPLICATION = 0x57494E44  # "WIND"
TAKEN_OVER = "another process has taken the run over"
"""What SQLite says of a write that the fence refuses."""

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

    -- Events that follow one another, as many as came at once: a JSON array.
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
    -- One statement writes a batch and what is known of its run: it is whole or not there.
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
    # Numbers of orders are never used again: what one process obeyed or deletes is that order.
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
    -- A log has no gaps: nothing is written behind a batch that could not be.
    CREATE TRIGGER batch_follows BEFORE INSERT ON batches
    WHEN new.first <> (SELECT events FROM runs WHERE id = new.run_id) + 1 BEGIN
        SELECT RAISE(ABORT, 'the batch does not follow the last one');
    END;
    """,
    # Runs have an order that no clock decides, and no query reads every run.
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
    -- Runs that no reader finds any more, and whose batches are being deleted.
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
    """Opens the file, makes it if it is not there, and brings it up to date.

    Raises `StorageError` if it is damaged, not ours, or of a later version, and in a process that
    was forked while the file was used.
    """
    check_not_inherited(path)
    _make(path)
    with in_words(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if _version(connection, path) == 0:
                # Once, and not by every reader: it takes the place of a writer.
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
    """The file holds what people have said: it is its owner's alone.

    One that is there is never opened here: to close it again would drop the locks that SQLite has
    on it in this process, and the next process to leave would take our journal with it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _making:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageError(f"{path} cannot be opened for writing: {error.strerror}") from error


def _use_wal(connection: sqlite3.Connection) -> None:
    """Waits its turn by itself: SQLite gives up at once if two make the same file."""
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
        # Somebody else may have done it while we waited for our turn.
        version = _version(connection, path)
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    # In one statement: another process may make the file meanwhile, and must be seen whole.
    version, application, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if (version or tables) and application != APPLICATION:
        raise StorageError(f"{path} is a database, but not a log of runs: name another file")
    if version > len(MIGRATIONS):
        raise StorageError(
            f"{path} was written by a later version of Windlass ({version}, and this one knows "
            f"{len(MIGRATIONS)}): update Windlass, or name another file"
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
    """All or nothing. Takes the file's one place for writers at once, so that it never has to."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def fence(connection: sqlite3.Connection, keeper: int) -> None:
    """From now on this connection writes no events to runs that another process has taken over."""
    connection.execute(
        "CREATE TEMP TRIGGER run_is_ours BEFORE INSERT ON main.batches"
        f" WHEN (SELECT keeper FROM main.runs WHERE id = new.run_id) <> {keeper}"
        f" BEGIN SELECT RAISE(ABORT, '{TAKEN_OVER}'); END"
    )


def check_room(connection: sqlite3.Connection) -> None:
    """Writes something of a useful size, and takes it out again. Raises what SQLite raises."""
    with transaction(connection):
        connection.execute("CREATE TABLE room (data BLOB)")
        connection.execute("INSERT INTO room VALUES (zeroblob(?))", (ROOM_BYTES,))
        connection.execute("DROP TABLE room")
    connection.executescript("PRAGMA incremental_vacuum")


class DeleteStep(NamedTuple):
    """What a step of a deletion has done."""

    runs: int
    achieved: bool
    """Whether anything was deleted or given back; in a damaged file that may be impossible."""
    left: bool
    """Whether batches of deleted runs, or pages that these have taken, are still in the file."""


def delete_step(
    connection: sqlite3.Connection,
    choose: Callable[[sqlite3.Connection], Sequence[str]],
    free_before: int,
) -> DeleteStep:
    """Deletes the runs that `choose` returns, some batches of deleted runs, and some free pages.

    So many pages as were free before the deletion may stay.
    """
    # The batches of a large run take many steps: they do not go with its record.
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
    # Not by `execute`, which takes one step only, and so gives back one page.
    connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    still_free = free_pages(connection)
    return DeleteStep(
        runs=max(0, runs),
        achieved=runs > 0 or batches > 0 or still_free < free,
        left=left or still_free > free_before,
    )


def _delete_batches(connection: sqlite3.Connection) -> tuple[int, bool]:
    """Those of deleted runs, up to a bound; how many, and whether more are left."""
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
    """How many pages of the file hold nothing."""
    return connection.execute("PRAGMA freelist_count").fetchone()[0]


def empty_journal(connection: sqlite3.Connection) -> bool:
    """Moves all of the journal into the file; False if a reader still needs the journal."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()  # most of it, beside writers
    # The rest holds up writers until all readers have finished: better to try again.
    connection.execute(f"PRAGMA busy_timeout = {JOURNAL_MS}")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
    return not busy


@contextlib.contextmanager
def in_words(path: Path) -> Generator[None]:
    """Raises `StorageError` for every failure of the file, with what can be done.

    A damaged file fails in many ways, not only by errors of SQLite: with values of a wrong type.
    """
    try:
        yield
    except sqlite3.Error as error:
        damaged = _code(error) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        raise (Damaged if damaged else StorageError)(_words(path, error)) from error
    except WindlassError:
        raise
    except Exception as error:
        raise StorageError(f"{path} cannot be read or written: {error!r}") from error


def is_busy(error: BaseException | None) -> bool:
    """Whether another process held the file all the time."""
    return _code(error) & 0xFF in _BUSY


def is_full(error: BaseException | None) -> bool:
    """Whether the disk had no room."""
    return _code(error) & 0xFF == sqlite3.SQLITE_FULL


def is_taken_over(error: BaseException | None) -> bool:
    """Whether the fence has refused a write."""
    return isinstance(error, sqlite3.Error) and str(error) == TAKEN_OVER


def is_broken(error: BaseException | None) -> bool:
    """Whether a new connection may help where this one has failed."""
    return _code(error) & 0xFF in _BROKEN


def file_failure(error: BaseException) -> str | None:
    """Why the file as a whole cannot be written; None if the failure is that of one run."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.strerror or str(cause)
    return str(cause) if _code(cause) & 0xFF in _WHOLE_FILE else None


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _words(path: Path, error: sqlite3.Error) -> str:
    match _code(error):
        case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return f"the run is no longer in {path}: it was deleted while it went"
        case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY | sqlite3.SQLITE_CONSTRAINT_TRIGGER:
            return f"the run in {path} has other events than this process has written"
        case _:
            pass
    match _code(error) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return f"the disk is full: {path} cannot be written until there is room"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return (
                f"{path} is damaged ({error}): move it away to begin a new one; what can be read "
                f"of it comes out with `sqlite3 {path} .recover`"
            )
        case sqlite3.SQLITE_IOERR:
            return f"{path} cannot be read or written: {error}"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another process has held {path} for more than {BUSY_SECONDS:g} seconds"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return f"{path} cannot be opened for writing: {error}"
        case _:
            return f"{path}: {error}"
