"""Forks processes from one parent process, which has imported what they need.

Starting Python and importing Windlass takes longer than most of these processes live. A module that
calls `serve` when it is the main module can be the parent: `Parent("tests.runs.processes")`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.005


class Parent:
    """The connection of the tests to the parent process, which exits with this process."""

    def __init__(self, module: str) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, request: Any, *files: int) -> int:
        """Forks a process with these files as 0, 1 and 2, and returns its id."""
        return self._answer({"do": request}, *files)

    def wait(self, process: int) -> int:
        """Waits until the process has exited, and returns its status."""
        while (status := self.status(process)) is None:
            time.sleep(POLL_SECONDS)
        return status

    def status(self, process: int) -> int | None:
        """Returns the status of an exited process as `os.waitpid` does, once; otherwise None."""
        return self._answer({"wait": process})

    def _answer(self, request: Any, *files: int) -> Any:
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(data).to_bytes(4, "big")], files)
            self._socket.sendall(data)
            answer = self._socket.recv(100)
        assert answer, "the parent of the forked processes has exited"
        return json.loads(answer)


@cache
def parent(module: str) -> Parent:
    """Returns the parent process that the tests of this process share."""
    return Parent(module)


def serve(run: Callable[[Any], None]) -> None:
    """Executes each request in a forked process, until the tests have ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            size, files, _, _ = socket.recv_fds(requests, 4, 3)
            if not size:
                return
            data = b""
            while len(data) < int.from_bytes(size, "big"):
                data += requests.recv(65_536)
            match json.loads(data):
                case {"wait": int(process)}:
                    found, status = os.waitpid(process, os.WNOHANG)
                    answer = status if found else None
                case request:
                    answer = os.fork()
                    if not answer:
                        break
                    for each in files:
                        os.close(each)
            requests.sendall(json.dumps(answer).encode())
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    run(request["do"])
