"""The folder for what is made once and kept, and a lock between processes."""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "locked"]


def cache_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """`WINDLASS_CACHE`, else the place for caches of this system's users."""
    if given := environ.get("WINDLASS_CACHE"):
        return Path(given).expanduser()
    home = Path.home()
    match platform:
        case "win32":
            return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local") / "windlass/cache"
        case "darwin":
            return home / "Library/Caches/windlass"
        case _:
            return Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "windlass"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Waits until no other process or thread holds the file. A holder that dies lets go of it."""
    with path.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
