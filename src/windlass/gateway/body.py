"""The JSON body of a request, field by field; what is wrong with one names it. Pure."""

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from windlass.gateway.problems import bad_request
from windlass.jsontext import decode_json
from windlass.models.fields import JsonObject

__all__ = ["Fields", "decoded", "fields_of", "read_as"]

T = TypeVar("T")
_FIELD = re.compile(r"(?:field |at )`(?:\$\.)?(\w+)")
"""What msgspec's errors say of the field that is wrong."""
_split = msgspec.json.Decoder(dict[str, Raw]).decode


class Fields:
    """The top-level fields of a body, each decoded when it is asked for."""

    def __init__(self, raw: Mapping[str, Raw], max_depth: int) -> None:
        self._raw, self._max_depth = raw, max_depth
        self.names = raw.keys()

    def value(self, name: str, kind: type[T]) -> T | None:
        """The field's value; None if it is absent or null. Raises `Refused` for another type."""
        value = self.any(name)
        if kind is float and type(value) in (int, float):
            value = _finite(value, name)
        elif kind is int and type(value) is float and value.is_integer():
            value = int(value)  # JSON makes no difference between 1 and 1.0
        if value is None or type(value) is kind:
            return value
        raise bad_request(f"{name}: must be {_WORDS[kind]}, not {_word(value)}", name)

    def any(self, name: str) -> Any:
        raw = self._raw.get(name)
        return None if raw is None else self._decoded(raw, name)

    def raw(self, name: str) -> bytes:
        """The field as it came; empty if it is absent or null."""
        raw = bytes(self._raw.get(name, b""))
        return b"" if raw == b"null" else raw

    def _decoded(self, raw: Raw, name: str) -> Any:
        return decoded(bytes(raw), name, self._max_depth)


def decoded(data: bytes, name: str, max_depth: int) -> Any:
    """The value of a field. Raises `Refused`, which names it."""
    try:
        value = decode_json(data)
    except ValueError as error:
        raise bad_request(f"{name}: not valid JSON: {error}", name, "invalid_json") from None
    if type(value) in (dict, list) and _deeper(value, max_depth):
        raise bad_request(f"{name}: nested more than {max_depth} levels deep", name, "too_deep")
    return value


_WORDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def _finite(value: float, name: str) -> float:
    """JSON has no infinity and no NaN, but some writers have."""
    most = sys.float_info.max
    if not -most <= value <= most:
        raise bad_request(f"{name}: must be a number that is not infinite", name)
    return float(value)


def _word(value: object) -> str:
    return _WORDS.get(type(value), "null")


def fields_of(body: bytes, max_depth: int) -> Fields:
    """The fields of a body. Raises `Refused` for what is no JSON object."""
    try:
        return Fields(_split(body), max_depth)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            value = decode_json(body)
        except ValueError:
            raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from None
    # A writer that breaks the rules in a way that can be put right: half a surrogate pair.
    if not isinstance(value, dict):
        raise bad_request(f"The body must be a JSON object, not {_word(value)}.")
    mended = cast("JsonObject", value)
    return Fields(
        {name: Raw(msgspec.json.encode(field)) for name, field in mended.items()}, max_depth
    )


def _deeper(value: object, levels: int) -> bool:
    """Whether containers stand in each other more than `levels` deep. Not by recursion."""
    layer: list[Any] = [value]
    for _ in range(levels):
        inside: list[Any] = []
        for outer in layer:
            if type(outer) is dict:
                inside += cast("JsonObject", outer).values()
            elif type(outer) is list:
                inside += cast("list[Any]", outer)
        if not inside:
            return False
        layer = inside
    return any(type(each) in (dict, list) for each in layer)


def read_as(kind: type[T], body: bytes, said: str, max_depth: int) -> T:
    """The body as a value of that type, which `said` names. Raises `Refused`."""
    fields = fields_of(body, max_depth)
    try:
        return msgspec.convert({name: fields.any(name) for name in fields.names}, kind)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        raise bad_request(f"The body is not {said}: {error}", field[1] if field else None) from None
