"""Functions with every kind of signature, for tools."""

import datetime as dt
import enum
import functools
import typing
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict, Union
from uuid import UUID

import typing_extensions
from pydantic import BaseModel, Field


class Color(enum.Enum):
    """A colour."""

    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    """Values that JSON cannot represent."""

    SQUARE = (1, 1)
    OTHER = object()


class Mode(enum.StrEnum):
    FAST = "fast"
    slow = "SLOW"


@dataclass
class Point:
    """A point on the map.

    Attributes:
        x: To the right.
    """

    x: int
    y: Annotated[int, "Upwards."] = 0
    color: Color = Color.RED
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)


class Address(TypedDict):
    street: str
    number: NotRequired[int]
    near: NotRequired[list["Address"]]


class Partial(typing_extensions.TypedDict, total=False):
    a: typing_extensions.Required[int]
    b: Annotated[str, "The b."]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: float = Field(gt=0)


class Rectangle(BaseModel):
    kind: Literal["rectangle"]
    sides: tuple[float, float]


class User(BaseModel):
    """A user of the system."""

    name: str = Field(alias="userName", min_length=1, description="What to call them.")
    color: Color = Color.BLUE
    only: Literal[Color.RED] = Color.RED
    friends: "list[User]" = []


def no_parameters(): ...
def plain(a: int, b: float, c: str, d: bool, e: None): ...
def unannotated(a, b=3, c=None, d="x", e=2.5, f=True, g=[]): ...  # noqa: B006
def collections(a: list[int], b: dict[str, float], c: tuple[int, str], d: set[int]): ...
def more_collections(
    a: tuple[int, ...], b: frozenset[str], c: Sequence[int], d: Mapping[str, Any], e: deque[int]
): ...
def bare_collections(a: list, b: dict, c: tuple, d: set): ...
def int_keys(a: dict[int, str]): ...
def literals(a: Literal["x", "y"], b: Literal[1, 2], c: Literal["x", 1, None, True]): ...
def member_literals(a: Literal[Color.RED], b: Literal[Level.LOW, "none"] = "none"): ...
def enums(a: Color, b: Level, c: Shape, d: Mode, e: list[Color] = [Color.RED]): ...  # noqa: B006
def optionals(a: Optional[int], b: int | None = None, c: Color | None = None): ...  # noqa: UP045
def unions(a: int | str, b: Union[Point, Pair], c: list[int] | dict[str, int] | None = None): ...  # noqa: UP007
def classes(a: Point, b: Address, c: Pair, d: User, e: Partial): ...
def nested(a: list[Point], b: dict[str, Address], c: Tree, d: list[dict[str, list[Color]]]): ...
def tagged(a: Annotated[Circle | Rectangle, Field(discriminator="kind")]): ...
def untagged(a: Circle | Rectangle): ...
def times(a: dt.datetime, b: dt.date, c: dt.time, d: dt.timedelta): ...
def texts(a: UUID, b: Decimal, c: Path, d: bytes): ...
def anything(a: Any, b: object, c: Any = None): ...
def constrained(
    a: Annotated[int, Field(ge=1, le=9)],
    b: Annotated[str, Field(min_length=2, max_length=4)],
    c: Annotated[list[int], Field(min_length=1, max_length=3)],
    d: float = Field(0.5, ge=0, le=1),
): ...
def described(a: Annotated[int, "The a."], b: Annotated[str, Field(description="The b.")] = ""): ...
def keyword_only(*, a: int, b: str = "b"): ...
def positional_only(a: int, b: str = "b", /, c: int = 0): ...
def all_kinds(a: int, /, b: int, *args: int, c: int, **kwargs: int): ...
def open_ended(a: int, **kwargs: Any): ...
def unpacked(**kwargs: typing.Unpack[Address]): ...
def odd_names(schema: str, json: int, model_config: int, validate: str, _private: int, copy=1): ...
def self_less(self: int, cls: int, function: int, args: int, kwargs: int): ...
def aliased(
    a: Annotated[int, Field(alias="camelCase")], b: Annotated[int, Field(alias="b-b")] = 1
): ...
def defaults(
    a: Point = Point(1),  # noqa: B008
    b: Shape = Shape.OTHER,
    c: dt.date = dt.date(2025, 1, 31),
    d: float = float("inf"),
    e: object = object(),
    f: int = None,  # noqa: RUF013  # pyright: ignore[reportArgumentType]
): ...


class Service:
    """Greets."""

    def method(self, name: str, times: int = 1): ...
    @classmethod
    def class_method(cls, name: str): ...
    @staticmethod
    def static_method(name: str): ...
    def __call__(self, name: str, count: int = 2): ...


SAMPLES = [
    *(
        value
        for value in list(globals().values())
        if callable(value)
        and getattr(value, "__module__", "") == __name__
        and not isinstance(value, type)
    ),
    Service().method,
    Service.class_method,
    Service().static_method,
    Service(),
    functools.partial(plain, 1, c="c"),
    functools.lru_cache(plain),
]
