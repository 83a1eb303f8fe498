"""Processes for the tests of logs: each does one thing, and is controlled by lines of text.

`Child` is the test's end of such a process. All of them are forked off one process, which has
imported what they need.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.forked import parent, serve
from tests.support.sample_runs import STARTED, begin, kept
from tests.support.typed_answers import BAD as BAD_INVOICE
from tests.support.typed_answers import Invoice

from windlass import AsyncClient, tool
from windlass.errors import StorageError
from windlass.events import RunEnded, RunEvent, Status, TextDelta
from windlass.model import ModelRequest
from windlass.runs.records import Order
from windlass.runs.sqlite import SQLiteLog, database
from windlass.testing import ScriptedModel, calls, hang
from windlass.testing import call as model_call

SAID: dict[str, RunEvent] = {
    "text": TextDelta("word "),
    "status": Status("s"),
    "end": RunEnded("answer"),
}


class Child:
    """A process of this file; leaving it kills it."""

    def __init__(self, *arguments: object) -> None:
        (stdin, our_input), (our_output, stdout) = os.pipe(), os.pipe()
        self._id = parent("tests.runs.processes").fork(
            [str(each) for each in arguments], stdin, stdout
        )
        os.close(stdin)
        os.close(stdout)
        self._input = os.fdopen(our_input, "w")
        self._output = os.fdopen(our_output)
        self._has_exited = False

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._input.close()
        self._output.close()

    def tell(self, line: str) -> None:
        self._input.write(f"{line}\n")
        self._input.flush()

    async def hear(self) -> str:
        """The next line of its output; empty when it has exited."""
        return (await asyncio.to_thread(self._output.readline)).rstrip("\n")

    def kill(self) -> None:
        """`kill -9`: nothing is cleaned up."""
        if not self._has_exited:
            os.kill(self._id, signal.SIGKILL)  # its parent waits for it only when we ask
            parent("tests.runs.processes").wait(self._id)
            self._has_exited = True


def say(*words: object) -> None:
    print(*words, flush=True)


async def asked() -> str:
    return (await asyncio.to_thread(sys.stdin.readline)).rstrip("\n")


async def write(path: str, run_id: str = "run_1") -> None:
    """Begins a run and appends the requested events; reports the stored ones."""
    log = SQLiteLog(path)
    run = begin(log, run_id)
    run.on_order = lambda order: say(order.kind, order.call_id, order.approved, order.arguments)
    await kept(run, STARTED)
    say("begun")
    while word := await asked():
        await kept(run, SAID[word])
        say("kept", len(run.recorded()))
    await log.aclose()
    say("closed")


async def flood(path: str) -> None:
    """Writes to many runs without end, and reports the last stored event of each."""
    log = SQLiteLog(path)
    runs = {number: begin(log, f"run_{number}") for number in range(5)}
    for run in runs.values():
        await kept(run, STARTED)

    async def write_on(number: int) -> None:
        while True:
            await kept(runs[number], Status("x" * 3_000), TextDelta("y" * 2_000), Status("z"))
            say(number, len(runs[number].recorded()))

    await asyncio.gather(*(write_on(number) for number in runs))


async def follow(path: str, run_id: str = "run_1", after: str = "0") -> None:
    """Prints each event of a run when it arrives."""
    log = SQLiteLog(path)
    async for event in log.follow(run_id, int(after)):
        say(event.seq, type(event).__name__)
    await log.aclose()
    say("over")


async def claim(path: str) -> None:
    """On request: claims the interrupted runs, and prints their ids."""
    log = SQLiteLog(path)
    await log.list()
    say("ready")
    await asked()
    say(*sorted(record.id for record in await log.claim()))
    await asked()


async def order(path: str, kind: str) -> None:
    log = SQLiteLog(path)
    stop = Order(kind="stop")
    approve = Order(kind="approve", call_id="a", arguments={"amount": 2})
    await log.order("run_1", stop if kind == "stop" else approve)
    await log.aclose()
    say("ordered")


async def migrate(path: str, steps: str) -> None:
    """Opens the file on request, as a version with this many more migrations."""
    more = "CREATE TABLE later_{0} (x); INSERT INTO later_{0} VALUES ({0});"
    added = [more.format(n).replace("; ", ";\n") for n in range(int(steps))]
    database.MIGRATIONS = (*database.MIGRATIONS, *added)
    say("ready")
    await asked()
    database.connect(Path(path)).close()
    say("opened")


async def fill(path: str, most: str) -> None:
    """Writes until files may not grow any more; then reports the error and the stored events."""
    import resource

    log = SQLiteLog(path)
    run = begin(log)
    await kept(run, STARTED)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), resource.RLIM_INFINITY))
    try:
        while True:
            await kept(run, Status("x" * 10_000))
    except StorageError as error:
        say(error)
    say(len(run.recorded()))


async def unprivileged(path: str) -> None:
    """Begins a run without permission to write; prints the error."""
    if os.geteuid() == 0:
        os.setuid(65534)
    log = SQLiteLog(path)
    try:
        await kept(begin(log), STARTED)
    except StorageError as error:
        say(error)
    await log.aclose()


async def typed(path: str, validated: str) -> None:
    """A client whose first answer is not valid; it waits for the second one, and to be killed."""

    def script(request: ModelRequest) -> Any:
        if len(request.messages) == 1:
            return BAD_INVOICE
        say("asked again")
        return hang()

    model = ScriptedModel(script)
    async with AsyncClient(model, log=path) as client:
        validator = refuse_nothing if validated == "validated" else None
        run = await client.start("?", output=Invoice, output_validator=validator)
        say(run.id)
        await run.result()


def refuse_nothing(value: object) -> None:
    """Accepts every value."""


async def client(path: str, ledger: str, when_cut: str, budget: str = "") -> None:
    """A client whose run is in the middle of a tool; reports it, and waits to be killed.

    `budget` is the run's `max_tokens_total`.
    """

    @tool
    async def quick(n: int) -> str:
        """Returns at once."""
        note(ledger, f"quick {n}")
        return f"quick {n}"

    @tool(**CUT[when_cut])
    async def slow(n: int) -> str:
        """Never returns."""
        note(ledger, f"slow {n}")
        say("in the middle")
        return await asyncio.get_running_loop().create_future()

    script = [
        calls(model_call("quick", n=1, id="a"), model_call("quick", n=2, id="b"), text="One."),
        calls(model_call("slow", n=3, id="c"), text="Two."),
    ]
    model = ScriptedModel(script)
    asking = AsyncClient(model, tools=[quick, slow], log=path, parallel_tool_calls=False)
    run = await asking.start("go", max_tokens_total=int(budget) if budget else None)
    say(run.id)
    await run.result()


def note(ledger: str | Path, line: str) -> None:
    """Records on disk that a tool has begun."""
    with open(ledger, "a") as file:
        file.write(f"{line}\n")


CUT: dict[str, Any] = {
    "idempotent": {"idempotent": True},
    "retry": {"on_interrupt": "retry"},
    "tell_model": {"on_interrupt": "tell_model"},
    "fail": {"on_interrupt": "fail"},
}
COMMANDS: dict[str, Callable[..., Awaitable[None]]] = {
    each.__name__: each
    for each in (write, flood, follow, claim, order, migrate, fill, unprivileged, typed, client)
}


async def main(command: str, *arguments: str) -> None:
    await COMMANDS[command](*arguments)


def run(arguments: list[str]) -> None:
    asyncio.run(main(*arguments))


if __name__ == "__main__":
    serve(run)
