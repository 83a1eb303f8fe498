"""What commands write: safe text, tables, colours, and a stdout that tools cannot print to."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, Literal, TextIO

import msgspec


class CommandOutput:
    """Writes to the original stdout without buffering. A pipe receives UTF-8 in every locale."""

    def __init__(self, stream: TextIO) -> None:
        self._bytes = stream.buffer
        self.is_terminal = stream.isatty()

    def text(self, text: str) -> None:
        self.bytes(text.encode("utf-8", "replace"))

    def json(self, value: Any) -> None:
        """One line in a pipe, indented on a terminal."""
        data = msgspec.json.encode(value, enc_hook=str)
        self.bytes((msgspec.json.format(data, indent=2) if self.is_terminal else data) + b"\n")

    def bytes(self, data: bytes) -> None:
        self._bytes.write(data)
        self._bytes.flush()


@contextmanager
def own_stdout() -> Generator[CommandOutput]:
    """stdout for the command alone: `print` in a tool writes to stderr."""
    output = CommandOutput(sys.stdout)
    with redirect_stdout(sys.stderr):
        yield output


# C0 and C1 control characters except newline and tab, bidirectional controls, the separators that
# some terminals treat as newlines, and surrogates.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)
_SYMBOLS = 0x2400
"""The first of Unicode's symbols for control characters: U+241B is the symbol for Escape."""


def visible(text: str) -> str:
    """The text with control characters made visible. Newlines and tabs stay."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, safe for a terminal."""
    return " ".join(visible(text).split())


def cut(text: str, width: int) -> str:
    """The text, cut to `width` characters with an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(_SYMBOLS + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_GAP = "  "
MIN_COLUMN_WIDTH = 16


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """A table of text. Wide columns wrap if the table does not fit the width."""
    width = width or shutil.get_terminal_size().columns
    plain = [tuple(" ".join(cell.split()) for cell in row) for row in (tuple(heads), *rows)]
    wanted = [max(map(len, column)) for column in zip(*plain, strict=True)]
    widths = _fitting(wanted, width - len(_GAP) * (len(wanted) - 1))
    lines: list[str] = []
    for row in plain:
        cells = [_wrapped(cell, room) for cell, room in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = [
                (cell[number] if number < len(cell) else "").ljust(room)
                for cell, room in zip(cells, widths, strict=True)
            ]
            lines.append(_GAP.join(parts).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _fitting(wanted: list[int], room: int) -> list[int]:
    """Keeps the width of the first column, and narrows the widest others until all fit."""
    widths = list(wanted)
    while sum(widths) > room:
        widest = max(range(1, len(widths)), key=lambda index: widths[index], default=0)
        if widest == 0 or widths[widest] <= MIN_COLUMN_WIDTH:
            break
        widths[widest] -= 1
    return widths


def _wrapped(cell: str, room: int) -> list[str]:
    return textwrap.wrap(cell, max(room, 1), break_on_hyphens=False) or [""]


Tone = Literal["plain", "strong", "quiet", "good", "warning", "bad"]

_CODES: dict[Tone, str] = {
    "plain": "",
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "warning": "33",
    "bad": "31",
}


def use_colour(is_terminal: bool) -> bool:
    """Whether to use colours: on a terminal that supports them, unless `NO_COLOR` is set."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, tone: Tone) -> str:
    """The text in its colour. It must not contain control characters."""
    code = _CODES[tone]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text
