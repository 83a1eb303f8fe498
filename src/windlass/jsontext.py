"""JSON: tolerant decoding and encoding, large JSON in short steps, and work off the event loop.

One call of the C decoder or encoder on 32 MB blocks the interpreter for up to two seconds, in
whichever thread it runs. `outline` and `encoded_large` therefore work in pieces that take a short
call each, so that other threads can run between the calls.
"""

import asyncio
import base64
import contextvars
import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import msgspec

from windlass.threads import DaemonThreads

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def decode_json(data: bytes) -> Any:
    """Returns the JSON value in `data`, and accepts some invalid JSON.

    Some services send NaN, or half of a surrogate pair because they split a character between two
    deltas. Half a pair becomes U+FFFD. Raises `ValueError` for other invalid JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _with_repaired_text(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode_json(value: object) -> bytes:
    """Returns the value as JSON; other types become their `str`.

    Half of a surrogate pair, which may come from a file name, becomes U+FFFD.
    """
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_with_repaired_text(msgspec.to_builtins(value, enc_hook=str)))


def compact_json(value: object) -> str:
    """Returns the value as JSON text without spaces."""
    return encode_json(value).decode()


def _with_repaired_text(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list() | tuple():
            return [_with_repaired_text(item) for item in cast("list[Any]", value)]
        case dict():
            fields = cast("dict[str, Any]", value)
            return {
                _with_repaired_text(key): _with_repaired_text(item) for key, item in fields.items()
            }
        case _:
            return value


STEP = 2**17
"""Bytes or characters for one call into C, which then takes a few milliseconds."""
_NODE_WEIGHT = 16
_STRINGS_PER_VALUE = 2
"""A member of an object has a name and a value."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(")?|[\[\]{}:,]', re.DOTALL)
_INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_ESCAPES = re.compile(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_QUOTE, _COLON, _COMMA, _OPENINGS = ord('"'), ord(":"), ord(","), b"[{"
_PAIRS = {ord("]"): ord("["), ord("}"): ord("{")}
_SPACE = b" \t\r\n"

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH_ALONE = re.compile(_HIGH + b"(?!" + _LOW + b")")
_LOW_ALONE = re.compile(b"(?<!" + _HIGH + b")" + _LOW)
_any = msgspec.json.Decoder()
_str = msgspec.json.Decoder(str)


def with_whole_pairs(data: bytes) -> bytes:
    """Replaces each escaped half of a surrogate pair with U+FFFD; the length stays the same.

    Some services split a text between the halves of a character.
    """

    if b"\\u" not in data or b"\0" in data:
        return data
    # JSON has no raw control characters, so two of them can replace an escaped backslash. Each
    # remaining backslash then starts an escape.
    marked = data.replace(rb"\\", b"\0\1")
    marked = _LOW_ALONE.sub(rb"\\ufffd", _HIGH_ALONE.sub(rb"\\ufffd", marked))
    return marked.replace(b"\0\1", rb"\\")


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        if (repaired := with_whole_pairs(data)) == data:
            raise
        return decoder.decode(repaired)


def _decode(data: bytes) -> Any:
    return _decoded(_any, data)


def _decode_text(data: bytes) -> str:
    return _decoded(_str, data)


class TooDeep(ValueError):
    """Lists and objects are nested too deeply. `field` is the top-level field, if known."""

    def __init__(self, field: str | None) -> None:
        super().__init__("nested too deeply")
        self.field = field


class TooManyValues(ValueError):
    """There are too many values. `field` is the top-level field where the limit was reached."""

    def __init__(self, field: str | None) -> None:
        super().__init__("too many values")
        self.field = field


class JsonNode:
    """One value of a JSON text that is not decoded yet. A large list or object has an index."""

    __slots__ = ("_colon", "_colons", "_data", "_ends", "_large", "_larges", "end", "kind", "start")

    def __init__(self, data: bytes, start: int, end: int = 0, kind: int = 0) -> None:
        self._data, self.start, self.end, self.kind = data, start, end, kind
        # Plain numbers instead of an object for each item, which the garbage collector would visit.
        self._ends: list[int] = []
        self._colons: list[int] = []
        """The place of each member's colon; -1 without a colon."""
        self._larges: dict[int, JsonNode] = {}
        """The values that are too large for one call, by item number."""
        self._colon, self._large = -1, None

    @property
    def raw(self) -> bytes:
        start, end = _trimmed(self._data, self.start, self.end)
        return self._data[start:end]

    def value(self) -> Any:
        """Decodes the value. Raises `ValueError`, `msgspec.DecodeError` or `RecursionError`."""
        match chr(self.kind):
            case "[":
                return self._list()
            case "{":
                return self._object()
            case '"':
                return _text(self._data, self.start, self.end)
            case _:
                return _decode(_short(self._data, self.start, self.end))

    def fields(self) -> "dict[str, JsonNode] | None":
        """Returns an object's members by name; None for another value. Raises like `value`."""
        if self.kind != ord("{"):
            return None
        return dict(self._member(number) for number in range(self._count()))

    # `outline` calls these methods while it reads the tokens.

    def begin_value(self, large: "JsonNode") -> None:
        self._large = large

    def pass_colon(self, place: int) -> None:
        if self._colon < 0:
            self._colon, self._large = place, None

    def end_item(self, place: int) -> None:
        if self._large is not None:
            self._larges[len(self._ends)] = self._large
        self._ends.append(place)
        self._colons.append(self._colon)
        self._colon, self._large = -1, None

    def current_name(self) -> str | None:
        """Returns the name of the current member; None if it cannot be decoded."""
        try:
            start = self._start(len(self._ends))
            return _text(self._data, start, self._colon) if self._colon >= 0 else None
        except (ValueError, msgspec.DecodeError):
            return None

    def only_item(self) -> "JsonNode":
        """Returns the one value at the top level."""
        if len(self._ends) != 1 or self._colons[0] >= 0:
            raise ValueError("expected one value")
        if (large := self._larges.get(0)) is None:
            return JsonNode(self._data, 0, len(self._data))
        self._check_alone(large, 0, len(self._data))
        return large

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + 1 if number else self.start + 1

    def _count(self) -> int:
        """Returns the number of items; 0 if there is only space between the brackets."""
        if len(self._ends) == 1 and not self._larges:
            start, end = _trimmed(self._data, self._start(0), self._ends[0])
            return int(start < end)
        return len(self._ends)

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yields ranges of items that one call can decode; a large item is alone."""
        first, count = 0, self._count()
        for number in range(count):
            is_large = number in self._larges
            if first < number and (is_large or self._ends[number] - self._start(first) > STEP):
                yield first, number
                first = number
            if is_large:
                yield number, number + 1
                first = number + 1
        if first < count:
            yield first, count

    def _list(self) -> list[Any]:
        values: list[Any] = []
        for first, after in self._runs():
            if (large := self._larges.get(first)) is not None:
                self._check_alone(large, self._start(first), self._ends[first])
                values.append(large.value())
                continue
            some = cast("list[Any]", _decode(b"[%b]" % self._between(first, after)))
            if len(some) != after - first:
                raise ValueError("expected a value after a comma")
            values += some
        return values

    def _object(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for first, after in self._runs():
            if min(self._colons[first:after]) < 0:
                raise ValueError("expected a name and a colon in an object")
            if first in self._larges or self._ends[after - 1] - self._start(first) > STEP:
                name, value = self._member(first)  # the name may also be long
                values[name] = value.value()
            else:
                values |= cast("dict[str, Any]", _decode(b"{%b}" % self._between(first, after)))
        return values

    def _member(self, number: int) -> "tuple[str, JsonNode]":
        colon, end = self._colons[number], self._ends[number]
        if colon < 0:
            raise ValueError("expected a name and a colon in an object")
        name = _text(self._data, self._start(number), colon)
        if (large := self._larges.get(number)) is None:
            return name, JsonNode(self._data, colon + 1, end)
        self._check_alone(large, colon + 1, end)
        return name, large

    def _between(self, first: int, after: int) -> bytes:
        return _short(self._data, self._start(first), self._ends[after - 1])

    def _check_alone(self, value: "JsonNode", start: int, end: int) -> None:
        """Raises `ValueError` if there is more than space around the value."""
        if _trimmed(self._data, start, end) != (value.start, value.end):
            raise ValueError("expected a comma between two values")


def _trimmed(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Returns the range without the space at both ends."""
    while start < end and data[start] in _SPACE:
        piece = data[start : min(start + STEP, end)]
        start += len(piece) - len(piece.lstrip(_SPACE))
    while start < end and data[end - 1] in _SPACE:
        piece = data[max(start, end - STEP) : end]
        end -= len(piece) - len(piece.rstrip(_SPACE))
    return start, end


def _short(data: bytes, start: int, end: int) -> bytes:
    """Returns the text between two places. Raises `ValueError` if it is too long for one call."""
    start, end = _trimmed(data, start, end)
    if end - start > 2 * STEP:
        raise ValueError("a number or a word is too long")
    return data[start:end]


def outline(data: bytes, *, max_depth: int, max_values: int, step: int = STEP) -> JsonNode:
    """Returns the value in the text, with an index of its parts of more than `step` bytes.

    The depth counts the levels inside an object's members, without the object itself. Raises
    `TooDeep` or `TooManyValues` when a limit is exceeded, and `ValueError` for unclosed strings or
    brackets. Other errors are found when the value is decoded.
    """
    top = JsonNode(data, -1, len(data))
    stack, values = [top], 0
    for place, letter, end in _tokens(data, _STRINGS_PER_VALUE * max_values):
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


def _tokens(data: bytes, max_strings: int) -> Iterator[tuple[int, int, int]]:
    """Yields place, first byte and end of brackets, commas, colons and long strings."""
    place, size, strings = 0, len(data), 0
    while place < size:
        window = min(size, place + STEP)
        following = window
        for found in _TOKEN.finditer(data, place, window):
            start = found.start()
            if data[start] != _QUOTE:
                yield start, data[start], found.end()
                continue
            strings += 1
            if strings > max_strings:
                raise TooManyValues(None)
            if found[1] is None:
                if start > place:
                    following = start
                    break
                following = _string_end(data, start)
                if following - start > STEP:
                    yield start, _QUOTE, following
                break
        place = following


def _string_end(data: bytes, start: int) -> int:
    """Returns the end of the string that starts at `start`. Raises `ValueError` if it has none."""
    place = start + 1
    while place < len(data):
        found = _INSIDE.match(data, place, place + STEP)
        assert found  # it also matches the empty text
        if data[found.end() : found.end() + 1] == b'"':
            return found.end() + 1
        if found.end() == place:
            break
        place = found.end()
    raise ValueError("the text ends inside a string")


def _text(data: bytes, start: int, end: int) -> str:
    """Decodes the string between two places, with optional space around it."""
    if end - start <= STEP:
        return _decode_text(data[start:end])
    start, end = _trimmed(data, start, end)
    if end - start <= STEP:
        return _decode_text(data[start:end])
    if data[start] != _QUOTE or data[end - 1] != _QUOTE:
        raise ValueError("expected a string")
    raw, pieces = memoryview(data), list[str]()
    place, end = start + 1, end - 1
    while place < end:
        cut = _cut(data, place, end)
        pieces.append(_decode_text(b'"%b"' % raw[place:cut]))
        place = cut
    return "".join(pieces)


def _cut(data: bytes, place: int, end: int) -> int:
    """Returns where the next piece of a string may end, outside of characters and escapes."""
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


def encode_any_json(value: object) -> bytes:
    """Does the same as `encode_json`, in short steps if the value is large."""
    if not is_larger(value, STEP):
        return encode_json(value)
    try:
        return b"".join(encoded_large(value))  # join lets other threads run
    except UnicodeEncodeError:  # half of a surrogate pair
        return encode_json(value)


def encoded_large(value: object) -> list[bytes]:
    """Returns the value as JSON, in pieces.

    Strings, lists and objects are encoded in steps, other types in one call. Raises
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


def from_base64(text: str, start: int = 0) -> bytes:
    """Decodes base64 text from `start` on. Raises `ValueError` if it is not base64."""
    if len(text) - start <= STEP:
        return base64.b64decode(text[start:], validate=True)
    padding = text.find("=", start)
    if 0 <= padding < len(text) - 2:
        raise ValueError("padding before the end")
    places = range(start, len(text), STEP)
    return b"".join([base64.b64decode(text[at : at + STEP], validate=True) for at in places])


def to_base64(data: bytes) -> str:
    step = STEP // 4 * 3
    pieces = [base64.b64encode(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join(pieces).decode("ascii")


def text_slices(text: str, size: int = STEP) -> Iterator[str]:
    for place in range(0, len(text), size):
        yield text[place : place + size]


def is_larger(value: object, size: int) -> bool:
    """Whether the value has more than about `size` characters as JSON. Stops counting there."""
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        size -= _NODE_WEIGHT
        kind = each.__class__  # comparing it is much faster than `isinstance` with a union
        if kind is str:
            size -= len(each)
        elif kind in _SCALARS:
            pass
        elif kind is dict or issubclass(kind, dict):
            size -= _NODE_WEIGHT * len(each)
            if size >= 0:
                waiting += each.values()
        elif issubclass(kind, list | tuple):
            size -= _NODE_WEIGHT * len(each)
            if size >= 0:
                waiting += each
        elif issubclass(kind, str | bytes):
            size -= len(each)
        if size < 0:
            return True
    return False


_SCALARS = frozenset({bool, float, int, type(None)})

LARGE = 2**16
"""Bytes or characters above which work runs off the event loop. Smaller input is always quick."""

_executor = DaemonThreads(1, "windlass-large")
"""Starts its thread with the first job."""


async def offloaded(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `work` in the worker thread, and returns its result or raises its error.

    The process has one such thread. The interpreter runs one thread at a time, so several threads
    would not be faster, and the event loop would wait for each in turn. `work` must not use objects
    of the loop, and its calls into C must be short, because they block the interpreter.
    """
    call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)


async def by_size(size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `work` directly if its input is small, and in the worker thread if it is `LARGE`."""
    if size <= LARGE:
        return work(*args, **kwargs)
    return await offloaded(work, *args, **kwargs)
