"""Calls that are Python: `[get_weather(city="Paris"), add(a=1, b=2)]`."""

from dataclasses import dataclass
from io import StringIO
from re import Match

from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.json_text import PYTHON, JsonReader
from windlass.emulation.parser.parameters import ArgumentWriter
from windlass.emulation.parser.pattern import NAME, WS, Part, Pattern, ahead, alt, chars, opt, seq
from windlass.emulation.parser.source import Step

__all__ = ["PRINTED", "PythonCalls"]

_KEY = Pattern(chars(r"[^\W\d]", 1, 1, "first"), chars(r"[\w.-]", 0, 99, "rest"), WS, "=")
_ARGUMENT = Pattern(alt(ahead(")"), _KEY.part))
_UNPRINTED = Part(rf"(?!print\((?:\Z|{NAME.prefix}{WS.full}(?:\(|\Z)))", prefix="(?!)", empty=True)
"""Nothing, where there is no `print(` around a call and more text cannot make it one."""
PRINTED = seq(alt("print(", _UNPRINTED), NAME, WS, "(")
"""The beginning of a call, or of one whose result is printed."""
_NEXT = Pattern(WS, opt(alt(",", ";")), WS, PRINTED)


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """The marker ends with the first call's opening bracket."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        source, found = reading.source, marker
        while found:
            name = reading.meant(found["name"])
            if reading.implicit and not (yield from self._is_call(reading)):
                raise NotACall
            reading.start(name)
            whole = yield from self._read_arguments(reading)
            reading.end()
            if not whole:
                yield from reading.skip()
                return
            source.keep()
            found = yield from source.match(_NEXT)
        source.forget()

    def _is_call(self, reading: Reading) -> Step[bool]:
        """Whether named arguments follow, or none."""
        source = reading.source
        yield from source.peek_past_space()
        if not (found := (yield from source.match(_ARGUMENT))):
            return False
        source.place = found.start()
        return True

    def _read_arguments(self, reading: Reading) -> Step[bool]:
        """Reads up to the closing bracket; whether all could be read."""
        source, writer = reading.source, ArgumentWriter(reading)
        unnamed = iter(reading.declared.properties(reading.name))
        complete = False
        while True:
            letter = yield from source.peek_past_space()
            if letter == ")" or (not letter and complete and not source.truncated):
                source.place += len(letter)
                writer.finish()
                return True
            if letter == ",":
                source.place += 1
                complete = False
                continue
            key = yield from source.match(_KEY)
            name = key["first"] + key["rest"] if key else next(unnamed, "")
            written, complete = yield from self._read_value(reading)
            if not (letter and name and written):
                writer.cut()
                return False
            writer.put(name, written)

    def _read_value(self, reading: Reading) -> Step[tuple[str, bool]]:
        """The value as JSON, if it can be read, and whether more text could not have changed it."""
        value = StringIO()
        reader = JsonReader(reading.source, value.write, PYTHON)
        ending = yield from reader.value()
        return value.getvalue() if ending == "whole" else "", reader.is_sure
