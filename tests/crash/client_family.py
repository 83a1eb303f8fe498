"""A family of clients on one file: each writes runs and resumes those of killed relatives.

`python -m tests.crash.client_family runs.db ledger` is the first one. SIGUSR1 lets a process fork,
wherever it is; its child becomes another client. SIGTERM lets one close its client and exit. Each
reports its start and its ended runs in lines on stdout, `began PID` and `ended RUN`. All end when
stdin is closed.
"""

import os
import signal
import sys
import threading
import traceback
from typing import NoReturn

from windlass import Client, ToolContext, tool
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, call, say
from windlass.testing.script import Turn


def answer(request: ModelRequest) -> Turn:
    """Two calls, then the answer. A repeated request gets the same turn."""
    number = sum(message.role == "assistant" for message in request.messages)
    return call("pay", amount=number, id=f"call_{number}") if number < 2 else say("paid")


def client_on(path: str, ledger: str) -> Client:
    @tool
    def pay(amount: int, context: ToolContext) -> str:
        """Pays once; the ledger shows whether it was twice."""
        append(ledger, context.call_key)
        return f"paid {amount}"

    return Client(ScriptedModel(answer), tools=[pay], log=path)


def append(ledger: str, line: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def report(*words: object) -> None:
    """In one write: processes share the pipe."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def work(path: str, ledger: str) -> NoReturn:
    threading.Thread(target=end_with_stdin, daemon=True).start()
    with client_on(path, ledger) as client:
        signal.signal(signal.SIGTERM, leave)
        report("began", os.getpid())
        while True:
            for run in client.resume():
                run.result()
                report("ended", run.id)
            report("ended", client.generate("Pay twice.").run_id)


def leave(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def end_with_stdin() -> None:
    os.read(0, 1)
    os._exit(0)


def main(path: str, ledger: str) -> NoReturn:
    sys.setrecursionlimit(100_000)  # each generation runs inside its parent's signal handler

    def fork(*_: object) -> None:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until it has a client to close
            try:
                work(path, ledger)
            except Exception:  # noqa: BLE001 - the driver shows it
                traceback.print_exc()
            finally:
                os._exit(0)  # never returns into its parent's code

    signal.signal(signal.SIGUSR1, fork)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    work(path, ledger)


if __name__ == "__main__":
    main(*sys.argv[1:])
