"""Reads JSON as models write it, piece by piece, and writes strict JSON.

Strict JSON passes unchanged. Common deviations with a clear meaning are repaired: trailing commas,
single quotes, raw newlines, Python's literals, names without quotes, comments, missing brackets at
the end. Anything else passes unchanged, so that the reader of the result gets an error.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from windlass.emulation.parser.pattern import Pattern, alt
from windlass.emulation.parser.source import Source, Step
from windlass.jsontext import compact_json

_HIGH = frozenset(("d8", "d9", "da", "db"))
_VALID = frozenset('"\\/bfnrt')
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ALONE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_UNICODE = re.compile(r"\\u[0-9a-fA-F]{4}")
_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")


def json_escaped(text: str) -> str:
    """Returns the text as the content of a JSON string, without the quotation marks."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return compact_json(text)[1:-1]


def json_string(text: str) -> str:
    return f'"{json_escaped(text)}"'


def printable(text: str) -> str:
    """Replaces each unpaired surrogate with a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def escape_reach(text: str, place: int) -> int:
    """Returns how many characters, from the backslash on, are needed to read the escape."""
    match text[place + 1 : place + 2]:
        case "x":
            return 4
        case "u":
            return 12 if text[place + 2 : place + 4].lower() in _HIGH else 6
        case _:
            return 2


def strict_escape(text: str, place: int) -> tuple[str, int]:
    """Returns the escape at the place in strict JSON, and where it ends."""
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


State = Literal["start", "{", "key", ":", "[", "member", "item", ",}", ",]", "whole"]
"""What was read last. `member` and `item` are values in an object and in a list; `,}` and `,]` are
the commas after them."""

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
"""The tokens of strict JSON; a comma only if a value follows."""

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
"""The next state for each token. None means a complete value: the container decides the state."""


Ending = Literal["whole", "cut", "broken"]

_WORD = re.compile(r"""[^\s{}\[\](),:"'<`]+""")
_LOOSE_WORD = re.compile(r"""[^{}\[\],:<]+""")
_KEY = re.compile(r"[^\W\d][\w$.-]*")
_MAX_WORD_CHARS = 200
_RUNS = {
    '"': re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+'),
    "'": re.compile(r"[^'\"\\\x00-\x1f\ud800-\udfff]+"),
}
_COMMENT = Pattern(alt("//", "/*"))
_COMMENT_ENDS = {"//": Pattern("\n"), "/*": Pattern("*/")}
_BRACKETS = ("{", "}", "[", "]")
_DELIMITERS = (",", "}", "]", ")", "\n")


@dataclass(frozen=True, slots=True)
class Style:
    """Deviations from JSON that a format allows."""

    loose: bool = False
    """A string may lack its quotes."""
    quotes: Pattern | None = None
    """Tokens that replace quotation marks, around text without escapes."""


JSON = Style()
LOOSE = Style(loose=True, quotes=Pattern(alt('<|"|>', "<escape>", "<ctrl46>")))


