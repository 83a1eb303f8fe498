"""python calls"""

import math
import re
import unicodedata
from dataclasses import dataclass, field
from re import Match
from typing import cast

from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.json_text import printable
from windlass.emulation.parser.pattern import NAME, WS, Part, Pattern, ahead, alt, chars, opt, seq
from windlass.emulation.parser.source import LONGEST_CALL, Source, Step, finished
from windlass.jsontext import compact_json

_DEEPEST = 200
"""Python itself refuses brackets that are nested deeper."""
_LONGEST_WORD = 5_000
_LONGEST_NAME = 200

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


class Unreadable(Exception):
    """What follows is not a literal, or one that JSON cannot hold, or not all of it is there."""


@dataclass(slots=True)
class _Open:
    """A bracket that is open, and what it holds so far."""

    bracket: str
    items: list[object] = field(default_factory=list[object])
    keys: list[object] | None = None
    comma: bool = False
    awaits_value: bool = False
    """A key and its colon have been read."""

    def closes_with(self, letter: str) -> bool:
        return letter == _CLOSING[self.bracket] and not self.awaits_value

    def add(self, value: object, mark: str) -> bool:
        """Takes a value and the mark after it; whether something must follow."""
        if self.bracket == "{" and mark == ":" and not self.awaits_value:
            if self.keys is None:
                if self.items:
                    raise Unreadable
                self.keys = []
            self.keys.append(value)
            self.awaits_value = True
            return True
        if self.keys is not None and not self.awaits_value:
            raise Unreadable
        self.items.append(value)
        self.awaits_value = False
        if mark == ",":
            self.comma = True
            return True
        if mark == _CLOSING[self.bracket]:
            return False
        raise Unreadable

    def value(self) -> object:
        if self.bracket == "[":
            return self.items
        if self.bracket == "(":
            return tuple(self.items) if self.comma or not self.items else self.items[0]
        if self.keys is None and self.items:
            return self._set()
        return self._dict()

    def _set(self) -> list[object]:
        """The members in the order in which they are written, each once."""
        try:
            return list(dict.fromkeys(self.items))
        except TypeError:
            raise Unreadable from None

    def _dict(self) -> dict[str, object]:
        """JSON's names are texts: an integer becomes its digits, other keys cannot be written."""
        keys = self.keys or []
        if any(type(key) not in (str, int) for key in keys):
            raise Unreadable
        members = dict(zip(cast("list[str | int]", keys), self.items, strict=True))
        named = {str(key): value for key, value in members.items()}
        if len(named) < len(members):
            raise Unreadable
        return named


