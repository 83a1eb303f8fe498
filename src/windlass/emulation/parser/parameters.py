"""Readers of calls with a tag for each parameter, and the conversion of text to JSON values.

`Parameters` reads the tags. The schema of a parameter decides the type of its value: `json_value`
converts the text to that type.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from re import Match
from typing import Any, Literal, cast

import msgspec

from windlass.content import Schema
from windlass.emulation.parser.call import CallReading, NotACall
from windlass.emulation.parser.json_calls import strict_json
from windlass.emulation.parser.json_text import json_string
from windlass.emulation.parser.pattern import WS, Pattern, PatternPart, ahead, alt, named
from windlass.emulation.parser.python_calls import NotPython, python_value
from windlass.emulation.parser.source import Step
from windlass.jsontext import compact_json

Untyped = Literal["text", "json"]
"""The type of a value without a schema."""

_KINDS = {
    "str": "string",
    "text": "string",
    "char": "string",
    "int": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "hashmap": "object",
    "list": "array",
    "tuple": "array",
    "arraylist": "array",
}
"""Type names that are not JSON Schema, but occur in declarations."""
_UNIONS = ("anyOf", "oneOf", "allOf")
_NULLS = frozenset(("null", "none", "nil"))
_BOOLEANS = frozenset(("true", "false"))
_CONTAINERS = {"{": "object", "[": "array", "(": "array"}
_TEXT = frozenset(("string",))
_ALL = frozenset(("null", "boolean", "integer", "number", "array", "object", "string"))
_MAX_DEPTH = 8
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"-?[0-9]+")
_OPENING = re.compile(r"\s*<([^\W\d][\w.-]*)>")


def types_of(schema: object, root: Schema, depth: int = 0) -> frozenset[str]:
    """Returns the JSON types that the schema allows; an empty set if it has no type."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return frozenset()
    schema = cast("Schema", schema)
    found: set[str] = set()
    kinds = schema.get("type")
    for kind in _listed(kinds) or [kinds]:
        if isinstance(kind, str):
            found.add(_KINDS.get(kind.lower(), kind.lower()))
    for union in _UNIONS:
        for member in _listed(schema.get(union)):
            found |= types_of(member, root, depth + 1)
    if isinstance(name := schema.get("$ref"), str):
        found |= types_of(_referred(name, root), root, depth + 1)
    if not found:
        found |= {_type_of(value) for value in _listed(schema.get("enum"))}
    return frozenset(found)


