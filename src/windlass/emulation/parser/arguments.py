"""Arguments that are one JSON object, or a text that holds one."""

from dataclasses import dataclass
from io import StringIO
from re import Match

import msgspec

from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.escapes import json_string
from windlass.emulation.parser.json_text import JSON, JsonReader, Style
from windlass.emulation.parser.pattern import WS, Pattern, ahead, alt, opt
from windlass.emulation.parser.source import LONGEST_CALL, Source, Step, finished

__all__ = ["JsonArguments", "early_arguments", "read_arguments", "refuse_ellipsis", "strict_json"]

_BOLD = Pattern("**")
_FENCE = Pattern("```", opt("json"), WS, ahead("{"))
_ELLIPSIS = Pattern("{", WS, alt("...", "…"))
_NOTHING = Pattern(alt("null", "None"), ahead(alt(*" \t\r\n,}]")))


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """The name is in the marker; the object follows."""

    style: Style = JSON

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        name = reading.meant(marker["name"])
        yield from refuse_ellipsis(reading)
        letter = yield from reading.source.peek_past_space()
        if letter == "*" and (yield from reading.source.match(_BOLD)):
            letter = yield from reading.source.peek_past_space()
        if letter == "`" and (yield from reading.source.match(_FENCE)):
            letter = "{"
        if letter not in ("{", '"', "") and not (reading.ends and letter in reading.ends.letters):
            raise NotACall
        reading.start(name)
        if letter in ("{", '"'):
            yield from read_arguments(reading, self.style)
        elif reading.source.truncated:
            reading.write("{")
        else:
            reading.write("{}")
        reading.end()


def refuse_ellipsis(reading: Reading) -> Step[None]:
    """Raises `NotACall` for `{...}`: whoever writes that explains a call."""
    yield from reading.source.peek_past_space()
    if (yield from reading.source.match(_ELLIPSIS)):
        raise NotACall


def read_arguments(reading: Reading, style: Style = JSON, *, named: bool = True) -> Step[None]:
    """Reads the arguments of the call that has been started.

    `named=False`: they may be a plain text, for the one parameter that there is.
    """
    source = reading.source
    letter = yield from source.peek_past_space()
    if letter in ('"', "'"):
        yield from _read_text(reading, named)
        return
    if (yield from source.match(_NOTHING)):
        reading.write("{}")
        return
    reader = JsonReader(source, reading.write, style, reading.ends)
    ending = yield from reader.value()
    if ending == "broken" or (ending == "cut" and (source.truncated or not reader.close())):
        reading.spoil()


def early_arguments(reading: Reading) -> Step[str]:
    """Arguments that come before the name, as far as they can be read."""
    source, written = reading.source, StringIO()
    room = LONGEST_CALL

    def write(json: str) -> None:
        nonlocal room
        written.write(json[: max(room, 0)])
        room -= len(json)

    reader = JsonReader(source, write, JSON, reading.ends)
    ending = yield from reader.value()
    if ending == "cut" and not source.truncated:
        reader.close()
    return _held_in(written.getvalue()) or written.getvalue()


def _read_text(reading: Reading, named: bool) -> Step[None]:
    """A text that holds the object, as OpenAI writes it."""
    written = StringIO()
    ending = yield from JsonReader(reading.source, written.write).value()
    json = written.getvalue()
    if ending != "whole":
        reading.write(json)
        reading.spoil()
    elif (held := _held_in(json)) is not None:
        reading.write(held)
    elif named:
        reading.write(json)
    else:
        parameter = json_string(reading.declared.only_parameter(reading.name))
        reading.write(f"{{{parameter}:{json}}}")


def _held_in(json: str) -> str | None:
    """The object that the JSON string holds, if it holds one."""
    try:
        text = msgspec.json.decode(json, type=str)
    except msgspec.DecodeError:
        return None
    if not text.strip():
        return "{}"
    return strict_json(text) if text.lstrip().startswith("{") else None


def strict_json(text: str, style: Style = JSON) -> str | None:
    """The text as strict JSON, if it is one value with a plain meaning."""
    source, written = Source(), StringIO()
    source.add(text.strip())
    source.end(truncated=False)
    ending = finished(JsonReader(source, written.write, style).value())
    return written.getvalue() if ending == "whole" and source.place == len(source.text) else None
