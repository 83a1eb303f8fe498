"""Readers of calls written in Python: `[get_weather(city="Paris"), add(a=1, b=2)]`.

`PythonReader` reads literals piece by piece, exactly as Python does, with two exceptions: it
accepts JSON's `null`, `true` and `false`, and a line break inside a string with single quotes.
Anything else that is not a literal, or that JSON cannot represent, raises `NotPython`.
"""

import math
import re
import unicodedata
from dataclasses import dataclass, field
from re import Match
from typing import cast

from windlass.emulation.parser.call import CallReading, NotACall
from windlass.emulation.parser.json_text import printable
from windlass.emulation.parser.pattern import (
    NAME,
    WS,
    Pattern,
    PatternPart,
    ahead,
    alt,
    chars,
    opt,
    seq,
)
from windlass.emulation.parser.source import MAX_CALL_CHARS, Source, Step, finished
from windlass.jsontext import compact_json

_MAX_DEPTH = 200
"""Python's own limit of nested brackets."""
_MAX_WORD_CHARS = 5_000
_MAX_NAME_CHARS = 200

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_WORD = re.compile(r"[^\W\d]\w*")
_EMPTY_SET = Pattern("(", chars(r"\s", 0, 99), ")")
_STRING = Pattern(chars(r"[a-zA-Z]", 0, 2, "prefix"), ahead(alt('"', "'")))
_TRIPLE = Pattern(alt('"""', "'''"))
_JOINED = Pattern("\\", alt("\n", "\r\n"))
_NEWLINE = Pattern("\n")

_DIGITS = r"[0-9](?:_?[0-9])*"
_EXPONENT = rf"[eE][+-]?{_DIGITS}"
_NUMBER_LIKE = re.compile(
    r"0[xXoObB]\w*|(?:[0-9_]+\.?[0-9_]*|\.[0-9_]*)(?:[eE][+-]?[0-9_]*)?[\w.]*"
)
_INTEGER = re.compile(
    r"0(?:_?0)*|[1-9](?:_?[0-9])*|0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+"
)
_FLOAT = re.compile(
    rf"(?:(?:{_DIGITS})?\.{_DIGITS}|{_DIGITS}\.)(?:{_EXPONENT})?|{_DIGITS}{_EXPONENT}"
)

_RUNS = {'"': re.compile(r'[^"\\\r]+'), "'": re.compile(r"[^'\\\r]+")}
_SIMPLE = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True)) | {"\n": ""}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]+")
_OCTAL = re.compile(r"[0-7]{1,3}")
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotPython(Exception):
    """The text is not a literal, or incomplete, or JSON cannot represent it."""


@dataclass(slots=True)
class _Open:
    """An open bracket and its items so far."""

    bracket: str
    items: list[object] = field(default_factory=list[object])
    keys: list[object] | None = None
    comma: bool = False
    awaits_value: bool = False
    """A key and its colon have been read."""

    def closes_with(self, letter: str) -> bool:
        return letter == _CLOSING[self.bracket] and not self.awaits_value

    def add(self, value: object, mark: str) -> bool:
        """Adds a value and the mark after it, and returns whether another value must follow."""
        if self.bracket == "{" and mark == ":" and not self.awaits_value:
            if self.keys is None:
                if self.items:
                    raise NotPython
                self.keys = []
            self.keys.append(value)
            self.awaits_value = True
            return True
        if self.keys is not None and not self.awaits_value:
            raise NotPython
        self.items.append(value)
        self.awaits_value = False
        if mark == ",":
            self.comma = True
            return True
        if mark == _CLOSING[self.bracket]:
            return False
        raise NotPython

    def value(self) -> object:
        if self.bracket == "[":
            return self.items
        if self.bracket == "(":
            return tuple(self.items) if self.comma or not self.items else self.items[0]
        if self.keys is None and self.items:
            return self._set()
        return self._dict()

    def _set(self) -> list[object]:
        """Returns the members in their order, each once."""
        try:
            return list(dict.fromkeys(self.items))
        except TypeError:
            raise NotPython from None

    def _dict(self) -> dict[str, object]:
        """Returns the dict with strings as keys: integers are converted, other keys are refused."""
        keys = self.keys or []
        if any(type(key) not in (str, int) for key in keys):
            raise NotPython
        members = dict(zip(cast("list[str | int]", keys), self.items, strict=True))
        named = {str(key): value for key, value in members.items()}
        if len(named) < len(members):
            raise NotPython
        return named