class PythonReader:
    """Reads literals from the source. Raises `Unreadable`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.is_sure = True
        """Whether more text could not have changed the last value."""

    def peek(self) -> Step[str]:
        """The next character, unread, after all space and comments; nothing at the end."""
        source = self._source
        while True:
            letter = yield from source.peek_past_space()
            if source.kept_size > LONGEST_CALL:
                raise Unreadable
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
                if len(opened) == _DEEPEST:
                    raise Unreadable
                source.place += 1
                opened.append(_Open(letter))
                continue
            else:
                value = yield from self._scalar(letter)
            while opened:
                mark = yield from self.peek()
                if not mark:
                    raise Unreadable
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
                raise Unreadable
            number = yield from self._number()
            return -number if letter == "-" else number
        if letter and letter in "0123456789.":
            return (yield from self._number())
        if (yield from self._starts_string()):
            return (yield from self._strings())
        return (yield from self._word())

    # Numbers and words.

    def _token(self, kind: re.Pattern[str]) -> Step[str]:
        """What matches here, once more text cannot make it longer."""
        source = self._source
        while True:
            found = kind.match(source.text, source.place)
            end = found.end() if found else source.place
            if end - source.place > _LONGEST_WORD:
                raise Unreadable
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
        raise Unreadable

    def _word(self) -> Step[object]:
        word = yield from self._token(_WORD)
        if word in _WORDS:
            return _WORDS[word]
        if word == "set" and (yield from self._source.match(_EMPTY_SET)):
            return []
        raise Unreadable

    # Strings.

    def _starts_string(self) -> Step[re.Match[str] | None]:
        """Whether a string begins here, after its prefix if it has one. Nothing is read."""
        found = yield from self._source.match(_STRING)
        if found:
            self._source.place = found.start()
        return found

    def _strings(self) -> Step[str]:
        """A string, and those beside it: together they are one."""
        parts: list[str] = []
        while found := (yield from self._starts_string()):
            prefix = found["prefix"].lower()
            if prefix not in ("", "r", "u"):
                raise Unreadable
            self._source.place = found.end()
            yield from self._string(parts, raw=prefix == "r")
            yield from self.peek()
        text = "".join(parts)
        if not _SURROGATE.search(text):
            return text
        try:  # two halves of a character, as JSON escapes it
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise Unreadable from None

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
                continue  # it has come just now
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
        """So many characters from here, unread. `short`: fewer at the end of the text."""
        source = self._source
        while len(source.text) - source.place < count:
            if source.ended and short:
                break
            if source.ended or source.kept_size > LONGEST_CALL:
                raise Unreadable
            yield
        return source.text[source.place : source.place + count]

    def _newline(self) -> Step[str]:
        """A carriage return, which Python reads as a newline, with the newline after it."""
        pair = yield from self._letters(2, short=True)
        self._source.place += 2 if pair == "\r\n" else 1
        return "\n"

    def _escape(self) -> Step[str]:
        """What a backslash and what follows it mean."""
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
                raise Unreadable
            source.place += count
            return chr(code)
        return "\\" + letter

    def _named(self) -> Step[str]:
        source = self._source
        if (yield from self._letters(1)) != "{":
            raise Unreadable
        while (end := source.text.find("}", source.place)) < 0:
            if source.ended or len(source.text) - source.place > _LONGEST_NAME:
                raise Unreadable
            yield
        try:
            letter = unicodedata.lookup(source.text[source.place + 1 : end])
        except KeyError:
            raise Unreadable from None
        if len(letter) > 1:  # a sequence has a name, too, but no escape
            raise Unreadable
        source.place = end + 1
        return letter


def python_value(text: str) -> object:
    """The literal that the text is. Raises `Unreadable`."""
    source = Source()
    source.add(text.strip())
    source.end(truncated=False)
    reader = PythonReader(source)
    value = finished(reader.value())
    if finished(reader.peek()):
        raise Unreadable
    return value


_KEY = Pattern(chars(r"[^\W\d]", 1, 1, "first"), chars(r"[\w.-]", 0, 99, "rest"), WS, "=")
_EXPLAINED = Pattern(ahead(_KEY.part, WS, alt("...", "…")))
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
"""How arguments begin: with a name, a literal, or not at all."""
_UNPRINTED = Part(rf"(?!print\((?:\Z|{NAME.prefix}{WS.full}(?:\(|\Z)))", prefix="(?!)", empty=True)
"""Nothing, where there is no `print(` around a call and more text cannot make it one."""
PRINTED = seq(alt("print(", _UNPRINTED), NAME, WS, "(")
"""The beginning of a call, or of one whose result is printed."""
_NEXT = Pattern(WS, opt(alt(",", ";")), WS, PRINTED)
_DOUBLED = {quote: Pattern(quote * 2) for quote in "\"'"}
_STRING_ENDS = {
    quote: Pattern(alt("\\", quote, *("\n" if len(quote) == 1 else ())))
    for quote in ('"', "'", '"""', "'''")
}
_LINE_END = Pattern(ahead("\n"))


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """The marker ends with the first call's opening bracket."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        source, found, alone = reading.source, marker, reading.opens_line
        while found:
            name = reading.meant(found["name"])
            if reading.implicit and not (yield from _is_call(source, positional=alone)):
                raise NotACall
            reading.start(name)
            source.keep()
            try:
                arguments = yield from _read_arguments(reading)
            except Unreadable:
                source.rewind()
                reading.write((yield from _raw_arguments(reading)))
                reading.spoil()
            else:
                reading.write(arguments)
            reading.end()
            source.keep()
            found = yield from source.match(_NEXT)
        source.forget()


def _is_call(source: Source, *, positional: bool) -> Step[bool]:
    """Whether arguments follow: named ones, values if they may be `positional`, or none."""
    yield from source.peek_past_space()
    if (yield from source.match(_EXPLAINED)):
        return False
    first = yield from source.match(_FIRST if positional else _FIRST_NAMED)
    return first is not None


def _read_arguments(reading: Reading) -> Step[str]:
    """The arguments as JSON, up to the closing bracket. Raises `Unreadable`."""
    source, reader = reading.source, PythonReader(reading.source)
    unnamed = iter(reading.declared.properties(reading.name))
    given: dict[str, object] = {}
    named = False
    while (letter := (yield from reader.peek())) != ")":
        key = yield from source.match(_KEY)
        named = named or key is not None
        name = key["first"] + key["rest"] if key else "" if named else next(unnamed, "")
        if not name or name in given:
            raise Unreadable
        given[name] = yield from reader.value()
        letter = yield from reader.peek()
        if letter == ",":
            source.place += 1
        elif not letter and reader.is_sure and not source.truncated:
            break
        elif letter != ")":
            raise Unreadable
    source.place += len(letter)
    return compact_json(given)


def _raw_arguments(reading: Reading) -> Step[str]:
    """What the brackets of a call hold that cannot be read, as it is written."""
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
                yield from _pass_string(source, quote)
            case _:
                source.place = found.start()
                break
    raw = source.release()
    return printable(raw if depth else raw[:-1])


def _pass_string(source: Source, quote: str) -> Step[None]:
    """Passes over the rest of a string; one without three quotes ends with its line."""
    if (yield from source.match(_DOUBLED[quote])):
        quote *= 3
    while (found := (yield from source.until(_STRING_ENDS[quote]))[1]) and found.group() == "\\":
        if not (yield from source.at_end()):
            source.place += 1
