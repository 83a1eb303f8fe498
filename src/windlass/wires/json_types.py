"""The base of types that describe JSON on a wire. OpenAPI schemas are derived from them.

The docstrings of a type and of its fields become descriptions.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from typing_extensions import TypedDict

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
    """A JSON object. It may have further fields, since later versions can add some."""


_CONFIG = {"use_attribute_docstrings": True, "arbitrary_types_allowed": True}
setattr(Json, "__pydantic_config__", _CONFIG)  # noqa: B010 - a TypedDict has no other attributes


NonEmptyText: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
AnyWholeNumber: TypeAlias = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