def _listed(value: object) -> list[object]:
    """Returns the list; an empty one if the value is not a list, as a schema may be wrong."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _referred(name: str, root: Schema) -> object:
    place = cast("object", root)
    for key in name.removeprefix("#/").split("/"):
        place = cast("Schema", place).get(key) if isinstance(place, dict) else None
    return place


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def properties_of(schema: object, root: Schema) -> Mapping[str, Any]:
    """Returns the properties of an object, also behind a reference."""
    if not isinstance(schema, dict):
        return {}
    schema = cast("Schema", schema)
    if isinstance(name := schema.get("$ref"), str):
        return properties_of(_referred(name, root), {})
    found = schema.get("properties")
    return cast("Schema", found) if isinstance(found, dict) else {}


def items_of(schema: object) -> object:
    return cast("Schema", schema).get("items") if isinstance(schema, dict) else None


def json_value(text: str, schema: object, root: Schema, untyped: Untyped = "text") -> str:
    """Returns the text as a JSON value of an allowed type; otherwise as a JSON string."""
    types = types_of(schema, root) or (_ALL if untyped == "json" else _TEXT)
    if types != _TEXT:
        bare = text.strip()
        if "null" in types and bare.lower() in _NULLS:
            return "null"
        if "boolean" in types and bare.lower() in _BOOLEANS:
            return bare.lower()
        if (json := _typed(bare, types)) or (json := from_tags(bare, schema, root, types)):
            return json
    return json_string(text)


def _typed(text: str, types: frozenset[str]) -> str | None:
    """Returns the text as a number, a list or an object, if the types allow it."""
    if _NUMBER.fullmatch(text):
        if "number" in types or ("integer" in types and _WHOLE.fullmatch(text)):
            return text
        if "integer" in types and (value := float(text)).is_integer():
            return str(int(value))
        return None
    return _container(text, types) if text[:1] in _CONTAINERS else None


def _container(text: str, types: frozenset[str]) -> str | None:
    """Returns the text as a list or an object: read as JSON, as Python, or as repaired JSON."""
    fits = _CONTAINERS[text[0]] in types
    if fits and _is_json(text):
        return text
    try:
        value = python_value(text)
    except NotPython:
        return (strict_json(text) or _unescaped(text)) if fits else None
    return compact_json(value) if _type_of(value) in types else None


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _unescaped(text: str) -> str | None:
    """Returns the JSON in a text that was escaped twice: `[{\\"id\\": 1}]`."""
    if '\\"' not in text:
        return None
    try:
        return strict_json(msgspec.json.decode(f'"{text}"', type=str))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def from_tags(
    text: str, schema: object, root: Schema, types: frozenset[str], depth: int = 0
) -> str | None:
    """Returns the object or list whose members are tags; None for any other text."""
    if depth > _MAX_DEPTH or "string" in types or not types & {"object", "array"}:
        return None
    members: list[tuple[str, str]] = []
    place = 0
    while opening := _OPENING.match(text, place):
        closing = re.compile(rf"</\s*{re.escape(opening[1])}\s*>").search(text, opening.end())
        if not closing:
            return None
        members.append((opening[1], text[opening.end() : closing.start()]))
        place = closing.end()
    if not members or text[place:].strip():
        return None
    if "object" not in types:
        return _joined(members, items_of(schema), root)
    properties = properties_of(schema, root)
    values: dict[str, list[str]] = {}
    for key, value in members:
        values.setdefault(key, []).append(json_value(value, properties.get(key), root))
    return "{" + ",".join(_member(key, found) for key, found in values.items()) + "}"


def _joined(members: list[tuple[str, str]], schema: object, root: Schema) -> str:
    return "[" + ",".join(json_value(value, schema, root) for _, value in members) + "]"


def _member(key: str, found: list[str]) -> str:
    return f"{json_string(key)}:" + (found[0] if len(found) == 1 else f"[{','.join(found)}]")


Ending = Literal["closed", "end of call", "cut"]

_SHORT = frozenset(("integer", "number", "boolean", "null"))
"""Types whose values contain no tags."""
_NAMES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));")
_CDATA_END = Pattern("]]>")
_TAG = Pattern("<")
_NOTHING = PatternPart("(?!)", "(?!)", final=True, reach=1)
_LATER_CHARS = 4_000
"""How far to look for another end of a call, which shows that the first one may be text."""
_CLOSING_BEGUN = re.compile(r"<(?:/\s*([\w.-]*)\s*)?")
_WRAPPERS = frozenset(("input", "arguments", "parameters", "args", "kwargs"))


class ArgumentWriter:
    """Writes each argument when it is complete. A repeated one extends a list, or replaces."""

    def __init__(
        self, reading: CallReading, untyped: Untyped = "text", *, repeats: bool = False
    ) -> None:
        self._reading, self._repeats = reading, repeats
        self._untyped: Untyped = untyped
        self._schema = reading.declared.schema(reading.name)
        self._properties = reading.declared.properties(reading.name)
        self._lists: dict[str, list[tuple[str, str]]] = {}
        """The values of list parameters: each as the whole list, and as one item."""
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
        """Ends incomplete arguments, so that the call cannot run."""
        if self._between == "{":
            self._reading.write("{")
        self._reading.invalidate()

    def _write(self, json: str) -> None:
        self._reading.write(self._between + json)
        self._between = ","

    def _unwrapped(self, key: str, text: str) -> str | None:
        """Returns the members of an object with all arguments under an undeclared name."""
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


@dataclass(frozen=True, slots=True)
class NoArguments:
    """A call without arguments: the marker is the whole call."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        reading.add(reading.resolve(marker["name"]), "{}")
        yield from ()


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Reads a call with a tag for each parameter."""

    key: PatternPart
    """Opens a value. It has the group `key`, and `kind` if the tag names the value's type."""
    value_end: PatternPart
    """Closes a value. A named tag has the group `closed`, which must equal the key."""
    end: PatternPart | None = None
    """Closes the call. None means a closing tag with the call's name."""
    stops: tuple[PatternPart | str, ...] = ()
    """What may follow a call. A call without a closing tag ends before one of them."""
    nested: PatternPart | None = None
    """Opens a call inside a value: the text up to that call's end belongs to the value."""
    trim: bool = False
    """Whether to remove one newline at each side of a value."""
    references: bool = False
    """Whether to decode `&lt;`, `&#10;` and similar references."""
    cdata: bool = False
    """Whether `<![CDATA[...]]>` contains literal text."""
    untyped: Untyped = "text"
    repeats: bool = False
    """Whether a repeated parameter makes a list."""

    def read(self, reading: CallReading, marker: Match[str]) -> Step[None]:
        name, tags = reading.resolve(marker["name"]), _tags(self)
        if reading.implicit:
            yield from self._confirm(reading, name, marker["name"])
        reading.start(name)
        writer = ArgumentWriter(reading, self.untyped, repeats=self.repeats)
        if (yield from self._read_all(reading, writer, tags, marker["name"])):
            writer.finish()
        else:
            writer.cut()
        reading.end()

    def _confirm(self, reading: CallReading, name: str, written: str) -> Step[None]:
        """Raises `NotACall` unless a parameter or the end follows."""
        properties = reading.declared.properties(name)
        found = yield from reading.source.after_space(_tags(self).edge)
        if not found or found == "end":
            raise NotACall
        key, closed = found["key"], _closed(found)
        if (closed and closed != written) or (key and properties and key not in properties):
            raise NotACall

    def _read_all(
        self, reading: CallReading, writer: ArgumentWriter, tags: "_Tags", name: str
    ) -> Step[bool]:
        """Reads all parameters, and returns whether the call is complete."""
        source, given = reading.source, set[str]()
        found: Match[str] | None = None
        # Whether a closing tag was missing, and whether there are tags inside or after a value.
        added = surplus = False
        while True:
            if not found:
                between, found = yield from source.until(tags.edge)
                surplus = surplus or (
                    not tags.own and tags.value_end.full.search(between) is not None
                )
                if not found and (source.truncated or not tags.may_end(between.strip(), name)):
                    return False
            if added and surplus:  # the text of a value may contain the key before which one lacks
                return False
            if not found:
                return True
            if not (key := found["key"]):
                if (closed := _closed(found)) is None or closed == name:
                    return True
                found = None
                continue
            repeated = key in given
            given.add(key)
            value = _Value(self, tags, name, key, given, reading)
            ending, following = yield from value.read()
            if ending == "cut" or (repeated and not (self.repeats or value.is_list)):
                yield from source.until(tags.edge)
                return False
            kind = found.groupdict().get("kind")
            untyped = None if kind is None else "text" if kind in ("true", "string") else "json"
            writer.add(key, value.text(), untyped)
            added, surplus = added or following is not None, surplus or value.has_tags
            if ending == "end of call":
                return not (added and surplus)
            found = following


