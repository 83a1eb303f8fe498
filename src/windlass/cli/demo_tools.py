"""The tools of `windlass demo`: they need no key and no network."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from windlass import ToolError, tool
from windlass.cli.demo_calculator import NotArithmetic, value_of
from windlass.cli.demo_places import City, place_named, weather_of
from windlass.settings import state_directory

SHOPPING_LIST = "shopping-list.txt"
_MAX_ITEM_CHARS = 100
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@tool(idempotent=True)
def get_weather(
    city: str, day: str = "today", unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, Any]:
    """Weather in a city, today or on another day: temperature, sky, and wind in km/h. (Simulated.)

    Args:
        city: The city's name, such as Paris.
        day: today, tomorrow, a weekday, or a date such as 2027-01-31.
        unit: The unit of the temperature.
    """
    name = city.strip()
    if not name:
        raise ToolError("Which city?")
    when = _date(day, _today(place_named(name)))
    weather = weather_of(name, when)
    degrees = weather.celsius if unit == "celsius" else round(_FROM_CELSIUS[unit](weather.celsius))
    return {
        "city": name,
        "date": when.isoformat(),
        "temperature": degrees,
        "unit": unit,
        "sky": weather.sky,
        "wind_kmh": weather.wind,
    }


def _today(place: City | None) -> date:
    zone = ZoneInfo(place.zone) if place and place.zone else UTC
    return datetime.now(zone).date()


def _date(day: str, today: date) -> date:
    """Raises `ToolError`, which the model reads."""
    word = day.strip().lower().removeprefix("on ").removeprefix("next ").removeprefix("this ")
    if word in ("", "today", "now", "current", "tonight"):
        return today
    if word == "tomorrow":
        return today + timedelta(days=1)
    if word == "yesterday":
        return today - timedelta(days=1)
    if word in _WEEKDAYS:
        return today + timedelta(days=(_WEEKDAYS.index(word) - today.weekday()) % 7)
    try:
        return date.fromisoformat(word)
    except ValueError:
        raise ToolError(
            f"Unknown day {day!r}; use today, tomorrow, a weekday, or a date such as 2027-01-31."
        ) from None


@tool
def get_time(place: str = "UTC") -> dict[str, str]:
    """The time and date now, in a city or a time zone.

    Args:
        place: A city such as Tokyo, or a time zone such as Europe/Paris.
    """
    found = place_named(place)
    if found is None or found.zone is None:
        raise ToolError(f"Unknown place {place!r}; try a large city, or a zone like Europe/Paris.")
    now = datetime.now(ZoneInfo(found.zone))
    return {
        "place": place,
        "time": f"{now:%H:%M}",
        "weekday": _WEEKDAYS[now.weekday()].capitalize(),
        "date": f"{now:%Y-%m-%d}",
        "zone": found.zone,
    }


@tool(idempotent=True)
def calculate(expression: str) -> dict[str, Any]:
    """Calculates an arithmetic expression: sums, products, percentages, roots.

    Args:
        expression: Such as (17 + 4) * 3, 15% of 80, or sqrt(2) * 3.
    """
    try:
        return {"expression": expression.strip(), "result": value_of(expression)}
    except NotArithmetic as error:
        raise ToolError(f"Cannot calculate {expression[:80]!r}: {error}.") from None


_SCALES: tuple[dict[str, float], ...] = (
    {  # metres
        "mm": 0.001,
        "cm": 0.01,
        "m": 1.0,
        "km": 1000.0,
        "inch": 0.0254,
        "foot": 0.3048,
        "yard": 0.9144,
        "mile": 1609.344,
        "nautical mile": 1852.0,
    },
    {  # grams
        "mg": 0.001,
        "g": 1.0,
        "kg": 1000.0,
        "tonne": 1e6,
        "ounce": 28.349523125,
        "pound": 453.59237,
        "stone": 6350.29318,
    },
    {  # litres
        "ml": 0.001,
        "cl": 0.01,
        "litre": 1.0,
        "teaspoon": 0.00492892159375,
        "tablespoon": 0.01478676478125,
        "fluid ounce": 0.0295735295625,
        "cup": 0.2365882365,
        "pint": 0.473176473,
        "quart": 0.946352946,
        "gallon": 3.785411784,
    },
    {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "knot": 1852 / 3600},
    {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0},
    {
        "square metre": 1.0,
        "square km": 1e6,
        "square foot": 0.09290304,
        "square mile": 2589988.110336,
        "hectare": 10_000.0,
        "acre": 4046.8564224,
    },
    {"byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
)
_NAMES = {
    "millimetre": "mm",
    "centimetre": "cm",
    "metre": "m",
    "kilometre": "km",
    "in": "inch",
    "inches": "inch",
    '"': "inch",
    "ft": "foot",
    "feet": "foot",
    "'": "foot",
    "yd": "yard",
    "mi": "mile",
    "nmi": "nautical mile",
    "milligram": "mg",
    "gram": "g",
    "kilogram": "kg",
    "kilo": "kg",
    "t": "tonne",
    "metric ton": "tonne",
    "oz": "ounce",
    "lb": "pound",
    "st": "stone",
    "millilitre": "ml",
    "centilitre": "cl",
    "l": "litre",
    "tsp": "teaspoon",
    "tbsp": "tablespoon",
    "fl oz": "fluid ounce",
    "pt": "pint",
    "qt": "quart",
    "gal": "gallon",
    "us gallon": "gallon",
    "kmh": "km/h",
    "kph": "km/h",
    "km per hour": "km/h",
    "kilometre per hour": "km/h",
    "mile per hour": "mph",
    "metre per second": "m/s",
    "kt": "knot",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "m2": "square metre",
    "sqm": "square metre",
    "square m": "square metre",
    "km2": "square km",
    "square kilometre": "square km",
    "ft2": "square foot",
    "sqft": "square foot",
    "square feet": "square foot",
    "square ft": "square foot",
    "ha": "hectare",
    "b": "byte",
    "kilobyte": "kb",
    "megabyte": "mb",
    "gigabyte": "gb",
    "terabyte": "tb",
    "c": "celsius",
    "centigrade": "celsius",
    "f": "fahrenheit",
    "k": "kelvin",
}


@tool(idempotent=True)
def convert_units(value: float, from_unit: str, to_unit: str) -> dict[str, Any]:
    """Converts a temperature, length, weight, volume, speed, area or time into another unit.

    Args:
        value: The number to convert.
        from_unit: The unit of the value, such as mile, pound, gallon or fahrenheit.
        to_unit: The unit of the result, such as km, kg, litre or celsius.
    """
    given, wanted = _unit(from_unit), _unit(to_unit)
    converted = _converted(value, given, wanted)
    if converted is None:
        raise ToolError(f"Cannot convert {from_unit!r} to {to_unit!r}.")
    return {"value": value_of(f"{value}"), "from_unit": given, "result": converted, "unit": wanted}


def _converted(value: float, given: str, wanted: str) -> float | None:
    for scale in _SCALES:
        if given in scale and wanted in scale:
            return _short(value * scale[given] / scale[wanted])
    if given in _TO_CELSIUS and wanted in _FROM_CELSIUS:
        return _short(round(_FROM_CELSIUS[wanted](_TO_CELSIUS[given](value)), 2))
    return None


def _short(value: float) -> float:
    """Four decimals, or as many as a small number needs; a whole number has none."""
    short = round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")
    return int(short) if short == int(short) else short


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
_ALL_UNITS = frozenset(_TO_CELSIUS).union(*_SCALES)


def _unit(name: str) -> str:
    """The unit's own name; an unknown one is returned as it is."""
    text = re.sub(r"\bdegrees?\b|\N{DEGREE SIGN}", " ", name.strip().lower().replace("_", " "))
    text = text.replace("\N{SUPERSCRIPT TWO}", "2").replace("sq ", "square ").rstrip(".")
    text = re.sub(r"(met|lit)er", r"\1re", " ".join(text.split()))
    for spelled in (text, text.removesuffix("s"), re.sub(r"s\b", "", text)):
        found = _NAMES.get(spelled, spelled)
        if found in _ALL_UNITS:
            return found
    return text


@tool(approve=True)
def add_to_shopping_list(item: str) -> dict[str, Any]:
    """Puts an item on the user's shopping list.

    Args:
        item: What to buy, such as two litres of milk.
    """
    text = " ".join(item.split())[:_MAX_ITEM_CHARS]
    if not text:
        raise ToolError("Which item?")
    folder = state_directory()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / SHOPPING_LIST
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{text}\n")
    return {"added": text, "list": file.read_text("utf-8").splitlines()[-20:]}


TOOLS = [get_weather, get_time, calculate, convert_units, add_to_shopping_list]
