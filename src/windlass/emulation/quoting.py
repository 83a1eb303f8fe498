"""Quoting: a value as one line of JSON in which no marker of any format can stand. Pure.

What tools return comes from outside. Quoted, it can neither close the block that it stands in nor
open another, call a tool, or begin a turn of somebody else: every character that a marker begins
with is written as `\\uXXXX`, and there are no lines for it to begin. Nothing is lost: the line is
JSON, and reads back as the same value.
"""

import re

from windlass.content import compact_json

__all__ = ["quoted"]

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')

# `<` for tags and for the control tokens of chat templates (`<|im_start|>`), three backticks for
# fences, `>>>` for Functionary's calls, `[` for `[TOOL_CALLS]`, `[INST]` and lists of calls (where
# a number follows it is somebody's index), U+FF5C and U+2581 for DeepSeek's tokens, U+273F for
# Qwen's flowers. Then whatever a reader does not see, or takes for the end of a line.
_MARKER = re.compile(
    r"<|`{3,}|>{3,}|\[(?![0-9\]])"
    "|[\uff5c\u2581\u273f\x7f-\x9f\xad\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def quoted(value: object) -> str:
    """The value as one line of JSON without markers; what JSON has no word for becomes its `str`.

    Anything that quotes this text again, or cuts it, keeps it harmless.
    """
    return _STRING.sub(_escaped_string, compact_json(value))


def _escaped_string(found: re.Match[str]) -> str:
    return _MARKER.sub(_escaped, found.group())


def _escaped(found: re.Match[str]) -> str:
    """JSON's own escape: two of them for a character outside the basic plane."""
    units = found.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
