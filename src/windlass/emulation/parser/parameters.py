"""Arguments that are written one by one, each with its name and without quotes."""

from collections.abc import Callable
from dataclasses import dataclass
from re import Match
from typing import Any, cast
from xml.sax.saxutils import unescape

import msgspec

from windlass.emulation.parser.arguments import strict_json
from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.escapes import json_string
from windlass.emulation.parser.pattern import Part, Pattern, alt
from windlass.emulation.parser.source import Step
from windlass.emulation.parser.values import Untyped, items_of, json_value, types_of

__all__ = ["ArgumentWriter", "NoArguments", "Parameters", "always"]

Closing = Callable[[str, str], Pattern]
"""What closes a value or a call, given the written names of the call and of the parameter."""

_WRAPPERS = frozenset(("input", "arguments", "parameters", "args", "kwargs"))


class ArgumentWriter:
    """Writes each argument as soon as it is complete. What comes again makes a list, or wins."""

    def __init__(
        self, reading: Reading, untyped: Untyped = "text", *, repeats: bool = False
    ) -> None:
        self._reading, self._repeats = reading, repeats
        self._untyped: Untyped = untyped
        self._schema = reading.declared.schema(reading.name)
        self._properties = reading.declared.properties(reading.name)
        self._lists: dict[str, list[tuple[str, str]]] = {}
        """Values of parameters that take a list, each as it stands alone and as an item."""
        self._between = "{"

    def add(self, key: str, text: str, untyped: Untyped | None = None) -> None:
        schema = self._properties.get(key)
        types = types_of(schema, self._schema)
        json = json_value(text, schema, self._schema, untyped or self._untyped)
        if "array" in types and not types & {"string", "object"} and not json.startswith("["):
            item = json_value(text.strip(), items_of(schema), self._schema)
            self._lists.setdefault(key, []).append((json, item))
        elif members := self._unwrapped(key, text):
            self._write(members)
        else:
            self.put(key, json)

    def put(self, key: str, json: str) -> None:
        self._write(f"{json_string(key)}:{json}")

    def finish(self) -> None:
        for key, values in self._lists.items():
            alone = len(values) == 1 and not self._repeats
            self.put(key, values[0][0] if alone else f"[{','.join(item for _, item in values)}]")
        self._reading.write("{}" if self._between == "{" else "}")

    def cut(self) -> None:
        """Not everything has come: what is there must not run."""
        if self._between == "{":
            self._reading.write("{")
        self._reading.spoil()

    def _write(self, json: str) -> None:
        self._reading.write(self._between + json)
        self._between = ","

    def _unwrapped(self, key: str, text: str) -> str | None:
        """The members of an object that holds all arguments under a name that nobody declared."""
        if key not in _WRAPPERS or key in self._properties or not self._properties:
            return None
        json = strict_json(text) if text.lstrip().startswith("{") else None
        try:
            members = msgspec.json.decode(json or "", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return None
        return (
            cast("str", json).strip()[1:-1] if self._properties.keys() >= members.keys() else None
        )


def always(*parts: Part | str) -> Closing:
    pattern = Pattern(alt(*parts))
    return lambda _name, _key: pattern


@dataclass(frozen=True, slots=True)
class NoArguments:
    """The marker is the whole call."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        reading.say(reading.meant(marker["name"]), "{}")
        yield from ()


@dataclass(frozen=True, slots=True)
class Parameters:
    key: Part
    """Opens a value; the group `key`, and `kind` if the tag says what the value is."""
    value_end: Closing
    """Closes the value of a key. What is only `ahead` stands where the closing tag is missing."""
    end: Closing
    """Closes the call of a name."""
    trim: bool = False
    """A newline at either side of a value is layout."""
    entities: bool = False
    strict: bool = False
    """A value without its closing tag cannot be read."""
    untyped: Untyped = "text"
    repeats: bool = False
    """A list is written by writing its parameter again and again, or once."""

    def read(self, reading: Reading, marker: Match[str]) -> Step[None]:
        name = reading.meant(marker["name"])
        edge = Pattern(alt(self.key, self.end(marker["name"], "").part))
        if reading.implicit:
            yield from self._confirm(reading, name, edge)
        reading.start(name)
        writer = ArgumentWriter(reading, self.untyped, repeats=self.repeats)
        if (yield from self._read_all(reading, marker["name"], writer, edge)):
            writer.finish()
        else:
            writer.cut()
        reading.end()

    def _confirm(self, reading: Reading, name: str, edge: Pattern) -> Step[None]:
        """Raises `NotACall` unless a parameter follows, or the end."""
        source, properties = reading.source, reading.declared.properties(name)
        yield from source.peek_past_space()
        if not (found := (yield from source.match(edge))):
            raise NotACall
        source.place = found.start()
        if found["key"] and properties and found["key"] not in properties:
            raise NotACall

    def _read_all(
        self, reading: Reading, name: str, writer: ArgumentWriter, edge: Pattern
    ) -> Step[bool]:
        """Reads all parameters; whether they are all there."""
        source = reading.source
        while True:
            between, found = yield from source.until(edge)
            if not found:
                rest = between.strip()
                end = self.end(name, "").prefix
                return not source.truncated and (not rest or bool(end.match(rest)))
            if not found["key"]:
                return True
            text, closed = yield from source.until(self.value_end(name, found["key"]))
            if not closed or (self.strict and not closed.group()):
                yield from source.until(edge)
                return False
            if self.trim:
                text = text.removeprefix("\n").removesuffix("\n")
            if self.entities:
                text = unescape(text, {"&quot;": '"', "&apos;": "'"})
            kind = found.groupdict().get("kind")
            untyped = None if kind is None else "text" if kind in ("true", "string") else "json"
            writer.add(found["key"], text, untyped)
