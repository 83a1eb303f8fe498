"""Reads the JSON body of a request, field by field. Errors name the field. Pure.

JSON is read strictly: NaN, Infinity and invalid UTF-8 are refused. One exception: the escape of a
lone surrogate is read as U+FFFD, because clients split texts between the halves of a pair. A body
of more than `LARGE` bytes is read in short steps, to run in its own thread.
"""

import codecs
import re
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from windlass.jsontext import (
    LARGE,
    STEP,
    JsonNode,
    TooDeep,
    TooManyValues,
    outline,
    with_whole_pairs,
)
from windlass.wires.errors import InvalidRequest

T = TypeVar("T")
MAX_VALUES = 200_000
"""The maximum number of items and members in a body: enough for 10,000 messages and all tools."""
_FIELD = re.compile(r"(?:field |at )`(?:\$\.)?(\w+)")
"""Finds the field in msgspec's error messages."""
_NOT_A_NUMBER = re.compile(rb"(?:\A|[\[:,])\s{0,99}+(-?(?:NaN|Infinity))\b")
MAX_SEARCHED_BODY = 16 * 1024
"""The maximum size in bytes of a malformed body that is searched for the wrong field."""
_UNREADABLE = (ValueError, msgspec.DecodeError, RecursionError)
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.Decoder().decode


class Fields:
    """The top-level fields of a body, each decoded on access."""

    def __init__(self, raw: Mapping[str, Raw | JsonNode], max_depth: int) -> None:
        self._raw, self._max_depth = raw, max_depth
        self.names = raw.keys()

    def value(self, name: str, kind: type[T]) -> T | None:
        """The field's value; None if absent or null. Raises `InvalidRequest` for another type."""
        if name not in self._raw:  # most fields are absent
            return None
        value = self.any(name)
        if kind is float and type(value) in (int, float):
            value = _finite(value, name)
        elif kind is int and type(value) is float and value.is_integer():
            value = int(value)  # in JSON, 1 and 1.0 are the same
        if value is None or type(value) is kind:
            return value
        raise InvalidRequest(f"{name}: must be {_WORDS[kind]}, not {_word(value)}", name)

    def any(self, name: str) -> Any:
        raw = self._raw.get(name)
        if raw is None:
            return None
        if isinstance(raw, JsonNode):
            return _value_of(raw, name)
        return decoded(bytes(raw), name, self._max_depth)

    def raw(self, name: str) -> bytes:
        """The field's JSON text; empty if the field is absent or null."""
        found = self._raw.get(name, b"")
        raw = found.raw if isinstance(found, JsonNode) else bytes(found)
        return b"" if raw == b"null" else raw


def decoded(data: bytes, name: str, max_depth: int) -> Any:
    """The value of a field. Raises `InvalidRequest`, which names it."""
    if len(data) > LARGE:
        return _value_of(_outlined(data, max_depth - 1, name), name)
    try:
        value = _decode(data)
    except RecursionError:
        raise _too_deep(name, max_depth) from None
    except _UNREADABLE as error:
        if (repaired := with_whole_pairs(data)) != data:
            return decoded(repaired, name, max_depth)
        raise _not_json(error, data, name) from None
    if type(value) in (dict, list) and _deeper(value, max_depth):
        raise _too_deep(name, max_depth)
    return value


_WORDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def _finite(value: float, name: str) -> float:
    """The value as a float. A JSON integer can be too large for one."""
    largest = sys.float_info.max
    if not -largest <= value <= largest:
        raise InvalidRequest(f"{name}: must be a finite number", name)
    return float(value)


def _word(value: object) -> str:
    return _WORDS.get(type(value), "null")


def fields_of(body: bytes, max_depth: int) -> Fields:
    """The fields of a body. Raises `InvalidRequest` unless it is a JSON object."""
    _check_utf8(body)
    if len(body) > LARGE:
        return _large_fields(body, max_depth)
    try:
        return Fields(_split(body), max_depth)
    except RecursionError:
        _outlined(body, max_depth)
        raise _too_deep(None, max_depth) from None
    except msgspec.ValidationError:
        raise _not_an_object(_whole(body, max_depth)) from None
    except _UNREADABLE as error:
        if (repaired := with_whole_pairs(body)) != body:
            return fields_of(repaired, max_depth)
        if len(body) <= MAX_SEARCHED_BODY:
            _find_mistake(body, max_depth)
        raise _not_json(error, body) from None


