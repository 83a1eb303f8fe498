"""Which processes live: each holds a lock on a byte of a file, and the system lets go of it.

A process that is killed keeps no lock, so no time has to pass before its runs are taken over.

On Linux the locks belong to the open file, not to the process: the process may open and close the
file elsewhere and keeps them. Systems without such locks drop them then; the fence of the database
still keeps two processes from writing one run.
"""

import contextlib
import errno
import os
import struct
import sys
import threading
from pathlib import Path

from windlass.errors import StorageError

__all__ = ["hold", "is_alive", "release"]

MAX_KEEPER = 2**62
"""Above all that can be locked."""
_held: dict[Path, tuple[int, set[int]]] = {}
"""By lock file: its one descriptor in this process, and the keepers that are locked with it."""
_mutex = threading.Lock()


def hold(database: Path, keeper: int) -> None:
    """Says that `keeper` lives, until this process ends or `release` is called.

    Raises `StorageError` where files cannot be locked.
    """
    with _mutex:
        try:
            descriptor, keepers = _open(database)
            _lock(descriptor, keeper)
        except OSError as error:
            raise StorageError(f"{_beside(database)} cannot be locked: {error.strerror}") from error
        keepers.add(keeper)


def release(database: Path, keeper: int) -> None:
    with _mutex:
        descriptor, keepers = _open(database)
        _unlock(descriptor, keeper)
        keepers.discard(keeper)
        if not keepers:
            os.close(descriptor)
            del _held[_beside(database)]


def is_alive(database: Path, keeper: int) -> bool:
    if type(keeper) is not int or not 0 < keeper < MAX_KEEPER:
        return False  # the file is damaged: no process has such a number
    with _mutex:
        descriptor, keepers = _open(database)
        if keeper in keepers:
            return True
        try:
            _lock(descriptor, keeper)
        except OSError:
            return True
        _unlock(descriptor, keeper)
        return False


def _open(database: Path) -> tuple[int, set[int]]:
    path = _beside(database)
    if path not in _held:
        _held[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), set()
    return _held[path]


def _beside(database: Path) -> Path:
    return Path(f"{database.resolve()}-lock")


if os.name == "nt":
    import msvcrt

    def _lock(descriptor: int, keeper: int) -> None:
        os.lseek(descriptor, keeper, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int, keeper: int) -> None:
        os.lseek(descriptor, keeper, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int, keeper: int) -> None:
        if not _lock_open_file(descriptor, keeper, fcntl.F_WRLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, keeper)

    def _unlock(descriptor: int, keeper: int) -> None:
        if not _lock_open_file(descriptor, keeper, fcntl.F_UNLCK):
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, keeper)

    def _lock_open_file(descriptor: int, keeper: int, kind: int) -> bool:
        """False where locks always belong to a process."""
        if sys.platform != "linux":
            return False
        # struct flock: type, whence, start, length, pid; padded at its end
        flock = struct.pack("hhqqi0q", kind, os.SEEK_SET, keeper, 1, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return False  # an emulated or very old kernel
        return True

    def _let_go() -> None:
        """A forked child has the parent's open files, and would hold their locks after its end.

        The parent keeps its locks when the child closes them.
        """
        global _mutex
        _mutex = threading.Lock()
        for descriptor, _ in _held.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        _held.clear()

    os.register_at_fork(after_in_child=_let_go)
