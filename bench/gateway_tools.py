"""The tools of the benchmark: server tools in some scenarios, client tools in the others."""

from typing import Literal

from windlass import tool


@tool
async def get_weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, object]:
    """Current weather.

    Args:
        city: The city's name.
        unit: Celsius or Fahrenheit.
    """
    return {"city": city, "degrees": 21 if unit == "c" else 70, "sky": "clear"}


@tool
async def search_notes(words: str, limit: int = 10) -> list[str]:
    """Find notes that contain all the words.

    Args:
        words: What to look for, separated by spaces.
        limit: How many notes at most.
    """
    return [f"a note about {words}"] * limit


@tool
async def send_mail(to: list[str], subject: str, body: str, urgent: bool = False) -> str:
    """Send a mail.

    Args:
        to: The addresses.
        subject: One line.
        body: Plain text.
        urgent: Whether to mark it as urgent.
    """
    return f"sent to {len(to)}: {subject}{'!' if urgent else ''} ({len(body)} characters)"
