"""Runs `windlass serve --processes` as real processes, with a fake upstream."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

KEY = "sk-of-the-operator"
CONFIG = """\
[server]
access_log = false

[models.fast]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "PROCESSES_TEST_KEY"
mode = "native"
"""
QUESTION = {"model": "fast", "messages": [{"role": "user", "content": "Hello?"}]}
WAIT_SECONDS = 120.0


class Gateway:
    """A supervisor and its processes."""

    def __init__(self, home: Path, count: int) -> None:
        command = [sys.executable, "-m", "windlass", "serve", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--processes", str(count)],
            cwd=home,
            env={"PROCESSES_TEST_KEY": KEY, "PATH": "", "TMPDIR": str(home)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                with self._changed:
                    self.lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self.lines.append("")
            self._changed.notify_all()

    def wait_for(self, marker: str, times: int = 1) -> str:
        """Waits until a line with the marker was logged this many times, and returns the line."""

        def found() -> list[str]:
            return [line for line in self.lines if marker in line]

        with self._changed:
            self._changed.wait_for(
                lambda: len(found()) >= times or "" in self.lines, timeout=WAIT_SECONDS
            )
            assert len(found()) >= times, "".join(self.lines)
            return found()[times - 1]

    @property
    def children(self) -> list[int]:
        return children_of(self.process.pid)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends this signal, and returns the exit code."""
        self.process.send_signal(number)
        return self.exit_code()

    def exit_code(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join()
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            for pid in self.children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
        self.process.wait()
        self._reader.join()


def children_of(pid: int) -> list[int]:
    """Returns the child processes of this process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@contextmanager
def several_processes(
    home: Path, base_url: str, count: int = 2, more: str = ""
) -> Iterator[tuple[Gateway, str]]:
    """Starts the gateway, waits until all processes serve, and yields it with its address."""
    write_config(home, base_url, more)
    gateway = Gateway(home, count)
    try:
        yield gateway, gateway.wait_for("Windlass listens on ").split()[-1]
    finally:
        gateway.kill()


def write_config(home: Path, base_url: str, more: str = "") -> None:
    (home / "windlass.toml").write_text(CONFIG.format(base_url=base_url) + more)


@contextmanager
def fresh_client(address: str, key: str | None = None) -> Iterator[httpx2.Client]:
    """Returns a client with new connections, which any process may accept."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    options = {"timeout": WAIT_SECONDS, "verify": False, "trust_env": False, "headers": headers}
    with httpx2.Client(base_url=address, **options) as client:
        yield client


def post(address: str, path: str, body: object, key: str | None = None) -> httpx2.Response:
    with fresh_client(address, key) as client:
        return client.post(path, json=body)


def get(address: str, path: str) -> httpx2.Response:
    with fresh_client(address) as client:
        return client.get(path)


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Waits until other processes have done their work."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {WAIT_SECONDS:g} s: {what}"
        time.sleep(0.05)
