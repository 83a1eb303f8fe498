"""Quoting: a value as one line of JSON in which no marker of any format can stand. Pure.

What tools return comes from outside. Quoted, it can neither close the block that it stands in nor
open another, call a tool, or begin a turn of somebody else: every character that a marker begins
with is written as `\\uXXXX`, and there are no lines for it to begin. Nothing is lost: the line is
JSON, and reads back as the same value.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from windlass.jsontext import compact_json
from windlass.jsontext.large import is_larger

__all__ = ["quoted", "quoted_pieces"]

# `[` for `[TOOL_CALLS]`, `[INST]` and lists of calls; where a number follows it is an index.
_BRACKET = re.compile(r"\[(?![0-9\]])")
# Three backticks for fences, `>>>` for Functionary's calls: each character of such a run.
_RUNS = {
    letter: re.compile(
        f"{letter}(?={letter}{letter})|(?<={letter}){letter}(?={letter})|(?<={letter}{letter}){letter}"
    )
    for letter in "`>"
}
# U+FF5C and U+2581 for DeepSeek's tokens, U+273F for Qwen's flowers. Then whatever a reader does
# not see, or takes for the end of a line.
_UNSEEN = re.compile(
    "[\uff5c\u2581\u273f\x7f-\x9f\xad\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_PIECE = 2**15
"""Characters of a long text that are quoted at a time."""


def quoted(value: object) -> str:
    """The value as one line of JSON without markers; what JSON has no word for becomes its `str`.

    Anything that quotes this text again, or cuts it, keeps it harmless.
    """
    return "".join(quoted_pieces(value))


def quoted_pieces(value: object) -> list[str]:
    """The same in pieces, for a value that may be large: each copy of the whole takes its time."""
    return list(_pieces(value)) if is_larger(value, _PIECE) else [_in_one_piece(value)]


def _in_one_piece(value: object) -> str:
    text = compact_json(value)
    if "[" in text and '"' in text:
        text = _with_escaped_brackets(text)
    return _without_markers(text)


def _with_escaped_brackets(json: str) -> str:
    """The JSON with the brackets inside its texts escaped; those of lists stay."""
    # JSON has no bare control characters, so two of them can replace the escapes `\\` and `\"`:
    # each quotation mark that is left begins or ends a text.
    parts = json.replace("\\\\", "\0").replace('\\"', "\1").split('"')
    parts[1::2] = _BRACKET.sub(r"\\u005b", '"'.join(parts[1::2])).split('"')
    return '"'.join(parts).replace("\1", '\\"').replace("\0", "\\\\")


def _without_markers(json: str) -> str:
    """The JSON with all other markers escaped. They are nowhere in JSON but in texts.

    `<` is for tags and for the control tokens of chat templates (`<|im_start|>`).
    """
    json = json.replace("<", r"\u003c")
    for letter, run in _RUNS.items():
        if letter * 3 in json:
            json = run.sub(rf"\\u{ord(letter):04x}", json)
    if not json.isascii() or "\x7f" in json:
        for letter in set(_UNSEEN.findall(json)):
            json = json.replace(letter, _escape(letter))
    return json


def _escape(letter: str) -> str:
    """JSON's own escape: two of them for a character outside the basic plane."""
    units = letter.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# What is large is quoted in pieces, so that no call into C takes long.


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, str) and len(value) > _PIECE:
        yield '"'
        for piece in _cut(value):
            yield _in_one_piece(piece)[1:-1]
        yield '"'
    elif isinstance(value, dict) and value:
        separator = "{"
        for key, item in cast("dict[Any, Any]", value).items():
            yield separator
            yield from _pieces(key if isinstance(key, str) else str(key))
            yield ":"
            yield from _pieces(item)
            separator = ","
        yield "}"
    elif isinstance(value, list | tuple) and value:
        separator = "["
        for item in cast("list[Any]", value):
            yield separator
            yield from _pieces(item)
            separator = ","
        yield "]"
    else:
        yield _in_one_piece(cast("object", value))


def _cut(text: str) -> Iterator[str]:
    """Pieces of the text; a run of three is a run of three in the piece that it is in."""
    start = 0
    while start < len(text):
        end = start + _PIECE - 2
        letter = text[end - 1 : end]
        if letter in _RUNS and text[end : end + 1] == letter:
            before = end - start - len(text[start:end].rstrip(letter))
            after = len(text[end : end + 3]) - len(text[end : end + 3].lstrip(letter))
            end += after if before >= 3 > after else -before if before < 3 else 0
        yield text[start:end]
        start = end
