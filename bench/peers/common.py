"""The prompt and the tool of all peers."""

import time
from typing import Any, Protocol

PROMPT = "What is the weather in these cities?"
MARKS: list[float] = []
"""The CPU time of the process at each execution of the tool, which shows the cost of a round."""


async def get_weather(city: str) -> dict[str, object]:
    """Current weather.

    Args:
        city: The city's name.
    """
    return weather(city)


def get_weather_plain(city: str) -> dict[str, object]:
    """Current weather.

    Args:
        city: The city's name.
    """
    return weather(city)


def weather(city: str) -> dict[str, object]:
    MARKS.append(time.process_time())
    return {"city": city, "celsius": 21, "sky": "clear"}


# Windlass derives this from the function. The loops of the other peers need it.
DECLARATION: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city's name."}},
            "required": ["city"],
        },
    },
}


class AsyncPeer(Protocol):
    """With `plain`, the tool is the sync function instead of the async one."""

    async def answer(self, model: str, plain: bool) -> str: ...
    async def stream(self, model: str) -> str: ...
    async def close(self) -> None: ...


class SyncPeer(Protocol):
    def answer(self, model: str) -> str: ...
    def stream(self, model: str) -> str: ...
    def close(self) -> None: ...
