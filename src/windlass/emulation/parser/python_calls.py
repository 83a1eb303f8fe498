"""Calls that are Python: `[get_weather(city="Paris"), add(a=1, b=2)]`."""

from dataclasses import dataclass
from re import Match

from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.escapes import printable
from windlass.emulation.parser.pattern import NAME, WS, Part, Pattern, ahead, alt, chars, opt, seq
from windlass.emulation.parser.python_text import PythonReader, Unreadable
from windlass.emulation.parser.source import Source, Step
from windlass.jsontext import compact_json

__all__ = ["PRINTED", "PythonCalls"]

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
