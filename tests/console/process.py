"""`windlass serve` as a process that a test can kill and start again, where the page expects it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.console.stage import MODEL
from tests.support.ports import free_port

__all__ = ["GatewayProcess", "gateway_process"]

CONFIG = """\
[server]
port = {port}
access_log = false

[models.{model}]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "CONSOLE_TEST_KEY"
mode = "native"
tools = ["look_up", "send_mail"]

[tools]
modules = ["tools.py"]

[runs]
path = "runs.db"
"""
TOOLS = '''\
import asyncio
from pathlib import Path

from windlass import tool


@tool(idempotent=True)
async def look_up(place: str) -> str:
    """Looks a place up, as soon as there is a file with its name."""
    while not Path(place).exists():
        await asyncio.sleep(0.02)
    return f"{place} is there"


@tool
async def send_mail(to: str) -> str:
    """Sends a mail, and never hears that it has arrived."""
    await asyncio.Event().wait()


TOOLS = [look_up, send_mail]
'''


class GatewayProcess:
    """In `home` are its configuration, its tools, and its runs."""

    def __init__(self, home: Path, base_url: str) -> None:
        self.home = home
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (home / "windlass.toml").write_text(
            CONFIG.format(port=port, model=MODEL, base_url=base_url)
        )
        (home / "tools.py").write_text(TOOLS)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it listens."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "windlass", "serve"),
            cwd=self.home,
            env={**os.environ, "CONSOLE_TEST_KEY": "k"},
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr is not None
        said = b""
        while b"Windlass listens on " not in said:
            line = await self._process.stderr.readline()
            assert line, f"the gateway has ended: {said.decode()}"
            said += line

    async def kill(self) -> None:
        """`kill -9`. Returns when the process has exited."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    def put(self, place: str) -> None:
        """Lets `look_up` find the place."""
        (self.home / place).touch()


@asynccontextmanager
async def gateway_process(home: Path, base_url: str) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(home, base_url)
    try:
        await process.start()
        yield process
    finally:
        await process.kill()