class JsonReader:
    """Reads one value. `stops` end it anywhere outside of a string."""

    def __init__(
        self,
        source: Source,
        write: Callable[[str], object],
        style: Style = JSON,
        stops: Pattern | None = None,
    ) -> None:
        self._source, self._write, self._style, self._stops = source, write, style, stops
        self._stack: list[str] = []
        self._state: State = "start"
        self._unsure = False
        """Whether the last token is a number that more digits could change."""
        self._comma: list[str] = []
        """A comma and the space after it, held back because it may be a trailing comma."""

    def value(self) -> Step[Ending]:
        """Reads the value, and returns whether it is whole, cut at the end or broken."""
        source = self._source
        while True:
            self._read_plain()
            if self._state == "whole":
                return "whole"
            if source.place < len(source.text):
                token = source.text[source.place]
                read = self._read_string if token in "\"'" else self._read_special
                if ending := (yield from read(token)):
                    return ending
            elif source.ended:
                return "cut"
            else:
                yield

    @property
    def is_sure(self) -> bool:
        """Whether more text could not change the value."""
        return not self._unsure

    def close(self) -> bool:
        """Adds missing brackets at the end. Returns False if more than brackets is missing."""
        if self._state not in ("member", "item") or self._unsure:
            return False
        self._write("".join(reversed(self._stack)))
        self._state = "whole"
        return True

    def _complete(self) -> State:
        """Returns the state after a value."""
        if not self._stack:
            return "whole"
        return "member" if self._stack[-1] == "}" else "item"

    def _read_plain(self) -> None:
        """Reads tokens of strict JSON, and writes them unchanged in one piece."""
        source, state = self._source, self._state
        text, start = source.text, source.place
        place = start
        while state != "whole" and (found := PLAIN.match(text, place)):
            kind = found.lastgroup or ""
            if kind == "space":
                place = found.end()
                if self._comma:
                    self._comma.append(found.group())
                    start = place
                continue
            if kind not in NEXT[state]:
                break
            if self._comma:
                self._release(kind)
            place = found.end()
            if kind in ("object", "list"):
                self._stack.append("}" if kind == "object" else "]")
            elif kind in ("close_object", "close_list"):
                self._stack.pop()
            state = NEXT[state][kind] or self._complete()
        if place > start:
            self._write(text[start:place])
            self._unsure = False
        source.place, self._state = place, state

    def _release(self, kind: str) -> None:
        """Writes the held comma, unless a closing bracket follows it."""
        self._write("".join(self._comma[kind in ("close_object", "close_list") :]))
        self._comma.clear()

    def _pass(self, kind: str) -> None:
        """Updates the state after a token."""
        self._state = NEXT[self._state][kind] or self._complete()

    def _read_special(self, token: str) -> Step[Ending | None]:
        source, style = self._source, self._style
        if stop := (yield from self._match(self._stops, token)):
            source.place = stop.start()
            return "whole" if self.close() else "broken"
        if mark := (yield from self._match(style.quotes, token)):
            return (yield from self._read_quoted(Pattern(mark.group())))
        if token == "/" and (mark := (yield from source.match(_COMMENT))):
            yield from source.until(_COMMENT_ENDS[mark.group()])
            return None
        if token == "," and "comma" in NEXT[self._state]:
            source.place += 1
            self._comma.append(",")
            self._pass("comma")
            return None
        if token in "{}[],:()":
            return (yield from self._read_broken())
        return (yield from self._read_word())

    def _match(self, pattern: Pattern | None, token: str) -> Step[re.Match[str] | None]:
        if pattern and token in pattern.letters:
            return (yield from self._source.match(pattern))
        return None

    def _read_string(self, quote: str) -> Step[Ending | None]:
        if "text" not in NEXT[self._state]:
            return (yield from self._read_broken())
        self._release("text")
        self._source.place += 1
        self._write('"')
        if not (yield from self._read_text(quote)):
            return "cut"
        self._write('"')
        self._pass("text")
        return None

    def _read_text(self, quote: str) -> Step[bool]:
        """Reads up to the closing quote. Returns False if there is none."""
        source, write, run = self._source, self._write, _RUNS[quote]
        while True:
            text, place = source.text, source.place
            if found := run.match(text, place):
                write(found.group())
                source.place = place = found.end()
            left = len(text) - place
            letter = text[place] if left else ""
            needed = escape_reach(text, place) if letter == "\\" else 1
            if left < needed and not source.ended:
                yield
            elif not left:
                return False
            elif letter == quote:
                source.place += 1
                return True
            else:
                self._read_escaped(text, place)

    def _read_escaped(self, text: str, place: int) -> None:
        """Reads an escape, or a character that JSON must escape."""
        if text[place] == "\\":
            if place + 1 == len(text):
                written, end = "\\", place + 1
            else:
                written, end = strict_escape(text, place)
        else:
            written, end = json_escaped(text[place]), place + 1
        self._write(written)
        self._source.place = end

    def _read_quoted(self, mark: Pattern) -> Step[Ending | None]:
        """Reads text between tokens that replace quotation marks."""
        if "text" not in NEXT[self._state]:
            return (yield from self._read_broken())
        self._release("text")
        self._write('"')
        source = self._source
        while True:
            found, safe = mark.find(source.text, source.place, source.ended)
            self._write(json_escaped(source.text[source.place : safe]))
            source.place = found.end() if found else safe
            if found:
                break
            if source.ended:
                return "cut"
            yield
        self._write('"')
        self._pass("text")
        return None

    def _read_word(self) -> Step[Ending | None]:
        source, kind = self._source, _LOOSE_WORD if self._style.loose else _WORD
        while True:
            found = kind.match(source.text, source.place)
            end = found.end() if found else source.place
            if source.ended or end < len(source.text) or end - source.place > _MAX_WORD_CHARS:
                break
            yield
        word = source.text[source.place : end].rstrip()
        json, kind = self._meaning(word)
        if kind not in NEXT[self._state] or len(word) > _MAX_WORD_CHARS:
            return (yield from self._read_broken())
        self._release(kind)
        self._write(json)
        source.place += len(word)
        self._pass(kind)
        self._unsure = source.place == len(source.text) and bool(NUMBER.fullmatch(word))
        return None

    def _meaning(self, word: str) -> tuple[str, str]:
        """Returns the word as JSON, and the kind of token; no kind if the meaning is unclear."""
        if "key" in NEXT[self._state]:
            return (f'"{word}"', "text") if _KEY.fullmatch(word) else (word, "")
        if word in LITERALS:
            return LITERALS[word], "literal"
        if NUMBER.fullmatch(word):
            return word, "literal"
        return (f'"{json_escaped(word)}"', "text") if self._style.loose and word else (word, "")

    def _read_broken(self) -> Step[Ending]:
        """Passes unreadable text on, up to its closing bracket or a delimiter."""
        self._release("")
        source, depth = self._source, len(self._stack)
        stops = (self._stops.part,) if self._stops else ()
        edges = Pattern(alt(*(_BRACKETS if depth else _DELIMITERS), *stops))
        while True:
            found, safe = edges.find(source.text, source.place, source.ended)
            bracket = found.group() if found and depth and found.group() in _BRACKETS else ""
            end = safe + len(bracket)
            self._write(printable(source.text[source.place : end]))
            source.place = end
            if bracket:
                depth += 1 if bracket in "{[" else -1
            if bracket and depth:
                continue
            if found:
                return "broken"
            if source.ended:
                return "cut"
            yield
