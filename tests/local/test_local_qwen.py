"""The default embedded model, with its real weights, through the whole loop."""

import pytest

from windlass import Client, tool

CITIES: list[str] = []


@tool
def get_weather(city: str) -> dict[str, object]:
    """Get the current weather in a city.

    Args:
        city: The city's name.
    """
    CITIES.append(city)
    return {"city": city, "celsius": 18, "sky": "sunny"}


@pytest.mark.timeout(300)  # the first time, 1.1 GB of weights are joined and checked
def test_the_default_model_calls_a_tool_and_answers_with_its_result() -> None:
    with Client("local/default", tools=[get_weather]) as client:
        reply = client.generate("What is the weather in Paris?", max_tokens=40)
    assert CITIES == ["Paris"]
    assert [call.name for call in reply.calls] == ["get_weather"]
    assert reply.stop_reason == "answer"
    assert "18" in reply.text
    assert reply.usage.output_tokens > 0
