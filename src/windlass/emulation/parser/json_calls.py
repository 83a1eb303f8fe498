"""Readers of calls with JSON arguments.

`JsonArguments`: the marker has the name, and an object follows. `TextInput`: the marker has the
name, and an object or plain text follows. `JsonCalls`: the call is an object, such as
`{"name": ..., "arguments": {...}}`.
"""

import re
from dataclasses import dataclass
from io import StringIO
from re import Match
from typing import Literal

import msgspec

from windlass.emulation.parser.call import CallReading, NotACall
from windlass.emulation.parser.json_text import JSON, JsonReader, Style, json_escaped, json_string
from windlass.emulation.parser.pattern import WS, Pattern, PatternPart, ahead, alt, chars, opt, seq
from windlass.emulation.parser.source import MAX_CALL_CHARS, Source, Step, finished

_BOLD = Pattern("**")
_FENCE = Pattern("```", opt("json"), WS, ahead("{"))
_ELLIPSIS = Pattern("{", WS, alt("...", "…"))
_NOTHING = Pattern(alt("null", "None"), ahead(alt(*" \t\r\n,}]")))


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """Reads the object after a marker that has the name."""

    style: Style = JSON

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        name = reading.resolve(marker["name"])
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


def refuse_ellipsis(reading: CallReading) -> Step[None]:
    """Raises `NotACall` for `{...}`, which only explains a call."""
    yield from reading.source.peek_past_space()
    if (yield from reading.source.match(_ELLIPSIS)):
        raise NotACall


def read_arguments(reading: CallReading, style: Style = JSON, *, named: bool = True) -> Step[None]:
    """Reads the arguments of the current call.

    With `named=False` they may be a plain string, for the function's only parameter.
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
        reading.invalidate()


def early_arguments(reading: CallReading) -> Step[str]:
    """Reads arguments that come before the name."""
    source, written = reading.source, StringIO()
    room = MAX_CALL_CHARS

    def write(json: str) -> None:
        nonlocal room
        written.write(json[: max(room, 0)])
        room -= len(json)

    reader = JsonReader(source, write, JSON, reading.ends)
    ending = yield from reader.value()
    if ending == "cut" and not source.truncated:
        reader.close()
    return _object_in(written.getvalue()) or written.getvalue()


def _read_text(reading: CallReading, named: bool) -> Step[None]:
    """Reads a string that contains the object, as OpenAI writes it."""
    written = StringIO()
    ending = yield from JsonReader(reading.source, written.write).value()
    json = written.getvalue()
    if ending != "whole":
        reading.write(json)
        reading.invalidate()
    elif (held := _object_in(json)) is not None:
        reading.write(held)
    elif named:
        reading.write(json)
    else:
        parameter = json_string(reading.declared.only_parameter(reading.name))
        reading.write(f"{{{parameter}:{json}}}")


def _object_in(json: str) -> str | None:
    """Returns the object inside the JSON string; None if there is none."""
    try:
        text = msgspec.json.decode(json, type=str)
    except msgspec.DecodeError:
        return None
    if not text.strip():
        return "{}"
    return strict_json(text) if text.lstrip().startswith("{") else None


def strict_json(text: str, style: Style = JSON) -> str | None:
    """Returns the text as strict JSON; None if it is not one value with a clear meaning."""
    source, written = Source(), StringIO()
    source.add(text.strip())
    source.end(truncated=False)
    ending = finished(JsonReader(source, written.write, style).value())
    return written.getvalue() if ending == "whole" and source.place == len(source.text) else None


_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)
_OBJECT = Pattern(ahead("{", WS, alt('"', "'", "}")))


@dataclass(frozen=True, slots=True)
class TextInput:
    """Reads an input without a name: arguments if it is a JSON object, otherwise text."""

    end: PatternPart
    """What ends the text. Without it, all the rest is the input."""
    exact: bool = False
    """Whether space around the text belongs to it."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        source = reading.source
        reading.start(reading.resolve(marker["name"]))
        if (yield from source.after_space(_OBJECT)) not in (None, "end"):
            yield from read_arguments(reading)
        else:
            text, ended = yield from source.until(Pattern(self.end))
            if not self.exact:
                text = text.strip().removeprefix("**").strip()
            reading.write(self._arguments(reading, text))
            if source.truncated and not ended:
                reading.invalidate()
        reading.end()

    def _arguments(self, reading: CallReading, text: str) -> str:
        bare = text.strip()
        if not bare:
            return "{}"
        if fenced := _FENCED.fullmatch(bare):
            bare = fenced[1]
        json = strict_json(bare) if bare[:1] in ('"', "{") else None
        if json and json.startswith("{"):
            return json
        parameter = json_escaped(reading.declared.only_parameter(reading.name))
        return f'{{"{parameter}":{json or json_string(text)}}}'


Role = Literal["name", "arguments", "input", "call", "calls", "ignored"]

_ROLES: dict[str, Role] = {
    "name": "name",
    "tool_name": "name",
    "function_name": "name",
    "tool": "name",
    "action": "name",
    "arguments": "arguments",
    "parameters": "arguments",
    "args": "arguments",
    "params": "arguments",
    "action_input": "input",
    "tool_input": "input",
    "input": "input",
    "function": "call",
    "function_call": "call",
    "tool_call": "call",
    "tool_calls": "calls",
    "function_calls": "calls",
    "id": "ignored",
    "call_id": "ignored",
    "tool_call_id": "ignored",
    "index": "ignored",
    "type": "ignored",
    "role": "ignored",
    "content": "ignored",
}
CALL_KEYS = tuple(key for key, role in _ROLES.items() if role != "input")

_SCHEMA_KEYS = frozenset(("type", "properties", "required", "$schema", "anyOf", "description"))
_MAX_DEPTH = 3


