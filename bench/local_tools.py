"""The eight tools that the embedded models are offered, and when two arguments mean the same."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from windlass import Tool, ToolError, tool

__all__ = ["TOOLS", "is_right", "offered"]

_WEATHER = {"paris": 18, "london": 11, "tokyo": 24, "oslo": 3, "cairo": 33, "madrid": 29}
_TIMES = {"paris": "14:05", "london": "13:05", "tokyo": "22:05", "new york": "08:05"}
_PER_UNIT = {
    "km": 1.0,
    "mile": 1.609344,
    "m": 0.001,
    "kg": 1.0,
    "pound": 0.453592,
    "foot": 0.0003048,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Get the current weather in a city.

    Args:
        city: The city's name.
    """
    return {"city": city, "celsius": _WEATHER.get(city.split(",")[0].lower(), 20), "sky": "sunny"}


@tool
def get_time(city: str) -> str:
    """Get the current local time in a city.

    Args:
        city: The city's name.
    """
    return _TIMES.get(city.split(",")[0].lower(), "12:00")


@tool
def calculate(expression: str) -> float:
    """Evaluate an arithmetic expression.

    Args:
        expression: For example "2 * (3 + 4)".
    """
    return value_of(expression)


@tool
def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a value from one unit to another.

    Args:
        value: The number to convert.
        from_unit: The unit it is in, such as km, miles, kg or celsius.
        to_unit: The unit wanted.
    """
    source, target = unit(from_unit), unit(to_unit)
    if (source, target) == ("celsius", "fahrenheit"):
        return round(value * 9 / 5 + 32, 2)
    if (source, target) == ("fahrenheit", "celsius"):
        return round((value - 32) * 5 / 9, 2)
    if source not in _PER_UNIT or target not in _PER_UNIT:
        raise ToolError(f"cannot convert {from_unit} to {to_unit}")
    return round(value * _PER_UNIT[source] / _PER_UNIT[target], 2)


@tool
def search_web(query: str) -> str:
    """Search the web for news and pages.

    Args:
        query: What to search for.
    """
    return f"No page was found for {query}."


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an email to somebody.

    Args:
        to: The address.
        subject: The subject line.
        body: The text.
    """
    return "sent"


@tool
def set_reminder(text: str, time: str) -> str:
    """Set a reminder for a time of day.

    Args:
        text: What to be reminded of.
        time: When, such as 09:30.
    """
    return "set"


@tool
def list_files(path: str) -> list[str]:
    """List the files in a folder.

    Args:
        path: The folder.
    """
    return ["notes.txt", "plan.md"]


TOOLS: tuple[Tool, ...] = (
    get_weather,
    get_time,
    calculate,
    convert_units,
    search_web,
    send_email,
    set_reminder,
    list_files,
)


def offered(name: str, count: int) -> tuple[Tool, ...]:
    """This many tools, including the named one, in the order of the list."""
    others = [each for each in TOOLS if each.name != name][: count - 1]
    return tuple(each for each in TOOLS if each.name == name or each in others)


def is_right(expected: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether the arguments mean the same."""
    return given.keys() == expected.keys() and all(
        _same(name, value, given[name]) for name, value in expected.items()
    )


def _same(name: str, expected: Any, given: Any) -> bool:
    match name:
        case "expression":
            try:
                return abs(value_of(expected) - value_of(str(given))) < 1e-6
            except ToolError:
                return False
        case "value":
            return float(given) == expected
        case "from_unit" | "to_unit":
            return unit(expected) == unit(str(given))
        case _:
            return str(given).split(",")[0].strip().lower() == expected.lower()


def unit(text: str) -> str:
    """One word for a unit."""
    word = text.strip().lower().lstrip("°").removesuffix("s")
    short = {"kilometer": "km", "kilometre": "km", "mi": "mile", "meter": "m", "metre": "m"}
    more = {"kilogram": "kg", "lb": "pound", "feet": "foot", "ft": "foot", "c": "celsiu"}
    word = (short | more | {"f": "fahrenheit"}).get(word, word)
    return "celsius" if word == "celsiu" else word


def value_of(expression: str) -> float:
    """The value of an arithmetic expression. Raises `ToolError` for any other."""
    try:
        return _value(ast.parse(expression.replace("^", "**"), mode="eval").body)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ToolError(f"not an arithmetic expression: {expression!r}") from error


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_value(node.operand))
        case _:
            raise TypeError(node)
