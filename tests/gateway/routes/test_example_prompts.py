"""The prompts that a model's tools suggest, and what the list of models tells about a model."""

from typing import Annotated

from pydantic import Field
from tests.support.asgi import request
from tests.support.serving import config_of

from windlass import Tool, tool
from windlass.gateway import create_app
from windlass.gateway.config import ModelConfig
from windlass.gateway.routes.info import GENERAL, OVERVIEW, example_prompts
from windlass.testing import ScriptedModel


@tool
def get_weather(city: Annotated[str, Field(examples=["Paris", "Rome"])], unit: str = "c") -> str:
    """The weather of a city."""
    return f"{city} {unit}"


@tool
def send_mail(to: str) -> str:
    """Sends a mail."""
    return to


def numbered(number: int) -> Tool:
    @tool(name=f"tool_{number}")
    def any_tool(text: str) -> str:
        """Does something."""
        return text

    return any_tool


def test_only_a_tool_with_examples_for_its_arguments_is_called() -> None:
    assert example_prompts([get_weather, send_mail]) == [
        OVERVIEW,
        "Use get_weather with city Paris.",
        "What does send_mail do? Give an example of a question for it.",
        GENERAL[0],
    ]


def test_there_are_four_prompts_with_many_tools_and_without_tools() -> None:
    assert len(example_prompts([numbered(number) for number in range(9)])) == 4
    assert example_prompts([numbered(1)])[2:] == list(GENERAL[:2])
    assert example_prompts([]) == list(GENERAL)
    assert len(GENERAL) == 4


async def test_the_list_of_models_has_the_configured_examples_and_the_real_name() -> None:
    models = {
        "own": ModelConfig(name="own", target="local/qwen", examples=("What is 2 + 2?",)),
        "made": ModelConfig(name="made", target="openai/gpt-5-mini", tools=("get_weather",)),
    }
    app = create_app(
        config_of(*models.values()),
        models={name: ScriptedModel("Hello.") for name in models},
        tools=[get_weather],
    )
    listed = (await request(app, "GET", "/v1/models")).json["data"]
    own, made = (model["windlass"] for model in listed)
    assert own["examples"] == ["What is 2 + 2?"]
    assert own["title"].startswith("Qwen")
    assert own["attachments"] == []
    assert made["examples"][1] == "Use get_weather with city Paris."
    assert (made["target"], made["title"]) == ("openai/gpt-5-mini", "gpt-5-mini")
    assert made["attachments"] == ["audio", "file", "image"]
    assert made["approval_timeout"] == 300
    await app.gateway.aclose()
