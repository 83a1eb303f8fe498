"""JSON's grammar as a table: which token may follow which."""

import re
from typing import Literal

__all__ = ["LITERALS", "NEXT", "NUMBER", "PLAIN", "State"]

State = Literal["start", "{", "key", ":", "[", "member", "item", ",}", ",]", "whole"]
"""What was read last. `member` and `item`: a value in an object, in a list; `,}` and `,]`: a comma
after one of them."""

_TEXT = r'"[^"\\\x00-\x1f\ud800-\udfff]*"'
_SPACE = r"[ \t\r\n]"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
PLAIN = re.compile(
    rf"""(?P<space>{_SPACE}+)
    | (?P<key>{_TEXT}{_SPACE}*:)
    | (?P<text>{_TEXT})
    | (?P<comma>,{_SPACE}*(?=[^\s}}\]]))
    | (?P<literal>(?:true|false|null|{_NUMBER})(?=[\s,}}\]]))
    | (?P<colon>:)
    | (?P<object>\{{)
    | (?P<list>\[)
    | (?P<close_object>\}})
    | (?P<close_list>\])
    """,
    re.VERBOSE,
)
"""The tokens that are strict JSON, as far as they are there; a comma only if something follows."""

NUMBER = re.compile(_NUMBER)
LITERALS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}

_VALUE: dict[str, State | None] = {"text": None, "literal": None, "object": "{", "list": "["}
NEXT: dict[State, dict[str, State | None]] = {
    "start": _VALUE,
    "{": {"key": ":", "text": "key", "close_object": None},
    "key": {"colon": ":"},
    ":": _VALUE,
    "[": {**_VALUE, "close_list": None},
    "member": {"comma": ",}", "close_object": None},
    "item": {"comma": ",]", "close_list": None},
    ",}": {"key": ":", "text": "key", "close_object": None},
    ",]": {**_VALUE, "close_list": None},
    "whole": {},
}
"""What the state becomes; None: a value is complete, and what holds it tells."""