def _closed(found: Match[str]) -> str | None:
    """Returns the name in a closing tag; None if it has no name."""
    return found.groupdict().get("closed")


@dataclass(frozen=True, slots=True)
class _Tags:
    """Patterns for the tags of one format."""

    edge: Pattern
    """The tags between values."""
    inside: Pattern
    """The tags that matter inside a value."""
    value_end: Pattern
    after_value: Pattern
    after_call: Pattern
    later_end: Pattern
    """A later end of a value and a call, in the group `later`, or the start of another call."""
    end: Pattern | None
    own: bool
    """Whether the tag that closes a value has the value's name."""

    def may_end(self, rest: str, name: str) -> bool:
        """Whether the call at the end of the text lacks only its closing tag or a part of it."""
        if self.end:
            return not rest or self.end.prefix.match(rest) is not None
        begun = _CLOSING_BEGUN.fullmatch(rest)
        return not rest or (begun is not None and name.startswith(begun[1] or ""))


@lru_cache(maxsize=256)
def _tags(parameters: Parameters) -> _Tags:
    end = parameters.end or parameters.value_end
    inside = [named("close", parameters.value_end), parameters.key]
    if parameters.end:
        inside.insert(0, named("end", parameters.end))
    if parameters.nested:
        inside.insert(0, named("nested", parameters.nested))
    if parameters.cdata:
        inside.append(named("cdata", "<![CDATA["))
    stops = parameters.stops
    later = named("later", parameters.value_end, WS, end)
    openings = (parameters.nested,) if parameters.nested else filter(_is_opening, stops)
    return _Tags(
        Pattern(alt(parameters.key, end, *map(ahead, stops))),
        Pattern(alt(*inside)),
        Pattern(parameters.value_end),
        Pattern(alt(parameters.key, end, *stops)),
        Pattern(alt(*stops) if stops else _NOTHING),
        Pattern(alt(later, *openings) if parameters.end else _NOTHING),
        Pattern(parameters.end) if parameters.end else None,
        "(?P<closed>" in parameters.value_end.full,
    )


def _is_opening(stop: PatternPart | str) -> bool:
    firsts = (stop,) if isinstance(stop, str) else stop.firsts
    return not any("/" in first for first in firsts)


