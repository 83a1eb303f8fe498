"""Runs `windlass` commands in forked processes, which start faster than a new Python.

`tests/cli/test_every_command.py` starts every command as a user does.
"""

import os
import subprocess
import sys
from typing import Any

from tests.support.forked import parent, serve


class Command(subprocess.Popen[str]):
    """A process of `windlass` with these arguments. `options` are those of `Popen`."""

    def __init__(self, *words: str, **options: Any) -> None:
        super().__init__(words, encoding="utf-8", **options)

    # Private in the library, which has no public way to start a process otherwise.
    def _execute_child(self, words: Any, *options: Any) -> None:
        cwd, env, files = options[4], options[5], options[9:15]
        place = {"cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}
        with open(os.devnull, "r+b") as nothing:
            stdin, stdout, stderr = (
                nothing.fileno() if file == -1 else file for file in (files[0], files[3], files[5])
            )
            request = {"words": words, **place}
            self.pid = parent("tests.support.commands").fork(request, stdin, stdout, stderr)
        self._child_created = True
        self._close_pipe_fds(*files)  # pyright: ignore[reportAttributeAccessIssue]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags == 0:
            return self.pid, parent("tests.support.commands").wait(self.pid)
        status = parent("tests.support.commands").status(self.pid)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            process, status = self._try_wait(os.WNOHANG)
            if process:
                self._handle_exitstatus(status)  # pyright: ignore[reportAttributeAccessIssue]
        return self.returncode


def finished(*words: str, input: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs `windlass` with these arguments, and returns its output and exit code."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Command(*words, **pipes, **options) as process:
        out, error = process.communicate(input, timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, error)


def _run(request: Any) -> None:
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    sys.argv = ["windlass", *request["words"]]
    sys.exit(main(request["words"]))


if __name__ == "__main__":
    import tests.crash.forking  # noqa: F401 - loads what the commands need

    from windlass.cli import main

    serve(_run)
