"""Which processes live: each holds a lock on a byte of a file, and the system lets go of it.

A process that is killed keeps no lock, so no time has to pass before its runs are taken over.
"""

import os
import threading
from pathlib import Path

from windlass.errors import StorageError

__all__ = ["hold", "is_alive", "release"]

MAX_KEEPER = 2**62
"""Above all that can be locked."""
_held: dict[Path, tuple[int, set[int]]] = {}
"""By lock file: its one descriptor in this process, since closing any would drop all its locks."""
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
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, keeper)

    def _unlock(descriptor: int, keeper: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, keeper)
