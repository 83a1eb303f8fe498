"""Where Markdown that is still being written can be cut and looks the same. Pure."""

import re

__all__ = ["settled_length"]

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_GOES_ON = re.compile(r"\s|[-*+>|]|\d+[.)]")
"""How a line begins that may belong to the block above it: lists have gaps between their items."""


def settled_length(text: str) -> int:
    """How much of the text's beginning is whole paragraphs, whatever comes after it.

    A line whose end has not been seen decides nothing: it may yet be an item of a list.
    """
    settled = position = 0
    fence: str | None = None
    after_blank = False
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        if fence is None and after_blank and line.strip() and not _GOES_ON.match(line):
            settled = position
        fence = _fence_after(line, fence)
        after_blank = not line.strip()
        position += len(line)
    return settled


def _fence_after(line: str, fence: str | None) -> str | None:
    """The fence that is open behind this line, if one is."""
    marker = _FENCE.match(line)
    if marker is None:
        return fence
    found = marker.group(1)
    if fence is None:
        return found
    closes = found.startswith(fence) and not line[marker.end() :].strip()
    return None if closes else fence
