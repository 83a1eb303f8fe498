"""What the tests of `windlass run` share: types, tools, and the command as a process."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import IO, NamedTuple

from tests.support.commands import Command, finished

from windlass.testing import FakeOpenAI

TOOLS = '''
import sys
from windlass import ToolError, tool


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return f"sunny in {city}"


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@tool
def chatter() -> str:
    """Prints."""
    print("said by a tool")
    return "done"


@tool
def wait_for_ever() -> str:
    """Never comes back."""
    import threading

    threading.Event().wait()
    return "no"
'''
KEY = "sk-of-the-caller"

Upstream = Callable[..., FakeOpenAI]
"""Starts an upstream with the steps of a script."""


class Ran(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    error: str


Run = Callable[..., Ran]
"""Runs `windlass run` with these words, in this process."""


def windlass(*words: str, input: str) -> subprocess.CompletedProcess[str]:
    return finished(*words, input=input)


def started(*words: str) -> subprocess.Popen[str]:
    return Command(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "windlass", *sys.argv[1:]])
"""


def on_a_terminal(
    *words: str, stdin: int | None = None, stdout: int | None = subprocess.PIPE
) -> tuple[subprocess.Popen[bytes], int]:
    """The command at a terminal, which replaces the streams that are not given, and our end of
    it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *words],
        stdin=theirs if stdin is None else stdin,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def read_to(screen: IO[bytes], marker: bytes) -> bytes:
    shown = b""
    while marker not in shown:
        piece = screen.read(1024)
        assert piece, shown
        shown += piece
    return shown
