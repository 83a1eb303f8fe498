"""Example tools. A model can call each function with @tool.

The model receives the name of the function, its parameters with their types, and their descriptions
from the docstring. Try a tool:  windlass tools call get_weather --arg city=Paris
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
        # The model receives the text of a ToolError and can correct its call.
        raise ToolError(f"no weather for {city!r}; known cities: {', '.join(WEATHER)}")
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
        raise ToolError(f"unknown time zone {zone!r}; try one such as Europe/Paris") from None


@tool(approve=True)  # asks for approval before it runs
def write_note(text: str) -> str:
    """Adds a line to notes.txt.

    Args:
        text: The line.
    """
    with Path("notes.txt").open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")
    return "written"