def _whole(body: bytes, max_depth: int) -> Any:
    try:
        return _decode(body)
    except RecursionError:
        raise _too_deep(None, max_depth) from None
    except _UNREADABLE as error:
        raise _not_json(error, body) from None


def _large_fields(body: bytes, max_depth: int) -> Fields:
    top = _outlined(body, max_depth)
    try:
        fields = top.fields()
    except _UNREADABLE as error:
        raise _not_json(error, b"") from None
    if fields is not None:
        return Fields(fields, max_depth)
    if len(small := top.raw) <= LARGE:  # the rest is whitespace
        return fields_of(small, max_depth)
    raise _not_an_object(_value_of(top, None))


def _outlined(data: bytes, max_depth: int, name: str | None = None) -> JsonNode:
    try:
        return outline(data, max_depth=max_depth, max_values=MAX_VALUES, step=LARGE)
    except TooDeep as error:
        levels = max_depth if name is None else max_depth + 1
        raise _too_deep(name or error.field, levels) from None
    except TooManyValues as error:
        field = name or error.field
        raise InvalidRequest(
            f"{field or 'The body'}: more than {MAX_VALUES} values", field, "too_many_values"
        ) from None
    except ValueError as error:
        raise _not_json(error, b"", name) from None


def _value_of(node: JsonNode, name: str | None) -> Any:
    try:
        return node.value()
    except _UNREADABLE as error:
        raise _not_json(error, node.raw, name) from None


def _find_mistake(body: bytes, max_depth: int) -> None:
    """Raises `InvalidRequest` for the first invalid field, if the fields can be separated."""
    try:
        fields = outline(body, max_depth=max_depth, max_values=MAX_VALUES, step=0).fields()
    except _UNREADABLE:
        return
    for name, node in (fields or {}).items():
        decoded(node.raw, name, max_depth)


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    place = 0
    try:
        for place in range(0, len(body), STEP):
            decoder.decode(body[place : place + STEP], final=place + STEP >= len(body))
    except UnicodeDecodeError as error:
        at = place - len(decoder.getstate()[0]) + error.start
        raise InvalidRequest(
            f"The body is not valid UTF-8 (byte {at}).", code="invalid_json"
        ) from None


def _not_json(error: Exception, data: bytes, name: str | None = None) -> InvalidRequest:
    """The error for invalid JSON, with the field if it is known."""
    reason = str(error)
    for place in range(0, len(data), STEP):
        if word := _NOT_A_NUMBER.search(data, place, place + STEP + 128):
            reason = f"{word[1].decode()} is not a number in JSON"
            break
    if name is None:
        return InvalidRequest(f"The body is not valid JSON: {reason}", code="invalid_json")
    return InvalidRequest(f"{name}: not valid JSON: {reason}", name, "invalid_json")


def _not_an_object(value: object) -> InvalidRequest:
    return InvalidRequest(f"The body must be a JSON object, not {_word(value)}.")


def _too_deep(name: str | None, max_depth: int) -> InvalidRequest:
    place = name or "The body"
    return InvalidRequest(f"{place}: nested more than {max_depth} levels deep", name, "too_deep")


def _deeper(value: object, levels: int) -> bool:
    """Whether containers are nested more than `levels` deep. Not recursive."""
    layer: list[Any] = [value]
    for _ in range(levels):
        inside: list[Any] = []
        for outer in layer:
            if isinstance(outer, dict):
                inside += outer.values()
            elif isinstance(outer, list):
                inside += outer
        if not inside:
            return False
        layer = inside
    return any(type(each) in (dict, list) for each in layer)


def read_as(kind: type[T], body: bytes, expected: str, max_depth: int) -> T:
    """The body as a value of type `kind`; `expected` names the type in errors.

    Raises `InvalidRequest`.
    """
    fields = fields_of(body, max_depth)
    try:
        return msgspec.convert({name: fields.any(name) for name in fields.names}, kind)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        raise InvalidRequest(
            f"The body is not {expected}: {error}", field[1] if field else None
        ) from None
