"""A small file that reserves disk space for writes that must succeed on a full disk."""

import contextlib
import os
from pathlib import Path

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
