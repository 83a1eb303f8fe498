"""The models for the examples: the model in MODEL, or a fake service for each wire.

Without MODEL, the examples need no key and no network: they use a fake OpenAI service and a fake
Gemini service. With a real model: `MODEL=gemini/gemini-2.5-flash python examples/blocking.py`.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass.testing import FakeGemini, FakeOpenAI, Turn, call, calls, say, tool_results

QUESTION = "What is the weather in Paris, what time is it in Tokyo, and what is (17 + 4) * 2?"


def scripted(request: dict[str, Any]) -> Turn:
    """Calls three tools in one turn, then answers from their results, as a real model would."""
    results = tool_results(request)
    if not results:
        return calls(
            call("get_weather", city="Paris"),
            call("get_time", city="Tokyo"),
            call("calculate", expression="(17 + 4) * 2"),
            text="Let me look that up. ",
        )
    weather, time, number = json.loads(results[0].text), results[1].text, results[2].text
    return say(
        f"In Paris it is {weather['sky']} with {weather['degrees']} °C, "
        f"in Tokyo it is {time}, and (17 + 4) * 2 is {number}."
    )


@contextmanager
def models() -> Iterator[list[dict[str, Any]]]:
    """Yields the options for a client: the model in MODEL, or one fake for each wire."""
    if model := os.environ.get("MODEL"):
        yield [{"model": model}]
        return
    with FakeOpenAI(scripted) as openai, FakeGemini(scripted) as gemini:
        yield [
            {"model": "openai/demo", "base_url": openai.base_url, "api_key": "demo"},
            {"model": "gemini/demo", "base_url": gemini.base_url, "api_key": "demo"},
        ]
