"""Text of models and tools, made fit for a terminal: what would steer it is shown instead. Pure."""

import re

__all__ = ["cut", "one_line", "visible"]

# The control characters of both sets but newline and tab, the characters that turn the direction
# of writing, the separators that some terminals take for newlines, and halves of characters.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)
_PICTURES = 0x2400
"""Where Unicode has a picture of each control character: U+241B is the one of Escape."""


def visible(text: str) -> str:
    """The text with nothing in it that a terminal would obey. Newlines and tabs stay."""
    return _STEERING.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, however many it had."""
    return " ".join(visible(text).split())


def cut(text: str, width: int) -> str:
    """The text, or as much of its beginning as fits, with a mark that says so."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(_PICTURES + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
