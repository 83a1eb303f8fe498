"""`windlass serve` again and again, forked off a process that has everything loaded already.

A line on stdin starts one. On stderr stands what each says, and then how it ended. Each is its own
process, with nothing of the one before; what is saved is the time to load the same code again.
"""

import os
import signal
import sys
import threading

import aiohttp  # noqa: F401 - loaded with the first request to a model
import uvloop  # noqa: F401 - loaded when the server begins
from uvicorn.lifespan import on  # noqa: F401 - the same

import windlass.gateway.app
import windlass.gateway.serve
import windlass.models.openai.model
import windlass.runs.sqlite  # noqa: F401 - loaded where runs are kept
from windlass.cli import main


def serve() -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            threading.Thread(target=_end_with_the_test, daemon=True).start()
            os._exit(main(["serve", "--log-format", "json"]))
        _say(f"began {child}")
        _, status = os.waitpid(child, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


def _say(line: str) -> None:
    """On a line of its own, whatever was cut off before."""
    os.write(2, f"\n{line}\n".encode())


def _end_with_the_test() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve()
