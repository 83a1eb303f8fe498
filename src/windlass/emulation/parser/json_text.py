"""JSON as models write it, read piece by piece and written as strict JSON.

What is strict passes as it is. What is not is put right where its meaning is plain: trailing
commas, single quotes, raw newlines, Python's literals, names without quotes, comments, missing last
brackets. Anything else passes as it is too, so that whoever reads the result hears what is wrong.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from windlass.emulation.parser.escapes import escape_reach, json_escaped, strict_escape
from windlass.emulation.parser.pattern import Pattern, alt
from windlass.emulation.parser.source import Source, Step

__all__ = ["JSON", "LOOSE", "PYTHON", "Ending", "JsonReader", "Style"]

Ending = Literal["whole", "cut", "broken"]

_PLAIN = re.compile(
    r"""[ \t\r\n]+
    | "[^"\\\x00-\x1f\ud800-\udfff]*"
    | [{}\[\],:]
    | (?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=[\s,}\]])
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"""[^\s{}\[\](),:"'<`]+""")
_LOOSE_WORD = re.compile(r"""[^{}\[\],:<]+""")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_KEY = re.compile(r"[^\W\d][\w$.-]*")
_LONGEST_WORD = 200
_RUNS = {
    '"': re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+'),
    "'": re.compile(r"[^'\"\\\x00-\x1f\ud800-\udfff]+"),
}
_TRIPLE = Pattern(alt('"""', "'''"))
_COMMENT = Pattern(alt("//", "/*"))
_COMMENT_ENDS = {"//": Pattern("\n"), "/*": Pattern("*/")}
_LITERALS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}
_CLOSERS = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Style:
    """How far from JSON the writing is."""

    loose: bool = False
    """A text may stand without quotes."""
    python: bool = False
    """Texts may have three quotes."""
    quotes: Pattern | None = None
    """Tokens that stand for quotation marks, around text without escapes."""


JSON = Style()
PYTHON = Style(python=True)
LOOSE = Style(loose=True, quotes=Pattern(alt('<|"|>', "<escape>", "<ctrl46>")))


