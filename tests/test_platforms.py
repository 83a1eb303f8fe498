"""What Windows and macOS lack is not needed there. The tests themselves run on Linux only."""

import ast
import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.sources import trees

from windlass.worker import worker as worker_module

pytestmark = pytest.mark.sweep

POSIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop"}
POSIX_NAMES = {
    *("O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "SIGKILL", "SIGHUP", "SIGUSR1"),
    *("SIGWINCH", "fork", "getuid", "getpgid", "killpg", "mkfifo", "fchmod", "statvfs", "setsid"),
}
"""Attributes of `os` and `signal` that Windows does not have."""
POSIX_ONLY = {str(Path("gateway", "processes", "supervisor.py"))}
"""Modules that Windows never runs: `windlass serve --processes 2` is an error there."""


def any_of(names: Iterable[str]) -> str:
    return rf"\b({'|'.join(names)})\b"


def test_no_module_needs_posix_when_it_is_imported() -> None:
    """Such an import is inside a function, or below a test of the platform."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees(any_of(POSIX_MODULES))
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        if {alias.name for alias in node.names} & POSIX_MODULES
        or (isinstance(node, ast.ImportFrom) and node.module in POSIX_MODULES)
    ]
    assert found == []


def test_no_code_uses_names_that_windows_lacks() -> None:
    found = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in trees(any_of(POSIX_NAMES))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        if isinstance(node.value, ast.Name) and node.value.id in ("os", "signal")
        if node.attr in POSIX_NAMES and name not in POSIX_ONLY
    ]
    assert found == []


def test_text_files_are_read_and_written_as_utf8() -> None:
    """The default of Windows is another encoding."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees(any_of(("read_text", "write_text")))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (node.func.attr == "read_text" and not node.args and not node.keywords)
        or (node.func.attr == "write_text" and len(node.args) == 1 and not node.keywords)
    ]
    assert found == []


@pytest.mark.process
def test_the_gateway_serves_without_uvloop() -> None:
    program = (
        "import sys; sys.modules['uvloop'] = None; from windlass.cli import main;"
        f"sys.exit(main(['serve', '--port', '{free_port()}']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout
        lines: list[str] = []
        for line in server.stdout:
            lines.append(line)
            if re.search("Windlass listens on", line):
                break
        server.send_signal(signal.SIGTERM)
        rest, _ = server.communicate(timeout=60)
    assert "Windlass listens on" in "".join(lines), "".join(lines) + rest
    assert server.returncode == 0


async def test_a_worker_ends_by_a_signal_where_the_loop_has_no_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handlers: dict[int, object] = {}
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def missing(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(loop, "add_signal_handler", missing, raising=False)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    worker_module._end_on_signals(loop, ended.set)
    handlers[signal.SIGTERM](signal.SIGTERM, None)  # pyright: ignore[reportCallIssue]
    async with asyncio.timeout(60):
        await ended.wait()
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM}
