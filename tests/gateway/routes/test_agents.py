"""The `openai-agents` package, unchanged, over the gateway: its own tools and the gateway's."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.wire_helpers import WIRES, Stage, Upstream, declared_names

from windlass import tool
from windlass.gateway.config import ServerConfig
from windlass.testing import call, calls, tool_results

TASK = "Which city is warmer, Paris or Rome, and how many letters has its name?"
# Signed calls: the model refuses a turn that comes back changed.
SIGNED = {"gemini": "gemini/gemini-3-flash"}


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
        # The gateway's call is between two of the agent's, in one turn.
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
async def geographer(stage: Stage, upstream: Upstream) -> AsyncIterator[Any]:
    from tests.support.geographer import opened

    async with opened(stage.base_url, upstream.model_with_tools) as geographer:
        yield geographer


@pytest.mark.parametrize("streams", [False, True], ids=["blocking", "streamed"])
async def test_an_agent_does_a_task_with_its_own_tools_and_the_gateways(
    geographer: Any, upstream: Upstream, streams: bool
):
    if streams:
        done = await geographer.does_streamed(TASK)
        assert done.said == "I look. Paris is warmer; its name has 5 letters."
    else:
        done = await geographer.does(TASK)
    assert done.output == "Paris is warmer; its name has 5 letters."
    assert done.called == ["get_weather", "get_weather", "write_down"]
    assert done.results == [21, 18, "kept: Paris"]
    _check_what_the_model_was_told(upstream)


def _check_what_the_model_was_told(upstream: Upstream) -> None:
    """Every turn is complete, whoever ran its tools, and every result is there once and in
    order."""
    told = [
        [(result.name, str(result.response["output"])) for result in tool_results(body)]
        for body in upstream.bodies
    ]
    first = [("get_weather", "21"), ("count_letters", "5"), ("get_weather", "18")]
    second = [*first, ("count_letters", "4")]
    assert told == [[], first, second, [*second, ("write_down", "kept: Paris")]]
    for body in upstream.bodies:
        assert sorted(declared_names(body)) == ["count_letters", "get_weather", "write_down"]
