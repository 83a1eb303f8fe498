"""JSON in and out, also for writers and values that break its rules."""

import json
from typing import Any, cast

import msgspec

__all__ = ["compact_json", "decode_json", "encode_json"]


def decode_json(data: bytes) -> Any:
    """The JSON value in `data`, also of writers that break the rules.

    Some send half of a surrogate pair (a character cut between two deltas) or NaN. The half becomes
    U+FFFD. Raises `ValueError` when it cannot be read at all.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _mended(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode_json(value: object) -> bytes:
    """The value as JSON; what JSON has no word for becomes its `str`.

    Half of a surrogate pair becomes U+FFFD: tools read it from file names.
    """
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(msgspec.to_builtins(value, enc_hook=str)))


def compact_json(value: object) -> str:
    """The value as JSON text without spaces."""
    return encode_json(value).decode()


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list() | tuple():
            return [_mended(item) for item in cast("list[Any]", value)]
        case dict():
            fields = cast("dict[str, Any]", value)
            return {_mended(key): _mended(item) for key, item in fields.items()}
        case _:
            return value
