"""Types that several tests use for answers, with the texts of models."""

import dataclasses
import enum
from typing import Literal

import msgspec
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict


class Line(BaseModel):
    item: str
    price: float


class Invoice(BaseModel):
    """An invoice."""

    number: str
    total: float = Field(gt=0, description="In euros.")
    lines: list[Line] = []

    @field_validator("number")
    @classmethod
    def _has_a_prefix(cls, number: str) -> str:
        if not number.startswith("A"):
            raise ValueError("must start with A")
        return number


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Weather(TypedDict):
    city: str
    celsius: float


class Task(msgspec.Struct, frozen=True):
    title: str
    done: bool = False


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


GOOD = '{"number": "A7", "total": 12.5, "lines": [{"item": "rope", "price": 12.5}]}'
BAD = '{"number": "7", "total": "many"}'
INVOICE = Invoice(number="A7", total=12.5, lines=[Line(item="rope", price=12.5)])
ERRORS = (
    "number: must start with A, got '7'",
    "total: expected a number, got 'many'",
)
