"""The supervisor of a gateway with several processes: starts, replaces, reloads and stops them.

It binds the port and serves no request itself. All processes accept connections from the same
socket, so none is refused while a process is replaced. A process that loses its supervisor exits.
"""

import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig
from windlass.gateway.http.listener import address_of, bound_socket
from windlass.gateway.processes.member import VARIABLE, Assignment
from windlass.gateway.processes.messages import (
    MAX_LINE,
    Drain,
    Find,
    FromProcess,
    FromSupervisor,
    Ready,
    RequestAnswer,
    Store,
    Stored,
    encode,
    from_process,
)
from windlass.gateway.processes.slots import SharedLimits
from windlass.threads import available_cores

log = logging.getLogger("windlass.gateway")

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where `prometheus_client` stores the metrics of several processes."""
STABLE_SECONDS = 5.0
"""A process that exits earlier is replaced after a pause, which doubles each time."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class _Process:
    """One process of the gateway."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number, self.process = number, process
        self.started = time.monotonic()
        self.writer: asyncio.StreamWriter | None = None
        self.is_leaving = False
        """Whether it was asked to exit."""
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """True when it accepts requests, False if it exits before that."""

    @property
    def is_serving(self) -> bool:
        """Whether it has accepted requests, and has not exited."""
        return self.ready.done() and self.ready.result()

    def send(self, message: FromSupervisor) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(encode(message))

    def end(self, number: int = signal.SIGTERM) -> None:
        """Sends a signal that ends the process. An ended process is not replaced."""
        self.is_leaving = True
        if self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps `count` processes running `command`, until a signal."""

    def __init__(
        self, command: Sequence[str], count: int, listener: socket.socket, assigned: Assignment
    ) -> None:
        """`assigned` has the resources of all processes. The descriptors are added to it."""
        self._command, self._count, self._listener = command, count, listener
        self._assigned = assigned
        self._folder = Path()
        self._processes: dict[int, _Process] = {}
        self._last_number = 0
        self._pause = FIRST_PAUSE
        self._limits = SharedLimits(self._send, time.monotonic)
        self._searches = Searches(self._send)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: int | None = None
        """The signal that stops the gateway."""
        self._stopped = asyncio.Event()
        self._reloading = asyncio.Lock()

    async def run(self, folder: Path, started: Callable[[], None]) -> int:
        """Runs until a signal; returns the exit code. `folder` is for files of the processes.

        Calls `started` when all processes accept requests. If the first cannot start, returns its
        exit code; it has reported the reason.
        """
        self._folder = folder
        (folder / "metrics").mkdir()
        self._handle_signals()
        try:
            first = await self._start()
            if not await first.ready:
                return 0 if self._stopping else (first.process.returncode or 1)
            others = [await self._start() for _ in range(self._count - 1)]
            await asyncio.gather(*(each.ready for each in others))
            if self._stopping is None:
                started()
            await self._stopped.wait()
        finally:
            await self._end()
        return 130 if self._stopping == signal.SIGINT else 0

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._reload()))

    def _stop(self, number: int) -> None:
        """Asks all processes to exit; at the second signal, ends them."""
        again = self._stopping is not None
        self._stopping = self._stopping or number
        for process in list(self._processes.values()):
            process.end(signal.SIGKILL if again else signal.SIGTERM)
        if not self._processes:
            self._stopped.set()

    async def _end(self) -> None:
        for process in list(self._processes.values()):
            process.end()
        await asyncio.gather(*(each.process.wait() for each in list(self._processes.values())))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _start(self) -> _Process:
        ours, theirs = socket.socketpair()
        self._last_number += 1
        number = self._last_number
        assigned = replace(
            self._assigned,
            number=number,
            listener=self._listener.fileno(),
            control=theirs.fileno(),
        )
        environ = {
            **os.environ,
            VARIABLE: msgspec.json.encode(assigned).decode(),
            METRICS_FOLDER: str(self._folder / "metrics"),
        }
        with theirs:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(assigned.listener, assigned.control),
                # Ctrl-C reaches the supervisor alone, which stops the processes.
                process_group=0,
            )
        process = self._processes[number] = _Process(number, child)
        reader, process.writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE)
        self._spawn(self._read(process, reader))
        self._spawn(self._watch(process))
        return process

    async def _read(self, process: _Process, reader: asyncio.StreamReader) -> None:
        """Handles the messages of a process, in their order."""
        try:
            while line := await reader.readline():
                self._handle(process, from_process(line))
        except OSError:
            pass

    def _handle(self, process: _Process, message: FromProcess) -> None:
        match message:
            case Ready():
                if not process.ready.done():
                    process.ready.set_result(True)
            case Find():
                serving = [number for number, each in self._processes.items() if each.is_serving]
                self._searches.begin(process.number, message, serving)
            case Stored(id=number):
                self._searches.stored(process.number, number)
            case _:
                self._limits.handle(process.number, message)

    async def _watch(self, process: _Process) -> None:
        """Waits until the process exits, and replaces it unless it was asked to exit."""
        code = await process.process.wait()
        del self._processes[process.number]
        if process.writer is not None:
            process.writer.close()
        self._limits.remove(process.number)
        self._searches.remove(process.number)
        _forget_gauges(process.process.pid, self._folder / "metrics")
        was_ready = process.ready.done()
        if not was_ready:
            process.ready.set_result(False)
        if self._stopping is not None:
            if not self._processes:
                self._stopped.set()
        elif was_ready and not process.is_leaving:
            log.error(
                "A gateway process exited; starting another",
                extra={"pid": process.process.pid, "status": code},
            )
            await self._replace(process)

    async def _replace(self, exited: _Process) -> None:
        seconds = time.monotonic() - exited.started
        while self._stopping is None:
            if seconds >= STABLE_SECONDS:
                self._pause = FIRST_PAUSE
            else:
                await asyncio.sleep(self._pause)
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
            if self._stopping is not None:
                return
            process = await self._start()
            if await process.ready:
                return
            seconds = 0.0

    async def _reload(self) -> None:
        """Starts new processes with the current configuration, then lets the old ones finish.

        If a new process cannot start, the old ones continue.
        """
        async with self._reloading:
            old = [each for each in self._processes.values() if not each.is_leaving]
            log.info("Reloading", extra={"processes": len(old)})
            new: list[_Process] = []
            for _ in range(self._count):
                process = await self._start()
                new.append(process)
                if not await process.ready:
                    break
            if self._stopping is not None:
                return
            if len(new) < self._count or not all(each.ready.result() for each in new):
                for process in new:
                    process.end()
                log.error("Cannot reload: a new process did not start; the old ones continue")
                return
            for process in old:
                process.is_leaving = True
                process.send(Drain())
            log.info("Reloaded", extra={"processes": len(new)})

    def _send(self, number: int, message: FromSupervisor) -> None:
        process = self._processes.get(number)
        if process is not None:
            process.send(message)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _forget_gauges(pid: int, folder: Path) -> None:
    """Removes the gauges of an exited process. Its counters still count."""
    for path in folder.glob(f"gauge_live*_{pid}.db"):
        path.unlink(missing_ok=True)


