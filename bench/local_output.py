"""Answers with a type from the embedded models: nesting, enums and optional fields.

Twenty orders in words become objects; twenty more come out of a tool that the model has to call.
"""

import enum
from collections.abc import Sequence

from pydantic import BaseModel

from windlass import tool


class Priority(enum.Enum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Address(BaseModel):
    street: str
    city: str
    postcode: str | None = None


class Line(BaseModel):
    product: str
    quantity: int
    unit_price: float | None = None


class Order(BaseModel):
    """An order of a customer."""

    customer: str
    address: Address
    lines: list[Line]
    priority: Priority
    note: str | None = None


_CUSTOMERS = ("Ada Byron", "Alan Turing", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov")
_PLACES = (
    "5 Harbour Road, Bristol BS1 4RN",
    "12 rue des Lilas in Lyon",
    "Marktplatz 3, 20095 Hamburg",
    "77 Pine Street, Portland",
)
_GOODS = (
    "3 ropes at 12.50 each",
    "1 anchor and 2 buoys",
    "10 shackles for 1.20 each and 4 pulleys at 8 each",
    "a winch",
    "2 lanterns, 20 candles",
)
_WISHES = (
    "It is urgent.",
    "There is no hurry at all.",
    "Please ring twice.",
    "Standard delivery is fine.",
)


def _order(number: int) -> str:
    customer, place = _CUSTOMERS[number % 5], _PLACES[number % 4]
    goods, wish = _GOODS[(number * 2) % 5], _WISHES[(number // 2) % 4]
    return f"{customer} of {place} orders {goods}. {wish}"


ORDERS: Sequence[str] = [f"Write this order as JSON: {_order(number)}" for number in range(20)]
LOOKUPS: Sequence[str] = [f"Look up order {100 + n} and give me its data." for n in range(20)]


@tool
def get_order(number: int) -> str:
    """Returns the text of an order.

    Args:
        number: The number of the order.
    """
    return _order(number % 100)