class PythonReader:
    """Reads literals from the source. Raises `NotPython`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.is_sure = True
        """Whether more text could not change the last value."""

    def peek(self) -> Step[str]:
        """Skips space and comments, and returns the next character without reading it."""
        source = self._source
        while True:
            letter = yield from source.peek_past_space()
            if source.kept_size > MAX_CALL_CHARS:
                raise NotPython
            if letter == "#":
                yield from source.until(_NEWLINE)
            elif letter != "\\" or not (yield from source.match(_JOINED)):
                return letter

    def value(self) -> Step[object]:
        source, opened = self._source, list[_Open]()
        while True:
            letter = yield from self.peek()
            if opened and opened[-1].closes_with(letter):
                source.place += 1
                value = opened.pop().value()
            elif letter in _CLOSING:
                if len(opened) == _MAX_DEPTH:
                    raise NotPython
                source.place += 1
                opened.append(_Open(letter))
                continue
            else:
                value = yield from self._scalar(letter)
            while opened:
                mark = yield from self.peek()
                if not mark:
                    raise NotPython
                source.place += 1
                if opened[-1].add(value, mark):
                    break
                value = opened.pop().value()
            else:
                return value

    def _scalar(self, letter: str) -> Step[object]:
        self.is_sure = True
        if letter and letter in "+-":
            self._source.place += 1
            digits = yield from self.peek()
            if not digits or digits not in "0123456789.":
                raise NotPython
            number = yield from self._number()
            return -number if letter == "-" else number
        if letter and letter in "0123456789.":
            return (yield from self._number())
        if (yield from self._starts_string()):
            return (yield from self._strings())
        return (yield from self._word())

    def _token(self, kind: re.Pattern[str]) -> Step[str]:
        """Reads a match when more text cannot make it longer."""
        source = self._source
        while True:
            found = kind.match(source.text, source.place)
            end = found.end() if found else source.place
            if end - source.place > _MAX_WORD_CHARS:
                raise NotPython
            if end < len(source.text) or source.ended:
                break
            yield
        token = source.text[source.place : end]
        source.place, self.is_sure = end, end < len(source.text)
        return token

    def _number(self) -> Step[int | float]:
        token = yield from self._token(_NUMBER_LIKE)
        try:
            if _INTEGER.fullmatch(token):
                return int(token, 0)
            if _FLOAT.fullmatch(token) and math.isfinite(number := float(token)):
                return number
        except ValueError:  # too many digits, for Python too
            pass
        raise NotPython

    def _word(self) -> Step[object]:
        word = yield from self._token(_WORD)
        if word in _WORDS:
            return _WORDS[word]
        if word == "set" and (yield from self._source.match(_EMPTY_SET)):
            return []
        raise NotPython

    def _starts_string(self) -> Step[re.Match[str] | None]:
        """Returns the match of a string's start, with its prefix, without reading it."""
        found = yield from self._source.match(_STRING)
        if found:
            self._source.place = found.start()
        return found

    def _strings(self) -> Step[str]:
        """Reads a string and the adjacent strings, which Python joins."""
        parts: list[str] = []
        while found := (yield from self._starts_string()):
            prefix = found["prefix"].lower()
            if prefix not in ("", "r", "u"):
                raise NotPython
            self._source.place = found.end()
            yield from self._string(parts, raw=prefix == "r")
            yield from self.peek()
        text = "".join(parts)
        if not _SURROGATE.search(text):
            return text
        try:  # a surrogate pair, as JSON escapes it
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise NotPython from None

    def _string(self, parts: list[str], *, raw: bool) -> Step[None]:
        source = self._source
        triple = yield from source.match(_TRIPLE)
        quote = triple.group() if triple else source.text[source.place]
        source.place += 0 if triple else 1
        run = _RUNS[quote[0]]
        while True:
            if found := run.match(source.text, source.place):
                parts.append(found.group())
                source.place = found.end()
            letter = yield from self._letters(1)
            if letter == quote[0]:
                if (yield from self._letters(len(quote), short=True)) == quote:
                    source.place += len(quote)
                    return
                parts.append(letter)
                source.place += 1
            elif letter == "\r":
                parts.append((yield from self._newline()))
            elif letter != "\\":
                continue  # it arrived just now
            elif raw:
                parts.append("\\")
                source.place += 1
                letter = yield from self._letters(1)
                if letter in (quote[0], "\\"):
                    parts.append(letter)
                    source.place += 1
            else:
                parts.append((yield from self._escape()))

    def _letters(self, count: int, *, short: bool = False) -> Step[str]:
        """Returns the next `count` characters without reading them; `short` allows fewer."""
        source = self._source
        while len(source.text) - source.place < count:
            if source.ended and short:
                break
            if source.ended or source.kept_size > MAX_CALL_CHARS:
                raise NotPython
            yield
        return source.text[source.place : source.place + count]

    def _newline(self) -> Step[str]:
        """Reads a carriage return, with a newline after it, as a newline."""
        pair = yield from self._letters(2, short=True)
        self._source.place += 2 if pair == "\r\n" else 1
        return "\n"

    def _escape(self) -> Step[str]:
        """Reads an escape."""
        source = self._source
        letter = (yield from self._letters(2))[1]
        source.place += 1
        if letter == "\r":
            yield from self._newline()
            return ""
        if letter in "01234567":
            digits = cast("re.Match[str]", _OCTAL.match((yield from self._letters(3, short=True))))
            source.place += digits.end()
            return chr(int(digits.group(), 8))
        source.place += 1
        if letter in _SIMPLE:
            return _SIMPLE[letter]
        if letter == "N":
            return (yield from self._named())
        if count := _HEX_DIGITS.get(letter, 0):
            digits = yield from self._letters(count)
            if not _HEX.fullmatch(digits) or (code := int(digits, 16)) > 0x10FFFF:
                raise NotPython
            source.place += count
            return chr(code)
        return "\\" + letter

    def _named(self) -> Step[str]:
        source = self._source
        if (yield from self._letters(1)) != "{":
            raise NotPython
        while (end := source.text.find("}", source.place)) < 0:
            if source.ended or len(source.text) - source.place > _MAX_NAME_CHARS:
                raise NotPython
            yield
        try:
            letter = unicodedata.lookup(source.text[source.place + 1 : end])
        except KeyError:
            raise NotPython from None
        if len(letter) > 1:  # a named sequence, which has no escape
            raise NotPython
        source.place = end + 1
        return letter