def python_command(arguments: Sequence[str]) -> list[str]:
    """The command that runs `windlass` with these arguments."""
    return [sys.executable, "-m", "windlass", *arguments]


class _Search(Struct):
    """A search of one process, and the processes that have not answered yet."""

    asker: int
    question: int
    asked: set[int]


class Searches:
    """Passes each search for runs to the other processes, and answers it when all have answered.

    A run may be only in the memory of one process.
    """

    def __init__(self, send: Callable[[int, FromSupervisor], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, _Search] = {}

    def begin(self, asker: int, message: Find, others: Iterable[int]) -> None:
        number = next(self._numbers)
        search = self._open[number] = _Search(asker, message.id, set(others) - {asker})
        for process in search.asked:
            self._send(process, Store(number, message.run_id))
        self._settle(number, search)

    def stored(self, process: int, number: int) -> None:
        """The process has stored its runs for this search."""
        if (search := self._open.get(number)) is not None:
            search.asked.discard(process)
            self._settle(number, search)

    def remove(self, process: int) -> None:
        """The process has exited, and will not answer."""
        for number, search in list(self._open.items()):
            search.asked.discard(process)
            self._settle(number, search)

    def _settle(self, number: int, search: _Search) -> None:
        if not search.asked:
            del self._open[number]
            self._send(search.asker, RequestAnswer(search.question, 1))


def serve_processes(
    config: GatewayConfig, arguments: Sequence[str], started: Callable[[str], None]
) -> int:
    """Serves until a signal, and returns the exit code.

    Each process runs `windlass` with the `arguments`. Calls `started` with the address when all of
    them accept requests. Raises `ConfigError` if the address is in use.
    """
    if sys.platform == "win32":
        raise ConfigError("--processes: Windows supports one process only")
    server = config.server
    count = available_cores() if server.processes == "auto" else server.processes
    with (
        bound_socket(server.host, server.port) as listener,
        tempfile.TemporaryDirectory(prefix="windlass-") as folder,
    ):
        address = address_of(listener)

        async def serve() -> int:
            async with AsyncExitStack() as stack:
                assigned = await _assigned(config, Path(folder), stack)
                supervisor = Supervisor(python_command(arguments), count, listener, assigned)
                return await supervisor.run(Path(folder), lambda: started(address))

        return asyncio.run(serve())


async def _assigned(config: GatewayConfig, folder: Path, stack: AsyncExitStack) -> Assignment:
    """The shared resources: a file of runs and a NATS server, unless they are configured."""
    runs, workers = config.runs, config.workers
    file = None if runs.path or runs.nats else str(folder / "runs.db")
    nats: str | None = None
    if workers is not None and not workers.nats:
        try:
            from windlass.messaging.embedded import NatsServer
        except ModuleNotFoundError as error:
            raise ConfigError(f"workers need {error.name}: pip install 'windlass[fleet]'") from None
        nats = (await stack.enter_async_context(NatsServer(port=workers.port))).url
    return Assignment(number=0, listener=0, control=0, runs=file, workers=nats)
