"""Tables for people, of text alone: the last columns wrap at the width of the terminal."""

import shutil
import textwrap
from collections.abc import Sequence

__all__ = ["table"]

_GAP = "  "
_NARROWEST = 16


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The rows under their heads. Columns give way to each other if there is no room for all."""
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
    """The first column keeps its width; the widest of the others is narrowed until all fit."""
    widths = list(wanted)
    while sum(widths) > room:
        widest = max(range(1, len(widths)), key=lambda index: widths[index], default=0)
        if widest == 0 or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _wrapped(cell: str, room: int) -> list[str]:
    return textwrap.wrap(cell, max(room, 1), break_on_hyphens=False) or [""]
