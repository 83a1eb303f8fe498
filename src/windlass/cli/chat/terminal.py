"""The terminal's own settings, while a run has the screen."""

import asyncio
import contextlib
import copy
import io
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import windlass

__all__ = ["Journal", "Printed", "captured", "forget_typed", "interrupts", "without_echo"]

if sys.platform == "win32":

    @contextlib.contextmanager
    def without_echo() -> Generator[None]:
        yield

    def forget_typed() -> None:
        pass

else:
    import termios

    @contextlib.contextmanager
    def without_echo() -> Generator[None]:
        """What is typed during a run does not show in the middle of it; the next prompt gets it."""
        if not sys.stdin.isatty():
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        silent = termios.tcgetattr(sys.stdin)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def forget_typed() -> None:
        """A yes must be an answer to the question: keys from before it was asked do not count."""
        if sys.stdin.isatty():
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextlib.contextmanager
def interrupts(act: Callable[[], None]) -> Generator[None]:
    """Ctrl-C calls `act` in the event loop, and nothing else happens."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Printed(io.TextIOBase):
    """Stands in for stdout: keeps what tools print, line by line, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def write(self, text: str, /) -> int:
        with self._lock:
            self._text += text
        return len(text)

    def take(self, *, all: bool = False) -> list[str]:
        """The lines since the last time; `all` takes one that has no end, too."""
        with self._lock:
            whole, newline, rest = self._text.rpartition("\n")
            self._text = "" if all else rest
        lines = (whole + newline + (rest if all else "")).splitlines()
        return [line for line in lines if line.strip()]


@contextlib.contextmanager
def captured() -> Generator[Printed]:
    """What is printed meanwhile does not reach the terminal."""
    printed = Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


class Journal(logging.Handler):
    """Keeps what the log says of trouble, so that it can be asked for and does not interrupt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(_ToolsOwn())
        self.entries: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        own = copy.copy(record)
        own.exc_text = None  # another handler's way of writing it
        self.entries.append(self.format(own))


class _ToolsOwn(logging.Formatter):
    """Shows the lines of a tool that failed, without those of ours that lead to it."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the base's name
        kind, error, trace = ei
        frames = traceback.TracebackException(kind, error, trace)
        home = str(Path(windlass.__file__).parent)
        own = [frame for frame in frames.stack if not frame.filename.startswith(home)]
        frames.stack = traceback.StackSummary.from_list(own or frames.stack)
        return "".join(frames.format()).rstrip()
