"""What a backslash means inside a text, and how a text is written in JSON."""

import re

from windlass.jsontext import compact_json

__all__ = ["escape_reach", "json_escaped", "json_string", "printable", "strict_escape"]

_HIGH = frozenset(("d8", "d9", "da", "db"))
_VALID = frozenset('"\\/bfnrt')
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ALONE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_UNICODE = re.compile(r"\\u[0-9a-fA-F]{4}")
_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")


def json_escaped(text: str) -> str:
    """The text as it stands between the quotation marks of a JSON string."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return compact_json(text)[1:-1]


def json_string(text: str) -> str:
    return f'"{json_escaped(text)}"'


def printable(text: str) -> str:
    """The text with a question mark for each half of a character that has no other half."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def escape_reach(text: str, place: int) -> int:
    """How many characters, from the backslash on, tell what the escape means."""
    match text[place + 1 : place + 2]:
        case "x":
            return 4
        case "u":
            return 12 if text[place + 2 : place + 4].lower() in _HIGH else 6
        case _:
            return 2


def strict_escape(text: str, place: int) -> tuple[str, int]:
    """What the escape at the place is in strict JSON, and where it ends."""
    letter = text[place + 1 : place + 2]
    if letter in _VALID:
        return text[place : place + 2], place + 2
    if letter == "u":
        if found := _PAIR.match(text, place):
            return found.group(), found.end()
        if found := _ALONE.match(text, place):
            return "\\ufffd", found.end()
        if found := _UNICODE.match(text, place):
            return found.group(), found.end()
    if letter == "x" and (found := _BYTE.match(text, place)):
        return f"\\u00{found.group(1)}", found.end()
    if letter == "'":
        return "'", place + 2
    if letter < " ":
        return "", place + 1
    return "\\\\", place + 1
