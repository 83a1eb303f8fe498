"""Starts the sample server over stdio or HTTP."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

SAMPLE = Path(__file__).parent / "sample_server.py"
TINY = Path(__file__).parent / "tiny_server.py"
PREFIX = "sample_server__"


def tiny(directory: Path) -> list[str]:
    """The command of a server that starts quickly."""
    return [sys.executable, "-I", "-S", str(TINY), str(directory)]


def configured(directory: Path, tools: Sequence[str], more: str = "") -> Path:
    """The configuration of a gateway with that server; `more` ends its section."""
    file = directory / "windlass.toml"
    file.write_text(f"""
[models.m]
target = "openai/x"
tools = {json.dumps(tools)}

[mcp.tiny]
command = {json.dumps(" ".join(tiny(directory)))}
state_dir = {json.dumps(str(directory))}
{more}""")
    return file


def command(directory: Path) -> list[str]:
    return [sys.executable, str(SAMPLE), str(directory)]


@contextmanager
def over_http(directory: Path, port: str = "0") -> Iterator[str]:
    """The address of a sample server, which is stopped afterwards."""
    (directory / "port").unlink(missing_ok=True)
    process = Popen([sys.executable, str(SAMPLE), "--http", port, str(directory)])
    try:
        yield f"http://127.0.0.1:{appearing(directory / 'port')}/mcp"
    finally:
        process.terminate()
        process.wait()


def appearing(file: Path, seconds: float = 30) -> str:
    """The text of a file that another process writes."""
    end = time.monotonic() + seconds
    while not (file.exists() and file.read_text()):
        if time.monotonic() > end:
            raise AssertionError(f"{file.name} was not written")
        time.sleep(0.01)
    return file.read_text()


def starts(directory: Path) -> list[int]:
    """The process ids of the servers that were started there."""
    return [int(line) for line in (directory / "starts").read_text().split()]
