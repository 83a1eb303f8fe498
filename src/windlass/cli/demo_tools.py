"""The tools of `windlass demo`: they need no key and no network."""

import ast
import zlib
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from windlass import ToolError, tool

SUPPORTED = "only numbers, + - * / // % ** and brackets are supported"
_SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy", "snowy")


@tool(idempotent=True)
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Current weather of a city. (In this demo it is derived from the name of the city.)

    Args:
        city: The city's name, such as Paris.
        unit: The unit of the temperature.
    """
    checksum = zlib.crc32(city.strip().lower().encode())
    celsius = checksum % 35 - 5
    degrees = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32)
    sky = _SKIES[checksum // 35 % len(_SKIES)]
    return {"city": city, "temperature": degrees, "unit": unit, "sky": sky}


@tool
def get_time(place: str = "UTC") -> dict[str, str]:
    """The time and date now, in a city or a time zone.

    Args:
        place: A city such as Tokyo, or a time zone such as Europe/Paris.
    """
    zone = _zones().get(_plain(place))
    if zone is None:
        raise ToolError(f"Unknown place {place!r}; try a time zone such as Europe/Paris.")
    now = datetime.now(ZoneInfo(zone))
    return {"place": place, "time": f"{now:%H:%M}", "date": f"{now:%Y-%m-%d}", "zone": zone}


@cache
def _zones() -> dict[str, str]:
    """Time zones by name and by city."""
    names = sorted(available_timezones())
    cities = {_plain(name.rpartition("/")[2]): name for name in names if "/" in name}
    return cities | {_plain(name): name for name in names}


def _plain(place: str) -> str:
    return place.strip().lower().replace(" ", "_")


@tool(idempotent=True)
def calculate(expression: str) -> float:
    """The value of an arithmetic expression.

    Args:
        expression: Numbers with + - * / // % ** and brackets, such as (17 + 4) * 3.
    """
    if len(expression) > 200:
        raise ToolError("The expression is too long.")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise ToolError(f"Cannot calculate this: {error}") from None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _joined(op, _value(left), _value(right))
        case _:
            raise ValueError(SUPPORTED)


def _joined(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow() if abs(right) <= 100 and abs(left) <= 1e9:
            return left**right
        case ast.Pow():
            raise ValueError("the power is too large")
        case _:
            raise ValueError(SUPPORTED)


_METRES = {
    "mm": 0.001,
    "cm": 0.01,
    "m": 1.0,
    "km": 1000.0,
    "inch": 0.0254,
    "foot": 0.3048,
    "yard": 0.9144,
    "mile": 1609.344,
}
_GRAMS = {"g": 1.0, "kg": 1000.0, "ounce": 28.349523125, "pound": 453.59237}
_LITRES = {"ml": 0.001, "litre": 1.0, "gallon": 3.785411784, "pint": 0.473176473}
_NAMES = {
    "millimetre": "mm",
    "millimeter": "mm",
    "centimetre": "cm",
    "centimeter": "cm",
    "metre": "m",
    "meter": "m",
    "kilometre": "km",
    "kilometer": "km",
    "in": "inch",
    "inches": "inch",
    "ft": "foot",
    "feet": "foot",
    "yd": "yard",
    "mi": "mile",
    "gram": "g",
    "kilogram": "kg",
    "kilo": "kg",
    "oz": "ounce",
    "lb": "pound",
    "l": "litre",
    "liter": "litre",
    "gal": "gallon",
    "c": "celsius",
    "f": "fahrenheit",
    "k": "kelvin",
}


@tool(idempotent=True)
def convert_units(value: float, from_unit: str, to_unit: str) -> dict[str, Any]:
    """Converts a length, a weight, a volume or a temperature into another unit.

    Args:
        value: The number to convert.
        from_unit: The unit of the value, such as mile, pound, gallon or fahrenheit.
        to_unit: The unit of the result, such as km, kg, litre or celsius.
    """
    given, wanted = _unit(from_unit), _unit(to_unit)
    for scale in (_METRES, _GRAMS, _LITRES):
        if given in scale and wanted in scale:
            return {"value": round(value * scale[given] / scale[wanted], 6), "unit": wanted}
    if given in _TO_CELSIUS and wanted in _FROM_CELSIUS:
        degrees = _FROM_CELSIUS[wanted](_TO_CELSIUS[given](value))
        return {"value": round(degrees, 2), "unit": wanted}
    raise ToolError(f"Cannot convert {from_unit!r} to {to_unit!r}.")


_TO_CELSIUS: dict[str, Callable[[float], float]] = {
    "celsius": lambda degrees: degrees,
    "fahrenheit": lambda degrees: (degrees - 32) * 5 / 9,
    "kelvin": lambda degrees: degrees - 273.15,
}
_FROM_CELSIUS: dict[str, Callable[[float], float]] = {
    "celsius": lambda degrees: degrees,
    "fahrenheit": lambda degrees: degrees * 9 / 5 + 32,
    "kelvin": lambda degrees: degrees + 273.15,
}


def _unit(name: str) -> str:
    plain = name.strip().lower().removeprefix("degrees ").removeprefix("degree ")
    singular = plain.removesuffix("s") if len(plain) > 2 else plain
    for spelled in (plain, singular):
        found = _NAMES.get(spelled, spelled)
        if found in _METRES or found in _GRAMS or found in _LITRES or found in _TO_CELSIUS:
            return found
    return plain


@tool(name="test_tool", idempotent=True)
def repeat(message: str, count: int = 1) -> str:
    """Repeats a message, to test that tools are called.

    Args:
        message: The message.
        count: How many times.
    """
    return " ".join([message] * max(0, min(count, 100)))


TOOLS = [get_weather, get_time, calculate, convert_units, repeat]
