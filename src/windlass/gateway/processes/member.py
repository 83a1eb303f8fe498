"""One process of a gateway with several: its listener, and its connection to the supervisor."""

import asyncio
import contextlib
import itertools
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.gateway.config import GatewayConfig, LimitsConfig
from windlass.gateway.processes.messages import (
    MAX_LINE,
    Acquire,
    Drain,
    Find,
    Force,
    FromProcess,
    Ready,
    Recall,
    Relax,
    RequestAnswer,
    Return,
    Spend,
    Store,
    Stored,
    Withdraw,
    encode,
    from_supervisor,
)

log = logging.getLogger("windlass.gateway")

VARIABLE = "WINDLASS_PROCESS"
"""The environment variable with the `Assignment` of a process."""
GATEWAY = "gateway"
"""The name of the slots for all runs."""
SEARCH_SECONDS = 2.0
"""How long a search waits for the other processes."""


class Assignment(Struct, frozen=True):
    """The resources that the supervisor assigns to a process."""

    number: int
    listener: int
    """The descriptor of the socket that all processes listen on."""
    control: int
    """The descriptor of the connection to the supervisor."""
    runs: str | None = None
    """The file of runs, if the configuration has no run log."""
    workers: str | None = None
    """The address of the embedded NATS server for workers."""


def assignment(environ: Mapping[str, str] = os.environ) -> Assignment | None:
    """The assignment of this process; None if it has no supervisor."""
    text = environ.get(VARIABLE)
    return msgspec.json.decode(text, type=Assignment) if text else None


def with_assignment(config: GatewayConfig, assigned: Assignment) -> GatewayConfig:
    """The configuration with the resources that all processes share."""
    runs, workers = config.runs, config.workers
    if assigned.runs is not None and runs.path is None and not runs.nats:
        max_runs = runs.max_runs or max(1, config.limits.max_kept_runs)
        runs = replace(runs, path=assigned.runs, max_runs=max_runs)
    if assigned.workers is not None and workers is not None and not workers.nats:
        workers = replace(workers, nats=(assigned.workers,))
    return replace(config, runs=runs, workers=workers)


class Member:
    """The connection of this process to its supervisor, and the shared limits.

    It is a `LimitCounter`, and has the places for runs. It belongs to one event loop.
    """

    def __init__(self, assigned: Assignment) -> None:
        self.runs = assigned.runs
        """The temporary file of runs, unless the configuration has a log."""
        self.listener = socket.socket(fileno=assigned.listener)
        self._control = socket.socket(fileno=assigned.control)
        for inherited in (self.listener, self._control):
            inherited.set_inheritable(False)
        self._control.setblocking(False)
        self.on_drain: Callable[[], None] = lambda: None
        """Called when the process must finish its requests and exit."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the supervisor has exited."""
        self.on_search: Callable[[str], Awaitable[object]] | None = None
        """Stores the run with this id, or all runs for an empty id, if it is only in memory."""
        self._searches: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[str, asyncio.Future[float]]] = {}
        self._unused: Counter[str] = Counter()
        self._forced: Counter[str] = Counter()
        self._recalled: set[str] = set()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._control, limit=MAX_LINE)
        self._reading = asyncio.create_task(self._read(reader))

    def ready(self) -> None:
        """Reports that this process accepts requests."""
        self._send(Ready())

    async def aclose(self) -> None:
        for task in list(self._searches):
            task.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()

    async def search(self, run_id: str) -> None:
        """Asks the other processes to store this run, or all runs for an empty id.

        Returns when they have, or after `SEARCH_SECONDS`.
        """
        number, answer = self._new_request("")
        self._send(Find(number, run_id))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEARCH_SECONDS):
                await answer

    async def _answer_search(self, message: Store) -> None:
        try:
            if self.on_search is not None:
                await self.on_search(message.run_id)
        finally:
            self._send(Stored(message.id))

    # The limits of keys and models.

    async def spend(self, name: str, per_minute: int) -> float:
        number, answer = self._new_request(name)
        self._send(Spend(number, name, per_minute))
        return await answer

    async def acquire(self, name: str, limit: int) -> bool:
        turn = self.request(name, limit)
        try:
            return await turn
        except asyncio.CancelledError:
            # The answer may have arrived together with the cancellation.
            if turn.done() and not turn.cancelled() and turn.result():
                self.release(name)
            raise

    def force_acquire(self, name: str) -> None:
        self._forced[name] += 1
        self._send(Force(name))

    def release(self, name: str) -> None:
        if self._forced[name] or name in self._recalled:
            self._forced[name] -= 1 if self._forced[name] else 0
            self._send(Return(name, 1))
        else:
            self._unused[name] += 1

    # The slots of any name.

    def request(self, name: str, limit: int, max_waiting: int = 0) -> "asyncio.Future[bool]":
        """Requests a slot: True when it is granted, False if none is free."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._unused[name]:
            self._unused[name] -= 1
            turn.set_result(True)
            return turn
        number, answer = self._new_request(name)
        answer.add_done_callback(lambda done: self._decide(name, turn, done))
        turn.add_done_callback(lambda _: self._withdraw(number))
        self._send(Acquire(number, name, limit, max_waiting))
        return turn

    def _decide(
        self, name: str, turn: "asyncio.Future[bool]", answer: "asyncio.Future[float]"
    ) -> None:
        granted = not answer.cancelled() and answer.result() > 0
        if not turn.done():
            turn.set_result(granted)
        elif granted:  # it was withdrawn at the same moment
            self.release(name)

    def _withdraw(self, number: int) -> None:
        if number in self._answers:  # not answered: the turn was cancelled
            self._send(Withdraw(number, self._answers[number][0]))

    def _new_request(self, name: str) -> "tuple[int, asyncio.Future[float]]":
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._answers[number] = (name, answer)
        return number, answer

    def _send(self, message: FromProcess) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._handle(line)
        except OSError:
            pass
        log.error("The supervisor exited: shutting down")
        self.on_lost()

    def _handle(self, line: bytes) -> None:
        match from_supervisor(line):
            case RequestAnswer(id=number, value=value):
                _, answer = self._answers.pop(number)
                if not answer.done():
                    answer.set_result(value)
            case Recall(name=name):
                self._recalled.add(name)
                self._send(Return(name, self._unused.pop(name, 0), recalled=True))
            case Relax(name=name):
                self._recalled.discard(name)
            case Drain():
                self.on_drain()
            case Store() as message:
                task = asyncio.create_task(self._answer_search(message))
                self._searches.add(task)
                task.add_done_callback(self._searches.discard)


class SharedPlaces:
    """The places for runs of all processes of this gateway."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def request(self, limits: LimitsConfig) -> "asyncio.Future[bool]":
        return self._member.request(GATEWAY, limits.max_running, limits.max_queued)

    def withdraw(self, turn: "asyncio.Future[bool]") -> None:
        if turn.done():
            self.leave()
        else:
            turn.cancel()

    def force(self) -> None:
        self._member.force_acquire(GATEWAY)

    def leave(self) -> None:
        self._member.release(GATEWAY)