def python_value(text: str) -> object:
    """Returns the value of a literal. Raises `NotPython`."""
    source = Source()
    source.add(text.strip())
    source.end(truncated=False)
    reader = PythonReader(source)
    value = finished(reader.value())
    if finished(reader.peek()):
        raise NotPython
    return value


_KEY = Pattern(chars(r"[^\W\d]", 1, 1, "first"), chars(r"[\w.-]", 0, 99, "rest"), WS, "=")
_ELLIPSIS = Pattern(ahead(_KEY.part, WS, alt("...", "…")))
_NAMED = alt(")", _KEY.part)
_FIRST_NAMED = Pattern(ahead(_NAMED))
_FIRST = Pattern(
    ahead(
        alt(
            _NAMED,
            seq(chars(r"[a-zA-Z]", 0, 2), alt('"', "'")),
            *"([{*+-0123456789",
            seq(".", alt(*"0123456789")),
            seq(alt("True", "False", "None", "true", "false", "null"), alt(*" ,)")),
        )
    )
)
"""The start of arguments: a name, a literal, or a closing bracket."""
_UNPRINTED = PatternPart(
    rf"(?!print\((?:\Z|{NAME.prefix}{WS.full}(?:\(|\Z)))", prefix="(?!)", empty=True
)
"""Matches the empty text if no `print(` around a call starts here."""
PRINTED = seq(alt("print(", _UNPRINTED), NAME, WS, "(")
"""The start of a call, also inside `print(...)`."""
_NEXT = Pattern(WS, opt(alt(",", ";")), WS, PRINTED)
_DOUBLED = {quote: Pattern(quote * 2) for quote in "\"'"}
_STRING_ENDS = {
    quote: Pattern(alt("\\", quote, *("\n" if len(quote) == 1 else ())))
    for quote in ('"', "'", '"""', "'''")
}
_LINE_END = Pattern(ahead("\n"))


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Reads calls after a marker that ends with the first call's opening bracket."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        source, found, alone = reading.source, marker, reading.opens_line
        while found:
            name = reading.resolve(found["name"])
            if reading.implicit and not (yield from _is_call(source, positional=alone)):
                raise NotACall
            reading.start(name)
            source.keep()
            try:
                arguments = yield from _read_arguments(reading)
            except NotPython:
                source.rewind()
                reading.write((yield from _raw_arguments(reading)))
                reading.invalidate()
            else:
                reading.write(arguments)
            reading.end()
            source.keep()
            found = yield from source.match(_NEXT)
        source.forget()


