"""Tools to begin with. Each function with @tool can be called by a model.

The model is told the function's name, its parameters with their types, and what the docstring says
of them. Try one by hand:  windlass tools call get_weather --arg city=Paris
"""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from windlass import ToolError, tool

WEATHER = {"paris": ("sunny", 22), "london": ("rainy", 15), "tokyo": ("cloudy", 19)}


@tool(timeout=5, idempotent=True)
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Current weather of a city.

    Args:
        city: The city's name, such as Paris.
        unit: The unit of the temperature.
    """
    if city.lower() not in WEATHER:
        # What a ToolError says is read by the model, which can then do better.
        raise ToolError(f"no weather for {city!r}; known are: {', '.join(WEATHER)}")
    sky, celsius = WEATHER[city.lower()]
    temperature = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32)
    return {"city": city, "sky": sky, "temperature": temperature, "unit": unit}


@tool
def get_time(zone: str = "UTC") -> str:
    """The date and time now.

    Args:
        zone: A time zone, such as Europe/Paris.
    """
    try:
        return f"{datetime.now(ZoneInfo(zone)):%Y-%m-%d %H:%M}"
    except (ZoneInfoNotFoundError, ValueError):
        raise ToolError(f"there is no time zone {zone!r}; try one such as Europe/Paris") from None


@tool(approve=True)  # somebody is asked before it runs
def write_note(text: str) -> str:
    """Adds a line to notes.txt.

    Args:
        text: The line.
    """
    with Path("notes.txt").open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")
    return "written"
