"""The worker's tools. Replace them with your own."""

from windlass import tool


@tool(timeout=5, idempotent=True)
def get_weather(city: str) -> dict[str, object]:
    """Current weather of a city.

    Args:
        city: The city's name.
    """
    return {"city": city, "sky": "sunny", "celsius": 21}
