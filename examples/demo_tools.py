"""Three small tools that the examples share: weather, time, calculator."""

import ast
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

from windlass import ToolError, tool

WEATHER = {"paris": ("sunny", 22), "london": ("cloudy", 15), "san francisco": ("foggy", 14)}
OFFSETS = {"paris": 1, "london": 0, "tokyo": 9, "san francisco": -8}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@tool(idempotent=True)
def get_weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, str | int]:
    """The current weather of a city.

    Args:
        city: The city's name.
        unit: Celsius or Fahrenheit.
    """
    if city.lower() not in WEATHER:
        raise ToolError(f"no weather for {city!r}; known: {', '.join(WEATHER)}")
    sky, celsius = WEATHER[city.lower()]
    degrees = celsius if unit == "c" else round(celsius * 9 / 5 + 32)
    return {"city": city, "sky": sky, "degrees": degrees, "unit": unit}


@tool(idempotent=True)
async def get_time(city: str) -> str:
    """The local time in a city, in winter."""
    if city.lower() not in OFFSETS:
        raise ToolError(f"no clock for {city!r}; known: {', '.join(OFFSETS)}")
    zone = timezone(timedelta(hours=OFFSETS[city.lower()]))
    return datetime.now(UTC).astimezone(zone).strftime("%H:%M")


@tool(idempotent=True)
def calculate(expression: str) -> float:
    """Evaluates an expression with + - * / and parentheses."""
    try:
        return _value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, KeyError, ZeroDivisionError, RecursionError) as error:
        raise ToolError(f"cannot calculate {expression!r}") from error


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_value(operand))
        case _:
            raise KeyError(type(node))


TOOLS = [get_weather, get_time, calculate]
