"""Words for a terminal in colour, for a pipe without."""

import os
from typing import Literal

__all__ = ["Tone", "may_colour", "painted"]

Tone = Literal["plain", "strong", "quiet", "good", "warning", "bad"]

_CODES: dict[Tone, str] = {
    "plain": "",
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "warning": "33",
    "bad": "31",
}


def may_colour(is_terminal: bool) -> bool:
    """Whether colours are welcome: at a terminal that knows them, unless `NO_COLOR` is set."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, tone: Tone) -> str:
    """The text in its colour. It must be free of control characters itself."""
    code = _CODES[tone]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text