class _Value:
    """Reads one value, up to its closing tag.

    A value may contain anything, also tags like those around it. Its closing tag is outside of the
    calls and values that the value itself contains, and is followed by another value, the end of
    the call or the end of the text.
    """

    def __init__(
        self,
        parameters: Parameters,
        tags: _Tags,
        name: str,
        key: str,
        given: set[str],
        reading: CallReading,
    ) -> None:
        self._parameters, self._tags, self._name, self._key = parameters, tags, name, key
        self._source, self._given = reading.source, given
        self._properties = reading.declared.properties(reading.name)
        types = types_of(self._properties.get(key), reading.declared.schema(reading.name))
        self._short = bool(types) and types <= _SHORT
        self.is_list = "array" in types and "string" not in types
        self._pieces: list[tuple[str, bool]] = []
        """The pieces of the text, and whether each is literal."""
        self._calls = self._values = 0
        """The number of open calls and values inside the value."""
        self.has_tags = False
        """Whether the value contains tags like those around it."""
        self._doubtful = False
        """Whether the value may end in two places."""

    def text(self) -> str:
        pieces = self._pieces
        if any(literal for _, literal in pieces):
            around = "".join(text for text, literal in pieces if not literal)
            pieces = pieces if around.strip() else [each for each in pieces if each[1]]
        elif self._parameters.trim:
            pieces = [(_trimmed("".join(text for text, _ in pieces)), False)]
        if self._parameters.references:
            return "".join(text if literal else _resolved(text) for text, literal in pieces)
        return "".join(text for text, _ in pieces)

    def read(self) -> Step[tuple[Ending, Match[str] | None]]:
        """Returns how the value ends, and the opening of the next value if it was read."""
        source = self._source
        while True:
            before, found = yield from source.until(self._tags.inside)
            self._pieces.append((before, False))
            if not found:
                return "cut", None
            groups = found.groupdict()
            if groups.get("cdata"):
                text, closed = yield from source.until(_CDATA_END)
                self._pieces.append((text, True))
                if not closed:
                    return "cut", None
                continue
            if groups["key"]:
                if self._lacks_end(groups["key"]):
                    return "closed", found
                yield from self._open(groups["key"])
            elif groups.get("nested"):
                self._calls += 1
            elif groups.get("end") or groups.get("closed") == self._name != self._key:
                if (ending := (yield from self._end_call())) is not None:
                    return ending, None
            elif groups.get("closed", self._key) == self._key and (yield from self._closes()):
                return ("cut" if self._doubtful else "closed"), None
            self._pieces.append((found.group(), False))
            self.has_tags = True

    def _lacks_end(self, key: str) -> bool:
        """Whether the key inside the value starts the next value, as a closing tag is missing."""
        if self._calls or self._values or self._tags.own:
            return False
        before = self._pieces[-1][0]
        alone = not before or before.endswith("\n")
        if self._properties:
            # In the middle of a line, a text mentions the key.
            in_line = alone or not (self._pieces[0][0].startswith("\n") or before[-1].isspace())
            return in_line and key in self._properties and key not in self._given
        return alone

    def _open(self, key: str) -> Step[None]:
        """Counts a tag inside the value that opens a value or a call."""
        if not self._tags.own or key == self._key:
            self._values += 1
        elif key == self._name and (yield from self._source.after_space(_TAG)) not in (None, "end"):
            self._calls += 1

    def _end_call(self) -> Step["Ending | None"]:
        """Returns how the value ends at the end of a call; None if that call is inside it."""
        if self._calls:
            self._calls -= 1
            return None
        if self._tags.own:
            return "cut"
        follows = yield from self._source.after_space(self._tags.after_call)
        if not follows or (yield from self._ends_later()):
            return None
        return "end of call"

    def _closes(self) -> Step[bool]:
        """Whether the closing tag closes this value."""
        if self._calls:
            return False
        if self._short:
            return True
        follows = yield from self._source.after_space(self._tags.after_value)
        if follows == "end":
            return True
        if follows and self._may_follow(follows):
            if self._tags.own or follows["key"] or not (yield from self._ends_later()):
                return True
            # The value contains the end of a call, or text after the call does.
            if not self._values:
                self._doubtful = True
                return True
        self._values = max(0, self._values - 1)
        return False

    def _ends_later(self) -> Step[bool]:
        """Whether the text up to the next call has one more end of a value and a call."""
        found = yield from self._source.look_for(self._tags.later_end, _LATER_CHARS)
        return found is not None and found["later"] is not None

    def _may_follow(self, tag: Match[str]) -> bool:
        """Whether the tag after a closing tag shows that the value ends there."""
        if not (key := tag["key"]):
            twice = _closed(tag) == self._key and self.is_list and not self._values
            return twice or _closed(tag) in (None, self._name)
        known = key in self._properties
        if known and key not in self._given:
            return True
        if self._tags.own and self._properties and not known:
            return False
        return not self._values


def _trimmed(text: str) -> str:
    """Removes one newline at each side."""
    text = (
        text.removeprefix("\r").removeprefix("\n")
        if text[:2] == "\r\n"
        else text.removeprefix("\n")
    )
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def _resolved(text: str) -> str:
    return _REFERENCE.sub(_character, text)


def _character(reference: Match[str]) -> str:
    """Returns the character of the reference; the reference itself if it is invalid."""
    decimal, hexadecimal, name = reference.groups()
    if name:
        return _NAMES[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    valid = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if valid else reference.group()
