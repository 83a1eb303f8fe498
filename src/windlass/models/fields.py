"""JSON of which only a part is known: reading it, keeping the rest, putting both together."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

__all__ = [
    "JsonObject",
    "as_list",
    "as_object",
    "as_text",
    "merged",
    "rest",
    "whole",
]

JsonObject: TypeAlias = dict[str, Any]


def as_object(value: object) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def whole(value: object) -> int:
    """A count as some server wrote it: 3, 3.0, null or nothing."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and math.isfinite(value) else 0


def rest(fields: Mapping[str, Any], *known: str) -> JsonObject:
    """The fields that have no place of their own in our values, without those that are null."""
    return {key: value for key, value in fields.items() if value is not None and key not in known}


def merged(base: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """`base` with `extra` on top: objects are merged, other values replaced, None takes away."""
    if not extra:
        return base
    result = dict(base)
    for key, value in extra.items():
        old, new = as_object(result.get(key)), as_object(value)
        if value is None:
            result.pop(key, None)
        elif old is not None and new is not None:
            result[key] = merged(old, new)
        else:
            result[key] = value
    return result
