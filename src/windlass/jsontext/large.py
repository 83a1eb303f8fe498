"""Large JSON, read and written in short steps. Pure.

One call of the C decoder or encoder on 32 MB holds the interpreter for up to two seconds, whichever
thread it runs in. Here a pass over the tokens finds pieces that are small enough for one call each,
and other threads can run between the calls.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

__all__ = [
    "STEP",
    "JsonNode",
    "TooDeep",
    "TooManyValues",
    "encoded_large",
    "is_larger",
    "outline",
    "text_slices",
    "with_whole_pairs",
]

STEP = 2**17
"""Bytes or characters for one call into C: a few milliseconds for any content."""
_NODE_WEIGHT = 16

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(")?|[\[\]{}:,]', re.DOTALL)
_INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_ESCAPES = re.compile(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_QUOTE, _COLON, _COMMA, _OPENINGS = ord('"'), ord(":"), ord(","), b"[{"
_PAIRS = {ord("]"): ord("["), ord("}"): ord("{")}
_SPACE = b" \t\r\n"

_SURROGATES = re.compile(
    rb"(?<!\\)(?:\\\\)*+(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|"
    rb"\\u[dD]([89a-fA-F][0-9a-fA-F]{2}))"
)
T = TypeVar("T")
_any = msgspec.json.Decoder()
_str = msgspec.json.Decoder(str)


def with_whole_pairs(data: bytes) -> bytes:
    """The JSON text with U+FFFD for each escaped half of a surrogate pair, and the same length.

    Some writers cut a text between the halves of a character.
    """

    def mended(found: re.Match[bytes]) -> bytes:
        return found[0] if found[1] is None else found[0][:-4] + b"fffd"

    return _SURROGATES.sub(mended, data)


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        if (mended := with_whole_pairs(data)) == data:
            raise
        return decoder.decode(mended)


def _decode(data: bytes) -> Any:
    return _decoded(_any, data)


def _decode_text(data: bytes) -> str:
    return _decoded(_str, data)


class TooDeep(ValueError):
    """Lists and objects are nested too deeply, in the named field of the object."""

    def __init__(self, field: str | None) -> None:
        super().__init__("nested too deeply")
        self.field = field


class TooManyValues(ValueError):
    """There are too many values; the count ended in the named field of the object."""

    def __init__(self, field: str | None) -> None:
        super().__init__("too many values")
        self.field = field


class _Item(NamedTuple):
    """An item of a list or a member of an object."""

    start: int
    end: int
    colon: int
    """Where the member's colon is; -1 if there is none."""
    large: "JsonNode | None"
    """The value, if it is too large for one call."""


