"""Detects exited processes: each writer locks one byte of a lock file while it is alive.

The system releases the lock when the process exits, so its runs can be resumed at once. A writer's
byte is its number in the table `keepers`.

On Linux the locks belong to the open file, not to the process: the process keeps them even if it
opens and closes the file elsewhere. Other systems drop the locks then; the fence of the database
still prevents two processes from writing one run.
"""

import contextlib
import errno
import os
import struct
import sys
import threading
from pathlib import Path

from windlass.errors import StorageError

MAX_WRITER = 2**62
"""Larger offsets cannot be locked."""
_held: dict[Path, tuple[int, set[int]]] = {}
"""By lock file: its one descriptor in this process, and the writers that it has locked."""
_mutex = threading.Lock()


def hold(database: Path, writer: int) -> None:
    """Locks the byte of `writer` until this process exits or `release` is called.

    Raises `StorageError` if the file system does not support locks.
    """
    with _mutex:
        try:
            descriptor, writers = _open(database)
            _lock(descriptor, writer)
        except OSError as error:
            raise StorageError(f"cannot lock {_lock_file(database)}: {error.strerror}") from error
        writers.add(writer)


def release(database: Path, writer: int) -> None:
    with _mutex:
        descriptor, writers = _open(database)
        _unlock(descriptor, writer)
        writers.discard(writer)
        if not writers:
            os.close(descriptor)
            del _held[_lock_file(database)]


def is_alive(database: Path, writer: int) -> bool:
    if type(writer) is not int or not 0 < writer < MAX_WRITER:
        return False  # the database is damaged: no writer has such a number
    with _mutex:
        descriptor, writers = _open(database)
        if writer in writers:
            return True
        try:
            _lock(descriptor, writer)
        except OSError:
            return True
        _unlock(descriptor, writer)
        return False


def _open(database: Path) -> tuple[int, set[int]]:
    path = _lock_file(database)
    if path not in _held:
        _held[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600), set()
    return _held[path]


def _lock_file(database: Path) -> Path:
    return Path(f"{database.resolve()}-lock")


if os.name == "nt":
    import msvcrt

    def _lock(descriptor: int, writer: int) -> None:
        os.lseek(descriptor, writer, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int, writer: int) -> None:
        os.lseek(descriptor, writer, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int, writer: int) -> None:
        if not _lock_open_file(descriptor, writer, fcntl.F_WRLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, writer)

    def _unlock(descriptor: int, writer: int) -> None:
        if not _lock_open_file(descriptor, writer, fcntl.F_UNLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, writer)

    def _lock_open_file(descriptor: int, writer: int, kind: int) -> bool:
        """Returns False on systems where locks always belong to a process."""
        if sys.platform != "linux":
            return False
        # struct flock: type, whence, start, length, pid; padded at its end
        flock = struct.pack("hhqqi0q", kind, os.SEEK_SET, writer, 1, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return False  # an emulated or very old kernel
        return True

    def _close_inherited() -> None:
        """Closes the parent's lock files in a forked child, which would hold their locks otherwise.

        The parent keeps its locks.
        """
        global _mutex
        _mutex = threading.Lock()
        for descriptor, _ in _held.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        _held.clear()

    os.register_at_fork(after_in_child=_close_inherited)