def _text(group: str, limit: int) -> PatternPart:
    """Matches a short string in single or double quotes."""
    return alt(
        seq('"', chars(r'[^"\\\n]', 0, limit, f"{group}1"), '"'),
        seq("'", chars(r"[^'\\\n]", 0, limit, f"{group}2"), "'"),
    )


_END = ahead(alt(*" \t\r\n,}]"))
_KEY = Pattern(alt(_text("key", 99), chars(r"[\w$]", 1, 99, "key3")), WS, ":")
_NAME = Pattern(_text("name", 120))
_IGNORED_VALUE = Pattern(alt(_text("text", 200), chars(r"[\w.-]", 1, 40)), _END)
_FIRST_KEY = Pattern("{", WS, alt("}", _text("key", 99)))
_NEXT = Pattern(WS, alt(";", ","), WS, ahead("{"))
_NEXT_MARKED = Pattern(WS, opt(alt(";", ",")), WS, ahead("{"))


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Reads one object, several objects or a list. `keyed`: the name is the object's only key."""

    keyed: bool = False

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        calls, source = _ItemReader(reading, self.keyed), reading.source
        # Between two markers all objects are calls; elsewhere a second object may be anything.
        separator = _NEXT if reading.implicit and reading.ends is None else _NEXT_MARKED
        if (yield from source.peek_past_space()) == "[":
            yield from calls.read_list()
            return
        yield from calls.read_item()
        while reading.calls:
            source.keep()
            if not (yield from source.match(separator)):
                source.forget()
                return
            yield from calls.read_item()


@dataclass(slots=True)
class _Item:
    """The state of the call in one object."""

    name: str = ""
    early: str | None = None
    """The arguments, if they come before the name."""
    refused: bool = False
    done: bool = False


class _ItemReader:
    def __init__(self, reading: CallReading, keyed: bool) -> None:
        self._reading, self._source, self._keyed = reading, reading.source, keyed
        self._level = 0

    def read_list(self) -> Step[None]:
        reading, source, before = self._reading, self._source, self._reading.calls
        source.place += 1
        while True:
            letter = yield from source.peek_past_space()
            if letter == "{":
                if reading.calls > before:
                    source.keep()
                yield from self.read_item()
            elif letter == ",":
                source.place += 1
            else:
                break
        if letter == "]":
            source.place += 1
        if reading.calls == before:
            raise NotACall

    def read_item(self) -> Step[None]:
        """Reads one object. If it is not a call, raises `NotACall` or emits it as text."""
        item, reading = _Item(), self._reading
        closed = yield from self._read_object(item)
        if item.done:
            return
        if reading.implicit or not closed:
            raise NotACall
        if item.name and not item.refused:
            reading.add(item.name, "{}")
        else:
            reading.reject()
            self._source.keep()

    def _read_object(self, item: _Item) -> Step[bool]:
        """Reads the members, and returns whether the object is closed."""
        source = self._source
        source.place += 1
        while True:
            letter = yield from source.peek_past_space()
            if letter in ("}", ","):
                source.place += 1
                if letter == "}":
                    return True
            elif key := (yield from source.match(_KEY)):
                letter = yield from source.peek_past_space()
                yield from self._read_member(item, key[key.lastgroup or 0], letter)
            else:
                return False

    def _read_member(self, item: _Item, key: str, letter: str) -> Step[None]:
        role = _ROLES.get(key)
        if self._keyed and letter == "{" and role is None:
            self._name(item, key)
            role = "arguments"
        if item.done or item.refused:
            yield from self._skip()
        elif role in ("name", "call") and letter in ('"', "'"):
            name = yield from self._source.match(_NAME)
            self._name(item, name[name.lastgroup or 0] if name else "")
        elif role == "call" and letter == "{" and self._level < _MAX_DEPTH:
            self._level += 1
            yield from self._read_object(item)
            self._level -= 1
        elif role == "calls" and letter == "[" and self._level < _MAX_DEPTH:
            self._level += 1
            yield from self.read_list()
            self._level -= 1
            item.done = True
        elif role in ("arguments", "input"):
            yield from self._read_arguments(item, letter, named=role == "arguments")
        elif not self._reading.implicit:
            yield from self._skip()
        elif role != "ignored" or not (yield from self._source.match(_IGNORED_VALUE)):
            raise NotACall

    def _name(self, item: _Item, written: str) -> None:
        reading = self._reading
        name = reading.declared.resolve(written, reading.trust)
        if name is None:
            if reading.implicit:
                raise NotACall
            item.refused = reading.is_text = True
        else:
            item.name = name
            if item.early is not None:
                reading.add(name, item.early)
                item.done = True

    def _read_arguments(self, item: _Item, letter: str, *, named: bool) -> Step[None]:
        reading = self._reading
        if not item.name:
            if reading.implicit:
                raise NotACall
            item.early = yield from early_arguments(reading)
            return
        yield from refuse_ellipsis(reading)
        if reading.implicit:
            yield from self._confirm(item.name, letter)
        reading.start(item.name)
        yield from read_arguments(reading, named=named)
        reading.end()
        item.done = True

    def _confirm(self, name: str, letter: str) -> Step[None]:
        """Raises `NotACall` unless arguments follow, and not `...` or a schema."""
        if letter in ('"', "'"):
            return
        first = yield from self._source.match(_FIRST_KEY)
        if not first:
            raise NotACall
        self._source.place = first.start()
        key = first[first.lastgroup] if first.lastgroup else ""
        if key in _SCHEMA_KEYS and key not in self._reading.declared.properties(name):
            raise NotACall

    def _skip(self) -> Step[None]:
        reader = JsonReader(self._source, _discard, JSON, self._reading.ends)
        yield from reader.value()


def _discard(_: str) -> None:
    pass
