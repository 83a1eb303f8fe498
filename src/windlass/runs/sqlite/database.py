"""The file: how it is opened, what is in it, how an older one is brought up to date."""

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal

from windlass.errors import StorageError

__all__ = ["Synchronous", "connect", "in_words", "is_busy", "transaction"]

Synchronous = Literal["normal", "full"]
"""`normal` outlives any crash of a process; `full` waits for the disk, and outlives a power cut."""

BUSY_SECONDS = 10.0
APPLICATION = 0x57494E44  # "WIND"

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
)


def connect(path: Path, synchronous: Synchronous = "normal") -> sqlite3.Connection:
    """Opens the file, makes it if it is not there, and brings it up to date.

    Raises `StorageError` if it is damaged, not ours, or of a later version.
    """
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


@contextlib.contextmanager
def in_words(path: Path) -> Generator[None]:
    """Says as `StorageError` what SQLite says as its own, with what can be done."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(_words(path, error)) from error


def is_busy(error: BaseException | None) -> bool:
    """Whether somebody else held the file all the time."""
    return _code(error) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _words(path: Path, error: sqlite3.Error) -> str:
    match _code(error):
        case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return f"the run is no longer in {path}: it was deleted while it went"
        case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
            return f"the run is written to {path} by somebody else too"
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