def _is_call(source: Source, *, positional: bool) -> Step[bool]:
    """Whether arguments follow; values without a name only if they may be `positional`."""
    yield from source.peek_past_space()
    if (yield from source.match(_ELLIPSIS)):
        return False
    first = yield from source.match(_FIRST if positional else _FIRST_NAMED)
    return first is not None


def _read_arguments(reading: CallReading) -> Step[str]:
    """Reads the arguments as JSON, up to the closing bracket. Raises `NotPython`."""
    source, reader = reading.source, PythonReader(reading.source)
    unnamed = iter(reading.declared.properties(reading.name))
    given: dict[str, object] = {}
    named = False
    while (letter := (yield from reader.peek())) != ")":
        key = yield from source.match(_KEY)
        named = named or key is not None
        name = key["first"] + key["rest"] if key else "" if named else next(unnamed, "")
        if not name or name in given:
            raise NotPython
        given[name] = yield from reader.value()
        letter = yield from reader.peek()
        if letter == ",":
            source.place += 1
        elif not letter and reader.is_sure and not source.truncated:
            break
        elif letter != ")":
            raise NotPython
    source.place += len(letter)
    return compact_json(given)


def _raw_arguments(reading: CallReading) -> Step[str]:
    """Reads unreadable arguments as they are written, up to the closing bracket."""
    source, depth = reading.source, 1
    tokens = reading.ends.part.firsts if reading.ends else ()
    edges = Pattern(alt(*"\"'#()[]{}", *(token for token in tokens if len(token) > 1)))
    source.keep()
    while depth and (found := (yield from source.until(edges))[1]):
        match found.group():
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            case "#":
                yield from source.until(_LINE_END)
            case "'" | '"' as quote:
                yield from _skip_string(source, quote)
            case _:
                source.place = found.start()
                break
    raw = source.release()
    return printable(raw if depth else raw[:-1])


def _skip_string(source: Source, quote: str) -> Step[None]:
    """Skips the rest of a string. Without triple quotes, it ends with its line."""
    if (yield from source.match(_DOUBLED[quote])):
        quote *= 3
    while (found := (yield from source.until(_STRING_ENDS[quote]))[1]) and found.group() == "\\":
        if not (yield from source.at_end()):
            source.place += 1
