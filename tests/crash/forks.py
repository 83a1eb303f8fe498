"""Processes of `windlass` that are killed and started again."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from tests.support.several_processes import children_of

HERE = Path(__file__).parent
GRACE_SECONDS = 5.0
"""How long after a pause a process may still act on old state."""


class Forks:
    """The process that all of them are forked off. `home` has the tools' ledgers."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ledgers = home / "ledgers"
        self.ledgers.mkdir()
        self._processes: dict[str, ForkedProcess] = {}
        self._loaded: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Forks":
        self._loaded = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "forking.py"),
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": str(HERE.parent.parent),
                "WINDLASS_CRASH_LEDGERS": str(self.ledgers),
                "WINDLASS_CRASH_KEY": "k",
            },
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        self._hearing = asyncio.create_task(self._hear(self._loaded))
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._processes.values():
            await process.kill()
        assert self._loaded is not None
        assert self._loaded.stdin is not None
        assert self._hearing is not None
        self._loaded.stdin.close()
        await self._loaded.wait()
        await self._hearing

    def fork(self, process: "ForkedProcess", arguments: list[str]) -> None:
        assert self._loaded is not None
        assert self._loaded.stdin is not None
        self._processes[process.name] = process
        self._loaded.stdin.write(json.dumps([process.name, arguments]).encode() + b"\n")

    async def _hear(self, loaded: asyncio.subprocess.Process) -> None:
        assert loaded.stderr is not None
        async for line in loaded.stderr:
            name, what, rest = line.rstrip(b"\n").split(b" ", 2)
            self._processes[name.decode()].hear(what.decode(), rest)


class ForkedProcess:
    """A process that can be restarted; a line with `ready_word` means that it can be reached."""

    def __init__(self, forks: Forks, name: str, arguments: list[str], ready_word: bytes) -> None:
        self.name = name
        self.said = forks.home / f"{name}.log"
        self.listens = asyncio.Event()
        """Set while it can be reached."""
        self._forks, self._arguments, self._ready_word = forks, arguments, ready_word
        self._began: asyncio.Future[int] | None = None
        self._ended: asyncio.Future[int] | None = None
        self._paused = False
        self._resumed_at = -GRACE_SECONDS

    async def start(self) -> None:
        """Returns when it begins; it can be reached when `listens` is set."""
        loop = asyncio.get_running_loop()
        self._began, self._ended = loop.create_future(), loop.create_future()
        self._forks.fork(self, self._arguments)
        await asyncio.shield(self._began)

    async def ready(self) -> None:
        """Waits until it can be reached. Raises `AssertionError` if it ends instead."""
        assert self._ended is not None
        listens = asyncio.create_task(self.listens.wait())
        await asyncio.wait([listens, self._ended], return_when=asyncio.FIRST_COMPLETED)
        listens.cancel()
        assert self.listens.is_set(), self.last_words()

    async def limit_files(self, size: int) -> None:
        """Lets it write no file beyond that size from now on, as on a full disk; -1 is no limit."""
        assert self._began is not None
        pid = await asyncio.shield(self._began)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, -1))

    async def children(self) -> list[int]:
        """The processes that it has started."""
        assert self._began is not None
        return children_of(await asyncio.shield(self._began))

    async def pause(self) -> None:
        """Sends SIGSTOP to a process that can be reached: it keeps its locks and connections."""
        assert self._began is not None
        os.kill(await asyncio.shield(self._began), signal.SIGSTOP)
        self._paused = True
        self.listens.clear()

    async def resume(self) -> None:
        """Sends SIGCONT after `pause`."""
        assert self._began is not None
        os.kill(await asyncio.shield(self._began), signal.SIGCONT)
        self._paused = False
        self._resumed_at = asyncio.get_running_loop().time()
        self.listens.set()

    @property
    def was_paused(self) -> bool:
        """Whether a request to it may fail because another process has taken its runs over."""
        recent = asyncio.get_running_loop().time() - self._resumed_at < GRACE_SECONDS
        return self._paused or recent

    async def kill(self) -> None:
        """`kill -9`, also of a paused process. Returns when it has exited."""
        await self._end(signal.SIGKILL)

    async def end(self) -> None:
        """Terminates it with a signal."""
        assert await self._end(signal.SIGTERM) == 0, self.last_words()

    def tracebacks(self) -> list[str]:
        """The lines of its log that have a traceback. A drill must not cause any."""
        lines = self.said.read_text().splitlines() if self.said.exists() else []
        return [f"{self.name}: {line}" for line in lines if "Traceback" in line]

    def last_words(self) -> str:
        return self.said.read_text()[-2000:] if self.said.exists() else ""

    def hear(self, what: str, data: bytes) -> None:
        match what:
            case "began" if self._began is not None:
                self._began.set_result(int(data))
            case "ended" if self._ended is not None:
                self.listens.clear()
                self._ended.set_result(int(data))
            case _:
                with self.said.open("ab") as said:
                    said.write(data + b"\n")
                if self._ready_word in data:
                    self.listens.set()

    async def _end(self, number: signal.Signals) -> int | None:
        if self._began is None or self._ended is None:
            return None
        self.listens.clear()
        self._paused = False
        if not self._ended.done():
            os.kill(await asyncio.shield(self._began), number)
        return await asyncio.shield(self._ended)
