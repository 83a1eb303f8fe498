"""stdout for a command's answer alone: what tools and their modules print goes to stderr."""

import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO

import msgspec

__all__ = ["Output", "own_stdout"]


class Output:
    """Writes to what was stdout, at once and whole. A pipe gets UTF-8, whatever the locale says."""

    def __init__(self, stream: TextIO) -> None:
        self._bytes = stream.buffer
        self.is_terminal = stream.isatty()

    def text(self, text: str) -> None:
        self.bytes(text.encode("utf-8", "replace"))

    def json(self, value: Any) -> None:
        """On one line for programs, on several for people."""
        data = msgspec.json.encode(value, enc_hook=str)
        self.bytes((msgspec.json.format(data, indent=2) if self.is_terminal else data) + b"\n")

    def bytes(self, data: bytes) -> None:
        self._bytes.write(data)
        self._bytes.flush()


@contextmanager
def own_stdout() -> Generator[Output]:
    """stdout, which nobody else writes to meanwhile: a tool may use `print`."""
    output = Output(sys.stdout)
    with redirect_stdout(sys.stderr):
        yield output