class JsonNode:
    """One value of a JSON text, not decoded yet."""

    __slots__ = ("_colon", "_data", "_item_start", "_items", "_large", "end", "kind", "start")

    def __init__(self, data: bytes, start: int, end: int = 0, kind: int = 0) -> None:
        self._data, self.start, self.end, self.kind = data, start, end, kind
        self._items: list[_Item] = []
        self._item_start, self._colon = start + 1, -1
        self._large: JsonNode | None = None

    @property
    def raw(self) -> bytes:
        return self._data[self.start : self.end].strip(_SPACE)

    def value(self) -> Any:
        """The decoded value. Raises `ValueError`, `msgspec.DecodeError` or `RecursionError`."""
        match chr(self.kind):
            case "[":
                return self._list()
            case "{":
                return self._object()
            case '"':
                return _text(self._data, self.start, self.end)
            case _:
                return _decode(self.raw)

    def fields(self) -> "dict[str, JsonNode] | None":
        """An object's members by name; None for another value. Raises as `value` does."""
        if self.kind != ord("{"):
            return None
        fields: dict[str, JsonNode] = {}
        for item in self._full_items():
            name, value = self._member(item)
            fields[name] = value
        return fields

    # Called by the pass over the tokens.

    def begin_value(self, large: "JsonNode") -> None:
        self._large = large

    def pass_colon(self, place: int) -> None:
        if self._colon < 0:
            self._colon, self._large = place, None

    def end_item(self, place: int) -> None:
        self._items.append(_Item(self._item_start, place, self._colon, self._large))
        self._item_start, self._colon, self._large = place + 1, -1, None

    def current_name(self) -> str | None:
        """The name of the member that is being read, if it can be read."""
        try:
            return _text(self._data, self._item_start, self._colon) if self._colon >= 0 else None
        except (ValueError, msgspec.DecodeError):
            return None

    # Decoding.

    def only_item(self) -> "JsonNode":
        """The one value that there is outside of brackets."""
        if len(self._items) != 1 or self._items[0].colon >= 0:
            raise ValueError("expected one value")
        if (large := self._items[0].large) is None:
            return JsonNode(self._data, 0, len(self._data))
        self._check_alone(large, 0, len(self._data))
        return large

    def _full_items(self) -> list[_Item]:
        """The items; none where there is only space between the brackets."""
        items = self._items
        if len(items) == 1 and not self._data[items[0].start : items[0].end].strip(_SPACE):
            return []
        return items

    def _list(self) -> list[Any]:
        values: list[Any] = []
        for run in _runs(self._full_items()):
            if (large := run[0].large) is not None:
                self._check_alone(large, run[0].start, run[0].end)
                values.append(large.value())
                continue
            some = cast("list[Any]", _decode(b"[%b]" % self._between(run)))
            if len(some) != len(run):
                raise ValueError("expected a value beside a comma")
            values += some
        return values

    def _object(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for run in _runs(self._full_items()):
            if any(item.colon < 0 for item in run):
                raise ValueError("expected a name and a colon in an object")
            if run[0].large is not None:
                name, value = self._member(run[0])
                values[name] = value.value()
            else:
                values |= cast("dict[str, Any]", _decode(b"{%b}" % self._between(run)))
        return values

    def _member(self, item: _Item) -> "tuple[str, JsonNode]":
        if item.colon < 0:
            raise ValueError("expected a name and a colon in an object")
        name = _text(self._data, item.start, item.colon)
        if item.large is None:
            return name, JsonNode(self._data, item.colon + 1, item.end)
        self._check_alone(item.large, item.colon + 1, item.end)
        return name, item.large

    def _between(self, run: list[_Item]) -> bytes:
        return self._data[run[0].start : run[-1].end].strip(_SPACE)

    def _check_alone(self, value: "JsonNode", start: int, end: int) -> None:
        """Raises `ValueError` if anything but space is beside the value."""
        before, after = self._data[start : value.start], self._data[value.end : end]
        if before.strip(_SPACE) or after.strip(_SPACE):
            raise ValueError("expected a comma between two values")


def outline(data: bytes, *, max_depth: int, max_values: int, step: int = STEP) -> JsonNode:
    """The value in the text, with its parts of more than `step` bytes found.

    The levels inside an object's members are counted, without the object itself. Raises `TooDeep`
    or `TooManyValues` as soon as there are more than allowed, and `ValueError` for a text whose
    strings or brackets do not end; other mistakes are found when the value is decoded.
    """
    top = JsonNode(data, -1, len(data))
    stack, values = [top], 0
    for place, letter, end in _tokens(data):
        node = stack[-1]
        if letter == _COLON:
            node.pass_colon(place)
        elif letter == _COMMA:
            node.end_item(place)
            values += 1
        elif letter == _QUOTE:
            node.begin_value(JsonNode(data, place, end, _QUOTE))
        elif letter in _OPENINGS:
            if len(stack) - 1 > max_depth:
                raise TooDeep(stack[1].current_name())
            stack.append(JsonNode(data, place, kind=letter))
            values += 1
        else:
            if _PAIRS[letter] != node.kind:
                raise ValueError(f"unexpected {chr(letter)!r} (byte {place})")
            node.end_item(place)
            node.end = end
            stack.pop()
            if end - node.start > step:
                stack[-1].begin_value(node)
        if values > max_values:
            raise TooManyValues(stack[1].current_name() if len(stack) > 1 else None)
    if len(stack) > 1:
        raise ValueError("the text ends inside a list or an object")
    top.end_item(len(data))
    return top.only_item()


def _tokens(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Brackets, commas, colons, and strings of more than a step: place, first byte and end."""
    place, size = 0, len(data)
    while place < size:
        window = min(size, place + STEP)
        following = window
        for found in _TOKEN.finditer(data, place, window):
            start = found.start()
            if data[start] != _QUOTE:
                yield start, data[start], found.end()
            elif found[1] is None:
                if start > place:
                    following = start
                    break
                following = _string_end(data, start)
                if following - start > STEP:
                    yield start, _QUOTE, following
                break
        place = following


def _string_end(data: bytes, start: int) -> int:
    """Where the string that begins at `start` ends. Raises `ValueError` if it does not."""
    place = start + 1
    while place < len(data):
        found = _INSIDE.match(data, place, place + STEP)
        assert found  # it matches nothing at all, too
        if data[found.end() : found.end() + 1] == b'"':
            return found.end() + 1
        if found.end() == place:
            break
        place = found.end()
    raise ValueError("the text ends inside a string")


def _runs(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Neighbours that one call can decode together; a large one is alone."""
    run: list[_Item] = []
    for item in items:
        if run and (item.large or item.end - run[0].start > STEP):
            yield run
            run = []
        run.append(item)
        if item.large:
            yield run
            run = []
    if run:
        yield run


def _text(data: bytes, start: int, end: int) -> str:
    """The string between two places, and nothing but space around it."""
    if end - start <= STEP:
        return _decode_text(data[start:end])
    raw = memoryview(data)
    while data[start] in _SPACE:
        start += 1
    while data[end - 1] in _SPACE:
        end -= 1
    if end - start <= STEP:
        return _decode_text(data[start:end])
    if data[start] != _QUOTE or data[end - 1] != _QUOTE:
        raise ValueError("expected a string")
    text, place, end = "", start + 1, end - 1
    while place < end:
        cut = _cut(data, place, end)
        # Extended in place: a join of all pieces at the end would be one long call.
        text += _decode_text(b'"%b"' % raw[place:cut])
        place = cut
    return text


def _cut(data: bytes, place: int, end: int) -> int:
    """Where the next piece of a string may end: not inside a character or an escape."""
    if end - place <= STEP:
        return end
    found = _WHOLE_ESCAPES.match(data, place, place + STEP)
    cut = found.end() if found else place
    if cut - place < STEP // 2:
        raise ValueError("invalid escape in a string")
    for _ in range(3):
        if data[cut] & 0xC0 == 0x80:
            cut -= 1
    if _HIGH_SURROGATE.match(data, cut - 6, cut):
        before = data[place : cut - 5]
        if (len(before) - len(before.rstrip(b"\\"))) % 2:
            cut -= 6
    return cut


# Writing.


def encoded_large(value: object) -> list[bytes]:
    """The value as JSON, in pieces that belong together: `b"".join` lets other threads run.

    Texts, lists and objects are written in steps; what else there is in one call. Raises
    `UnicodeEncodeError` for half of a surrogate pair, and `TypeError`.
    """
    pieces: list[bytes] = []
    _encode_into(pieces, value)
    return pieces


def _encode_into(pieces: list[bytes], value: object) -> None:
    if isinstance(value, str) and len(value) > STEP:
        pieces.append(b'"')
        pieces += [msgspec.json.encode(each)[1:-1] for each in text_slices(value)]
        pieces.append(b'"')
    elif not (isinstance(value, dict | list | tuple) and is_larger(cast("object", value), STEP)):
        pieces.append(msgspec.json.encode(value, enc_hook=str))
    elif isinstance(value, dict):
        separator = b"{"
        for key, item in cast("dict[Any, Any]", value).items():
            name = key if isinstance(key, str) else str(key)
            pieces += (separator, msgspec.json.encode(name), b":")
            _encode_into(pieces, item)
            separator = b","
        pieces.append(b"}")
    else:
        separator = b"["
        for item in cast("list[Any]", value):
            pieces.append(separator)
            _encode_into(pieces, item)
            separator = b","
        pieces.append(b"]")


def text_slices(text: str, size: int = STEP) -> Iterator[str]:
    for place in range(0, len(text), size):
        yield text[place : place + size]


def is_larger(value: object, size: int) -> bool:
    """Whether the value has more than about `size` characters as JSON; stops counting there."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        size -= _NODE_WEIGHT
        if isinstance(each, str | bytes):
            size -= len(each)
        elif isinstance(each, dict):
            fields = cast("dict[Any, Any]", each)
            size -= _NODE_WEIGHT * len(fields)
            if size >= 0:
                waiting += fields.values()
        elif isinstance(each, list | tuple):
            items = cast("list[Any]", each)
            size -= _NODE_WEIGHT * len(items)
            if size >= 0:
                waiting += items
        if size < 0:
            return True
    return False
