"""Calls that are JSON objects themselves: `{"name": ..., "arguments": {...}}` and its relatives."""

from dataclasses import dataclass
from re import Match
from typing import Literal

from windlass.emulation.parser.arguments import early_arguments, read_arguments, refuse_ellipsis
from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.json_text import JSON, JsonReader
from windlass.emulation.parser.pattern import WS, Part, Pattern, ahead, alt, chars, opt, seq
from windlass.emulation.parser.source import Step

__all__ = ["CALL_KEYS", "JsonCalls"]

Role = Literal["name", "arguments", "input", "call", "calls", "aside"]

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
    "id": "aside",
    "call_id": "aside",
    "tool_call_id": "aside",
    "index": "aside",
    "type": "aside",
    "role": "aside",
    "content": "aside",
}
CALL_KEYS = tuple(key for key, role in _ROLES.items() if role != "input")

_SCHEMA_KEYS = frozenset(("type", "properties", "required", "$schema", "anyOf", "description"))
_DEEPEST = 3


def _text(group: str, most: int) -> Part:
    """A short text in either kind of quotes."""
    return alt(
        seq('"', chars(r'[^"\\\n]', 0, most, f"{group}1"), '"'),
        seq("'", chars(r"[^'\\\n]", 0, most, f"{group}2"), "'"),
    )


_END = ahead(alt(*" \t\r\n,}]"))
_KEY = Pattern(alt(_text("key", 99), chars(r"[\w$]", 1, 99, "key3")), WS, ":")
_NAME = Pattern(_text("name", 120))
_ASIDE = Pattern(alt(_text("text", 200), chars(r"[\w.-]", 1, 40)), _END)
_FIRST_KEY = Pattern("{", WS, alt("}", _text("key", 99)))
_NEXT = Pattern(WS, alt(";", ","), WS, ahead("{"))
_NEXT_MARKED = Pattern(WS, opt(alt(";", ",")), WS, ahead("{"))


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """One object, several of them, or a list. `keyed`: the name is the object's only key."""

    keyed: bool = False

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        calls, source = _Calls(reading, self.keyed), reading.source
        # Between two marks only calls are expected; in the open, two objects may be anything.
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
    """What is known of the call in one object."""

    name: str = ""
    early: str | None = None
    """Arguments that came before the name."""
    refused: bool = False
    done: bool = False


class _Calls:
    def __init__(self, reading: Reading, keyed: bool) -> None:
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
        """One object. Raises `NotACall`, or gives a whole object back as text, if it is no call."""
        item, reading = _Item(), self._reading
        closed = yield from self._read_object(item)
        if item.done:
            return
        if reading.implicit or not closed:
            raise NotACall
        if item.name and not item.refused:
            reading.say(item.name, "{}")
        else:
            reading.give_up()
            self._source.keep()

    def _read_object(self, item: _Item) -> Step[bool]:
        """Reads the members; whether the object is closed."""
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
        elif role == "call" and letter == "{" and self._level < _DEEPEST:
            self._level += 1
            yield from self._read_object(item)
            self._level -= 1
        elif role == "calls" and letter == "[" and self._level < _DEEPEST:
            self._level += 1
            yield from self.read_list()
            self._level -= 1
            item.done = True
        elif role in ("arguments", "input"):
            yield from self._read_arguments(item, letter, named=role == "arguments")
        elif not self._reading.implicit:
            yield from self._skip()
        elif role != "aside" or not (yield from self._source.match(_ASIDE)):
            raise NotACall

    def _name(self, item: _Item, written: str) -> None:
        reading = self._reading
        name = reading.declared.meant(written, reading.trust)
        if name is None:
            if reading.implicit:
                raise NotACall
            item.refused = reading.hopeless = True
        else:
            item.name = name
            if item.early is not None:
                reading.say(name, item.early)
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
        """Raises `NotACall` unless what follows can only be arguments: not `...`, not a schema."""
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
        reader = JsonReader(self._source, _nowhere, JSON, self._reading.ends)
        yield from reader.value()


def _nowhere(_: str) -> None:
    pass
