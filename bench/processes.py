"""Starts the processes of a benchmark: the upstream, a worker for each peer, new interpreters."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@contextmanager
def python(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a Python child with pipes. The child exits when its stdin closes."""
    command = [sys.executable, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=HERE) as child:
        yield child


@contextmanager
def upstream() -> Iterator[str]:
    with python("upstream.py") as child:
        assert child.stdout
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"


class Worker:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child

    def read_answer(self) -> Any:
        assert self.child.stdout
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit("a worker has exited; see its error above")
        return json.loads(line)

    def ask(self, *words: object) -> Any:
        assert self.child.stdin
        print(*words, file=self.child.stdin, flush=True)
        return self.read_answer()


def workers(peers: list[str], base_url: str, stack: ExitStack) -> dict[str, Worker]:
    """Starts a worker for each peer that can be imported, and reports the others."""
    available: dict[str, Worker] = {}
    for peer in peers:
        worker = Worker(stack.enter_context(python("worker.py", peer, base_url)))
        absent = worker.read_answer()["absent"]
        if absent:
            print(f"{peer} is not installed: {absent}")
        else:
            available[peer] = worker
    return available


def import_cpu(code: str) -> float:
    """User and system CPU seconds of a fresh interpreter running the code; infinite if it fails."""
    # Allow bytecode files. Without them, the interpreter would compile every module again.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return float("inf")
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
