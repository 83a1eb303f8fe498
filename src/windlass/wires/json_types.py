"""The base of types that describe JSON on a wire. OpenAPI schemas are derived from them.

The docstrings of a type and of its fields become descriptions.
"""

from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

__all__ = ["AnyWholeNumber", "Count", "Json", "NonEmptyText"]


@with_config(ConfigDict(use_attribute_docstrings=True, arbitrary_types_allowed=True))
class Json(TypedDict):
    """A JSON object. It may have further fields, since later versions can add some."""


NonEmptyText: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
AnyWholeNumber: TypeAlias = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