class JsonReader:
    """Reads one value. `stops` end it wherever they stand outside of text."""

    def __init__(
        self,
        source: Source,
        write: Callable[[str], object],
        style: Style = JSON,
        stops: Pattern | None = None,
    ) -> None:
        self._source, self._write, self._style, self._stops = source, write, style, stops
        self._stack: list[str] = []
        self._last = ""
        """What came before: a bracket, a comma, a colon, k (key), v (value), n (number)."""
        self._held: list[str] = []
        """A comma and the space after it: it may prove to be one too many."""

    def value(self) -> Step[Ending]:
        source = self._source
        while True:
            self._read_plain()
            if self._is_whole():
                return "whole"
            if source.place >= len(source.text):
                if source.ended:
                    return "cut"
                yield
                continue
            if ending := (yield from self._read_special(source.text[source.place])):
                return ending
            if self._is_whole():
                return "whole"

    def close(self) -> bool:
        """Adds the brackets that are missing at the end, if nothing else is."""
        if self._last != "v" or not self._stack:
            return False
        self._write("".join(reversed(self._stack)))
        self._stack.clear()
        return True

    def _is_whole(self) -> bool:
        return not self._stack and self._last in ("v", "n")

    # What is strict already.

    def _read_plain(self) -> None:
        """Reads the tokens that need no thought, and writes them as they are."""
        source = self._source
        text, start = source.text, source.place
        place = start
        while found := _PLAIN.match(text, place):
            token = text[place]
            if token in " \t\r\n":
                start = self._pass_space(text, start, place, found.end())
            elif not self._fits(token) or (self._style.python and found.group() == '""'):
                break
            elif token == ",":
                self._write(text[start:place])
                self._held.append(",")
                start, self._last = place + 1, ","
            else:
                self._release(token)
                self._pass(token)
            place = found.end()
            if self._is_whole():
                break
        if place > start:
            self._write(text[start:place])
        source.place = place

    def _pass_space(self, text: str, start: int, place: int, end: int) -> int:
        if self._last == "n":
            self._last = "v"
        if not self._held:
            return start
        self._held.append(text[place:end])
        return end

    def _release(self, token: str) -> None:
        """Writes the comma that was held back, unless a bracket closes right after it."""
        if not self._held:
            return
        self._write("".join(self._held[1:] if token in "}]" else self._held))
        self._held.clear()

    def _fits(self, token: str) -> bool:
        """Whether the token may come here."""
        last, stack = self._last, self._stack
        if token in "}]":
            return bool(stack) and stack[-1] == token and last in ("v", "n", "{", "[", ",")
        if token == ",":
            return bool(stack) and last in ("v", "n")
        if token == ":":
            return last == "k"
        if self._key_is_next():
            return token in "\"'<"
        return last in ("", ":", "[", ",")

    def _key_is_next(self) -> bool:
        return self._last in ("{", ",") and bool(self._stack) and self._stack[-1] == "}"

    def _pass(self, token: str) -> None:
        """What the token changes. It has been found to fit."""
        if token in "{[":
            self._stack.append(_CLOSERS[token])
            self._last = token
        elif token in "}]":
            self._stack.pop()
            self._last = "v"
        elif token == ":":
            self._last = ":"
        elif self._key_is_next():
            self._last = "k"
        else:
            self._last = "v"

    # What needs thought.

    def _read_special(self, token: str) -> Step[Ending | None]:
        source, style = self._source, self._style
        if stop := (yield from self._match(self._stops, token)):
            source.place = stop.start()
            return "whole" if self.close() else "broken"
        if mark := (yield from self._match(style.quotes, token)):
            return (yield from self._read_quoted(token, Pattern(mark.group())))
        if token in "\"'":
            return (yield from self._read_string(token))
        if token == "/" and (mark := (yield from source.match(_COMMENT))):
            yield from source.until(_COMMENT_ENDS[mark.group()])
            return None
        if token in "{}[],:()":
            return (yield from self._read_broken())
        return (yield from self._read_word())

    def _match(self, pattern: Pattern | None, token: str) -> Step[re.Match[str] | None]:
        if pattern and token in pattern.letters:
            return (yield from self._source.match(pattern))
        return None

    def _read_string(self, quote: str) -> Step[Ending | None]:
        if not self._fits(quote):
            return (yield from self._read_broken())
        self._release(quote)
        if self._style.python and (triple := (yield from self._source.match(_TRIPLE))):
            self._source.place -= len(triple.group())
            quote = triple.group()
        self._source.place += len(quote)
        self._write('"')
        if not (yield from self._read_text(quote)):
            return "cut"
        self._write('"')
        self._pass(quote[0])
        return None

    def _read_text(self, quote: str) -> Step[bool]:
        """Reads up to the closing quote; False if there is none."""
        source, write, run = self._source, self._write, _RUNS[quote[0]]
        while True:
            text, place = source.text, source.place
            if found := run.match(text, place):
                write(found.group())
                source.place = place = found.end()
            left = len(text) - place
            letter = text[place] if left else ""
            needed = len(quote) if letter == quote[0] else 1
            if letter == "\\":
                needed = escape_reach(text, place)
            if left < needed and not source.ended:
                yield
            elif not left:
                return False
            elif letter == quote[0] and text.startswith(quote, place):
                source.place += len(quote)
                return True
            else:
                self._read_odd(text, place)

    def _read_odd(self, text: str, place: int) -> None:
        """A character inside a text that JSON has another way to write."""
        if text[place] == "\\":
            if place + 1 == len(text):
                written, end = "\\", place + 1
            else:
                written, end = strict_escape(text, place)
        else:
            written, end = json_escaped(text[place]), place + 1
        self._write(written)
        self._source.place = end

    def _read_quoted(self, token: str, mark: Pattern) -> Step[Ending | None]:
        """Text between tokens that stand for quotation marks."""
        if not self._fits(token):
            return (yield from self._read_broken())
        self._release(token)
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
        self._pass(token)
        return None

    def _read_word(self) -> Step[Ending | None]:
        source, kind = self._source, _LOOSE_WORD if self._style.loose else _WORD
        while True:
            found = kind.match(source.text, source.place)
            end = found.end() if found else source.place
            if source.ended or end < len(source.text) or end - source.place > _LONGEST_WORD:
                break
            yield
        word = source.text[source.place : end].rstrip()
        key = self._key_is_next()
        json, last = self._word_meant(word, key)
        if not json or len(word) > _LONGEST_WORD or (not key and not self._fits("w")):
            return (yield from self._read_broken())
        self._release("w")
        self._write(json)
        source.place += len(word)
        self._last = last
        return None

    def _word_meant(self, word: str, key: bool) -> tuple[str, str]:
        """The word as JSON and what it is; nothing if it has no plain meaning."""
        if key:
            return (f'"{word}"', "k") if _KEY.fullmatch(word) else ("", "")
        if word in _LITERALS:
            return _LITERALS[word], "v"
        if _NUMBER.fullmatch(word):
            return word, "n"
        return (f'"{json_escaped(word)}"', "v") if self._style.loose and word else ("", "")

    def _read_broken(self) -> Step[Ending]:
        """Passes on what cannot be read, up to where its brackets are closed."""
        self._write("".join(self._held))
        self._held.clear()
        source, depth = self._source, len(self._stack)
        brackets = [*"{}[]", *([self._stops.part] if self._stops else [])]
        edges = Pattern(alt(*brackets))
        while depth:
            found, safe = edges.find(source.text, source.place, source.ended)
            end = found.end() if found else safe
            if found and len(found.group()) != 1:
                self._write(_printable(source.text[source.place : safe]))
                source.place = safe
                return "broken"
            self._write(_printable(source.text[source.place : end]))
            source.place = end
            if found:
                depth += 1 if found.group() in "{[" else -1
            elif source.ended:
                return "cut"
            else:
                yield
        return "broken"


def _printable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
