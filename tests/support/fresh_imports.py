"""Imports each module of a package alone, as a fresh interpreter would. Run it as a script.

Importing `a.b.c` imports `a` and `a.b` first. A process that has imported `a.b` and nothing else is
therefore in the state in which a fresh interpreter starts to import `a.b.c`, and each module can be
imported in a fork of such a process: this is many times faster than a new interpreter for each.

Prints the traceback of every failure, and the number of modules that could be imported.
"""

import gc
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

SKIPPED = ("__init__", "__main__")
"""A package is imported by its name, and `__main__` starts the program."""


def import_package(folder: Path, name: str) -> int:
    """Imports the package, and each of its modules in a fork. Returns how many were imported."""
    import_module(name)
    imported = 1
    for path in sorted(folder.iterdir()):
        full_name = f"{name}.{path.stem}"
        if (path / "__init__.py").is_file():
            imported += in_fork(full_name, import_package, path, full_name)
        elif path.suffix == ".py" and path.stem not in SKIPPED:
            imported += in_fork(full_name, import_module, full_name)
    return imported


def in_fork(name: str, work: Callable[..., object], *given: object) -> int:
    """Calls `work` in a child process, and returns how many modules it imported.

    Returns 0 after a failure, whose traceback is printed.
    """
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        with os.fdopen(reading) as pipe:
            result = int(pipe.read() or 0)
        os.waitpid(child, 0)
        return result
    try:
        result = work(*given)
        os.write(writing, str(result if isinstance(result, int) else 1).encode())
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        sys.stdout.write(f"{name}: {traceback.format_exc()}")
    finally:
        sys.stdout.flush()
        os._exit(0)


def main(folder: Path, *others: str) -> None:
    for name in others:
        import_module(name)
    gc.disable()
    imported = in_fork(folder.name, import_package, folder, folder.name)
    sys.stdout.write(f"{imported} modules imported\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
