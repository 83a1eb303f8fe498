"""SQLite connections that are closed while the process forks.

SQLite keeps a table of the files that its process has open and of their locks. A forked child
inherits the table but not the locks, and would read and write such a file without any lock. So
every connection is closed before a fork, and opened again at its next use.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from windlass.errors import StorageError

FORK_SECONDS = 5.0
"""How long a fork waits for running statements."""


class ThreadConnection:
    """The connection of one thread, opened at its first use. Inside `with` no fork closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        with _forking:
            _connections.add(self)

    def __enter__(self) -> "ThreadConnection":
        with _forking:  # a waiting fork goes first, even if the threads are busy
            pass
        self.lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def get(self, open: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        """Raises what `open` raises."""
        if self._opened is None:
            self._opened = open()
        return self._opened

    def close(self) -> None:
        """Closes the connection. Ignores errors: no statement is pending."""
        opened, self._opened = self._opened, None
        if opened is not None:
            with contextlib.suppress(sqlite3.Error):
                opened.close()

    @property
    def in_use(self) -> bool:
        """Whether SQLite has, or may have, the file open."""
        return self._opened is not None or self.lock.locked()


_forking = threading.Lock()
"""Held during a fork, so that no connection is added meanwhile."""
_connections: "WeakSet[ThreadConnection]" = WeakSet()
_paused: list[ThreadConnection] = []
"""Connections that are closed and locked during the fork."""
_inherited: list[ThreadConnection] = []
"""Connections that could not be closed before the fork. The child never closes them, since SQLite
would act as if it had the parent's locks."""
_inherited_files: set[tuple[int, int] | None] = set()
"""Their files, by device and inode as SQLite knows them."""


def check_not_inherited(path: Path) -> None:
    """Raises `StorageError` for a file that SQLite had open when this process was forked."""
    if path.exists() and _identity(path) in _inherited_files:
        raise StorageError(
            f"{path} was in use when this process was forked, so SQLite cannot open it here:"
            " close the client before the fork, or start the process with spawn"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _pause() -> None:
    _forking.acquire()
    end = time.monotonic() + FORK_SECONDS
    for connection in list(_connections):
        if connection.lock.acquire(timeout=max(0.0, end - time.monotonic())):
            _paused.append(connection)
            connection.close()


def _continue() -> None:
    while _paused:
        _paused.pop().lock.release()
    _forking.release()


def _continue_in_child() -> None:
    global _forking
    while _paused:
        _paused.pop().lock.release()
    _forking = threading.Lock()  # a thread of the parent may hold the old one
    for connection in list(_connections):
        if connection.in_use:
            # The child's own forks must not wait for it: the thread that uses it is in the parent.
            _connections.discard(connection)
            _inherited.append(connection)
            _inherited_files.add(_identity(connection.path))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause, after_in_parent=_continue, after_in_child=_continue_in_child)
