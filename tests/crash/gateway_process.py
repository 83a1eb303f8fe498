"""`windlass serve` as a process that is killed and started again, on one port and one file."""

import asyncio
import os
import random
import signal
import socket
import sys
from pathlib import Path

CONFIG = """\
[server]
port = {port}
access_log = false
shutdown_timeout = 0.1

[models.m]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "WINDLASS_CRASH_KEY"
mode = "native"
tools = ["look", "read", "pay", "sign", "book", "launch", "erase"]

[tools]
modules = ["{tools}"]

[runs]
path = "runs.db"
"""
TOOLS = Path(__file__).with_name("ledger_tools.py")
PRELOADED = Path(__file__).with_name("preloaded.py")
LISTENS = b"Windlass listens on "


class GatewayProcess:
    """In `home` are its configuration, its runs, what it said and the tools' ledgers."""

    def __init__(self, home: Path, base_url: str) -> None:
        self.home = home
        self.ledgers = home / "ledgers"
        self.ledgers.mkdir()
        self.file = home / "runs.db"
        self.said = home / "gateway.log"
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = CONFIG.format(port=port, base_url=base_url, tools=TOOLS)
        (home / "windlass.toml").write_text(config)
        self.listens = asyncio.Event()
        """Set while it can be reached."""
        self._loaded: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._began: asyncio.Future[int] | None = None
        self._ended: asyncio.Future[int] | None = None

    async def load(self) -> None:
        """Loads the code that each start begins with."""
        self._loaded = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PRELOADED),
            cwd=self.home,
            env={
                **os.environ,
                "WINDLASS_CRASH_LEDGERS": str(self.ledgers),
                "WINDLASS_CRASH_KEY": "k",
            },
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._hearing = asyncio.create_task(self._hear(self._loaded))

    async def unload(self) -> None:
        await self.kill()
        if self._loaded is not None and self._loaded.stdin is not None and self._hearing:
            self._loaded.stdin.close()
            await self._loaded.wait()
            await self._hearing

    async def start(self) -> None:
        """Returns when it begins; it can be reached when `listens` is set."""
        assert self._loaded is not None
        assert self._loaded.stdin is not None
        loop = asyncio.get_running_loop()
        self._began, self._ended = loop.create_future(), loop.create_future()
        self._loaded.stdin.write(b"\n")
        await self._began

    async def ready(self) -> None:
        """Waits until it listens. Raises `AssertionError` if it ends instead."""
        assert self._ended is not None
        listens = asyncio.create_task(self.listens.wait())
        await asyncio.wait([listens, self._ended], return_when=asyncio.FIRST_COMPLETED)
        listens.cancel()
        assert self.listens.is_set(), self.said.read_text()[-2000:]

    async def kill(self) -> None:
        """`kill -9`. Returns when it is gone."""
        await self._end(signal.SIGKILL)

    async def end(self) -> None:
        """Tells it to end in order, which leaves what goes in the background to the next one."""
        assert await self._end(signal.SIGTERM) == 0, self.said.read_text()[-2000:]

    async def _end(self, number: signal.Signals) -> int | None:
        if self._began is None or self._ended is None:
            return None
        self.listens.clear()
        if not self._ended.done():
            os.kill(await self._began, number)
        return await self._ended

    async def _hear(self, loaded: asyncio.subprocess.Process) -> None:
        assert loaded.stderr is not None
        with self.said.open("ab", buffering=0) as said:
            async for line in loaded.stderr:
                said.write(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        word, _, number = line.decode().strip().partition(" ")
        if line.startswith(LISTENS):
            self.listens.set()
        elif word == "began" and self._began is not None:
            self._began.set_result(int(number))
        elif word == "ended" and self._ended is not None:
            self.listens.clear()
            self._ended.set_result(int(number))


def _free_port() -> int:
    """One that no connection takes by itself while the gateway is down."""
    while True:
        port = random.randint(20_000, 32_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
