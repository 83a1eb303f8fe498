"""Starts `windlass` again and again, as forks of a process that has all modules loaded.

A line on stdin starts one: its name and its arguments, as JSON. Its output and its exit are written
to stderr, in lines that begin with its name. Forking saves the time to load the same code again.
"""

import json
import os
import selectors
import signal
import threading

import aiohttp  # noqa: F401 - loaded with the first request to a model
import uvloop  # noqa: F401 - loaded when the server begins
from uvicorn.lifespan import on  # noqa: F401 - the same

import windlass.gateway.app
import windlass.gateway.limits.fleet
import windlass.gateway.serve
import windlass.gateway.tools.workers
import windlass.models.openai
import windlass.runs.jetstream
import windlass.runs.sqlite
import windlass.worker  # noqa: F401 - loaded where they are configured
from windlass.cli import main


class Child:
    """A running process, and its output since the last end of a line."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid = name, pid
        self.said = b""

    def hear(self, data: bytes) -> None:
        *lines, self.said = (self.said + data).split(b"\n")
        for line in lines:
            tell(self.name, "says", line)

    def bury(self) -> None:
        if self.said:
            tell(self.name, "says", self.said)
        _, status = os.waitpid(self.pid, 0)
        tell(self.name, "ended", str(os.waitstatus_to_exitcode(status)).encode())


class Parent:
    """Reads the output of its children and its own commands, until stdin ends."""

    def __init__(self) -> None:
        self._events = selectors.DefaultSelector()
        self._events.register(0, selectors.EVENT_READ)
        self._asked = b""
        self._end, self._life = os.pipe()
        """Children read from it, and exit when this process exits."""

    def serve(self) -> None:
        while True:
            for key, _ in self._events.select():
                data = os.read(key.fd, 65_536)
                if key.data is not None:
                    self._heard(key.fd, key.data, data)
                elif data:
                    self._ask(data)
                else:
                    return

    def _ask(self, data: bytes) -> None:
        *lines, self._asked = (self._asked + data).split(b"\n")
        for line in lines:
            name, arguments = json.loads(line)
            self._start(name, arguments)

    def _start(self, name: str, arguments: list[str]) -> None:
        hears, says = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(self._life)
            os.dup2(says, 1)
            os.dup2(says, 2)
            threading.Thread(target=end_with, args=[self._end], daemon=True).start()
            os._exit(main(arguments))
        os.close(says)
        self._events.register(hears, selectors.EVENT_READ, Child(name, pid))
        tell(name, "began", str(pid).encode())

    def _heard(self, pipe: int, child: Child, data: bytes) -> None:
        if data:
            child.hear(data)
            return
        self._events.unregister(pipe)
        os.close(pipe)
        child.bury()


def tell(name: str, what: str, data: bytes) -> None:
    os.write(2, b"%s %s %s\n" % (name.encode(), what.encode(), data))


def end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Parent().serve()
