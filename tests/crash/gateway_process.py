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
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it begins; it can be reached when `listens` is set."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "windlass", "serve", "--log-format", "json"),
            cwd=self.home,
            env={
                **os.environ,
                "WINDLASS_CRASH_LEDGERS": str(self.ledgers),
                "WINDLASS_CRASH_KEY": "k",
            },
            stderr=asyncio.subprocess.PIPE,
        )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def ready(self) -> None:
        """Waits until it listens. Raises `AssertionError` if it ends instead."""
        assert self._listening is not None
        listens = asyncio.create_task(self.listens.wait())
        await asyncio.wait([listens, self._listening], return_when=asyncio.FIRST_COMPLETED)
        listens.cancel()
        assert self.listens.is_set(), self.said.read_text()[-2000:]

    async def kill(self) -> None:
        """`kill -9`. Returns when it is gone."""
        await self._end(signal.SIGKILL)

    async def end(self) -> None:
        """Tells it to end in order, which leaves what goes in the background to the next one."""
        assert await self._end(signal.SIGTERM) == 0, self.said.read_text()[-2000:]

    async def _end(self, number: signal.Signals) -> int | None:
        self.listens.clear()
        if self._process is None or self._listening is None:
            return None
        if self._process.returncode is None:
            self._process.send_signal(number)
        code = await self._process.wait()
        await self._listening
        self.listens.clear()
        return code

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        with self.said.open("ab") as said:
            async for line in process.stderr:
                said.write(line)
                if line.startswith(LISTENS):
                    self.listens.set()


def _free_port() -> int:
    """One that no connection takes by itself while the gateway is down."""
    while True:
        port = random.randint(20_000, 32_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
