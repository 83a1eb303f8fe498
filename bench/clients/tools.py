"""The server tool of the gateway in the test of real clients."""

from windlass import tool


@tool
def get_weather(city: str) -> str:
    """The current weather of a city."""
    return f"21 degrees in {city}"
