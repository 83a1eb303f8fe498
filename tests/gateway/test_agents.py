"""The `openai-agents` package, unchanged, over the gateway: its own tools and the gateway's."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI
from tests.gateway.wire_helpers import WIRES, Stage, Upstream, declared_names

from windlass import tool
from windlass.gateway.config import ServerConfig
from windlass.testing import call, calls, tool_results

DEGREES = {"Paris": 21, "Rome": 18}
TASK = "Which city is warmer, Paris or Rome, and how many letters has its name?"
# Signed calls: a turn that is not given back to this model as it said it is refused.
SIGNED = {"gemini": "gemini/gemini-3-flash"}


@function_tool
def get_weather(city: str) -> int:
    """The degrees in a city."""
    return DEGREES[city]


@function_tool
def write_down(note: str) -> str:
    """Keeps a note."""
    return f"kept: {note}"


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    server = ServerConfig(access_log=False)
    with Stage(tools=[count_letters], targets=SIGNED, server=server) as stage:
        yield stage


@pytest.fixture(params=WIRES)
def upstream(stage: Stage, request: pytest.FixtureRequest) -> Upstream:
    chosen = stage.upstreams[request.param]
    chosen.plays(
        # The gateway's call stands between two of the agent's, in one turn.
        calls(
            call("get_weather", city="Paris"),
            call("count_letters", word="Paris"),
            call("get_weather", city="Rome"),
            text="I look. ",
        ),
        call("count_letters", word="Rome"),
        call("write_down", note="Paris"),
        "Paris is warmer; its name has 5 letters.",
    )
    return chosen


@pytest.fixture
async def agent(stage: Stage, upstream: Upstream) -> AsyncIterator[Agent[Any]]:
    set_tracing_disabled(disabled=True)
    async with AsyncOpenAI(base_url=stage.base_url, api_key="any", max_retries=0) as client:
        model = OpenAIChatCompletionsModel(upstream.model_with_tools, client)
        yield Agent("Geographer", tools=[get_weather, write_down], model=model)


@pytest.mark.parametrize("streams", [False, True], ids=["blocking", "streamed"])
async def test_an_agent_does_a_task_with_its_own_tools_and_the_gateways(
    agent: Agent[Any], upstream: Upstream, streams: bool
):
    if streams:
        result = Runner.run_streamed(agent, TASK)
        said = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
        assert "".join(said) == "I look. Paris is warmer; its name has 5 letters."
    else:
        result = await Runner.run(agent, TASK)
    assert result.final_output == "Paris is warmer; its name has 5 letters."
    names = [item.tool_name for item in result.new_items if isinstance(item, ToolCallItem)]
    outputs = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    assert names == ["get_weather", "get_weather", "write_down"]
    assert outputs == [21, 18, "kept: Paris"]
    _check_what_the_model_was_told(upstream)


def _check_what_the_model_was_told(upstream: Upstream) -> None:
    """Every turn whole, whoever ran its tools, and every result once and in its place."""
    told = [
        [(result.name, str(result.response["output"])) for result in tool_results(body)]
        for body in upstream.bodies
    ]
    first = [("get_weather", "21"), ("count_letters", "5"), ("get_weather", "18")]
    second = [*first, ("count_letters", "4")]
    assert told == [[], first, second, [*second, ("write_down", "kept: Paris")]]
    for body in upstream.bodies:
        assert sorted(declared_names(body)) == ["count_letters", "get_weather", "write_down"]
