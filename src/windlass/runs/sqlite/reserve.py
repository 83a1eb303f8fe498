"""Room that is kept for what must be written on a full disk: a small file beside the database."""

import contextlib
import os
from pathlib import Path

__all__ = ["RESERVE_BYTES", "Reserve"]

RESERVE_BYTES = 64 * 1024
"""Enough for some stops: one needs three or four pages of the journal."""


class Reserve:
    """`size` 0 keeps none."""

    def __init__(self, database: Path, size: int) -> None:
        self._path = Path(f"{database}-reserve")
        self._size = size

    def fill(self) -> None:
        """Makes the file if it is not there and there is room."""
        if not self._size or self._path.exists():
            return
        try:
            with self._path.open("xb") as file:
                file.write(os.urandom(self._size))  # file systems store zeros without any room
        except OSError:
            self.release()

    def release(self) -> bool:
        """Gives the room back; False if there was none."""
        with contextlib.suppress(OSError):
            self._path.unlink()
            return True
        return False
