"""JSON on a wire: reads partly known objects, and describes objects with types. Pure.

The OpenAPI schemas are derived from these types: the docstrings of a type and of its fields become
descriptions.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from typing_extensions import TypedDict

from windlass.content import FunctionCall, FunctionResponse, Message, Opaque, Text
from windlass.errors import ConfigError
from windlass.jsontext import compact_json

JsonObject: TypeAlias = dict[str, Any]
_MAX_IN_WORDS = 2_000


def as_object(value: Any) -> JsonObject | None:
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def as_list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType]


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def misplaced(message: Message, index: int, wire: str) -> ConfigError:
    """The error for a part that this wire does not support in a message of this role."""
    part = message.parts[index]
    match part:
        case FunctionCall():
            what = f"a call of {part.name!r}"
        case FunctionResponse():
            what = f"a response of {part.name!r}"
        case Opaque():
            what = f"a part of {part.provider} ({_kind_of(part.data)})"
        case _:
            what = f"a part of type {type(part).__name__}"
    return ConfigError(
        f"parts[{index}]: the {wire} wire does not support {what} in a message of the role"
        f" {message.role!r}"
    )


def _kind_of(data: JsonObject) -> str:
    """The part's kind, such as `video_url` or `file.file_id`."""
    kind = as_text(data.get("type")) or next(iter(data), "empty")
    inner = [key for key in as_object(data.get(kind)) or () if key != "url"]
    return f"{kind}.{inner[0]}" if len(inner) == 1 else kind


def in_words(part: Opaque) -> Text:
    """A part of another provider, as text that any model can read."""
    if isinstance(refusal := part.data.get("refusal"), str):
        return Text(refusal)
    said = compact_json(part.data)
    if len(said) > _MAX_IN_WORDS:
        said = f"{said[:_MAX_IN_WORDS]}..."
    return Text(f"\n[{part.provider} {_kind_of(part.data)}] {said}\n")


def whole(value: object) -> int:
    """A count that a server wrote as 3, 3.0, null or not at all."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and math.isfinite(value) else 0


def rest(fields: Mapping[str, Any], *known: str) -> JsonObject:
    """The unknown fields that are not null."""
    return {key: value for key, value in fields.items() if value is not None and key not in known}


def merged(base: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """`base` updated with `extra`: objects are merged, None removes a field."""
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


__all__ = ["AnyWholeNumber", "Count", "Field", "Json", "NonEmptyText"]


class Field:
    """Constraints of a JSON value, and keywords of its schema, as pydantic's `Field` has them.

    A gateway starts without pydantic, which only the OpenAPI document needs.
    """

    __slots__ = ("_constraints", "_extra")

    def __init__(
        self, *, json_schema_extra: dict[str, Any] | None = None, **constraints: float | str
    ) -> None:
        """`constraints` are those of pydantic: `ge`, `gt`, `le`, `pattern`, `min_length`, ..."""
        self._constraints, self._extra = constraints, json_schema_extra or {}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(source), **self._constraints}

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(schema), **self._extra}


class Json(TypedDict):
    """A JSON object. It may have more fields, since later versions can add some."""


_CONFIG = {"use_attribute_docstrings": True, "arbitrary_types_allowed": True}
setattr(Json, "__pydantic_config__", _CONFIG)  # noqa: B010 - a TypedDict has no other attributes


NonEmptyText: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
AnyWholeNumber: TypeAlias = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
