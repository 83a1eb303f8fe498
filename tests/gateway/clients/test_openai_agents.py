"""The `openai-agents` package, unchanged, over the Responses API, by HTTP and by WebSocket."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.content import FunctionDeclaration, FunctionResponse
from windlass.gateway.config import ModelConfig, ServerConfig
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, call, calls, think
from windlass.testing.script import Stepper

pytestmark = pytest.mark.sdk

DEGREES = {"Paris": 21, "Rome": 18}


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


class Stage:
    """A gateway whose model plays the script of a test, and has one server tool."""

    def __init__(self) -> None:
        self.plays()
        self.model = ScriptedModel(lambda request: self._stepper.next(request))
        config = config_of(
            ModelConfig(name="m", target="scripted/model", tools=("count_letters",)),
            server=ServerConfig(access_log=False),
        )
        self.serving = Serving(config, models={"m": self.model}, tools=[count_letters])

    def plays(self, *steps: Step) -> None:
        self._stepper: Stepper[ModelRequest] = Stepper(steps)

    @property
    def results(self) -> list[str]:
        """The results that the model read in the last round."""
        parts = [part for message in self.model.requests[-1].messages for part in message.parts]
        return [part.text for part in parts if isinstance(part, FunctionResponse)]


@pytest.fixture(scope="module")
def the_stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.serving:
        yield stage


@pytest.fixture
def stage(the_stage: Stage) -> Stage:
    the_stage.model.requests.clear()
    return the_stage


AgentOf = Callable[..., Any]


@pytest.fixture(params=["http", "websocket"])
async def agent_of(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[AgentOf]:
    """Makes agents of the gateway's model: `agent_of("Geographer", tools=[...])`."""
    async with _agents(stage.serving.base_url, request.param) as make:
        yield make


@asynccontextmanager
async def _agents(base_url: str, transport: str) -> AsyncIterator[AgentOf]:
    from agents import Agent, OpenAIResponsesModel, OpenAIResponsesWSModel, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        over = OpenAIResponsesModel if transport == "http" else OpenAIResponsesWSModel
        model = over("m", client)
        yield lambda name, **fields: Agent(name, model=model, **fields)
        await model.close()


def _get_weather() -> Any:
    from agents import function_tool

    @function_tool
    def get_weather(city: str) -> int:
        """The degrees in a city."""
        return DEGREES[city]

    return get_weather


async def test_the_default_model_class_is_the_one_of_this_wire() -> None:
    from agents import OpenAIProvider, OpenAIResponsesModel

    assert isinstance(OpenAIProvider(api_key="any").get_model("m"), OpenAIResponsesModel)


async def test_an_agent_answers(stage: Stage, agent_of: AgentOf) -> None:
    from agents import Runner

    stage.plays("Paris.")
    result = await Runner.run(agent_of("Geographer", instructions="Be short."), "Which city?")
    assert result.final_output == "Paris."
    assert [message.text for message in stage.model.requests[0].messages] == [
        "Be short.",
        "Which city?",
    ]
    [answer] = result.raw_responses
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)


async def test_its_own_tool_and_a_server_tool_run_in_one_run(
    stage: Stage, agent_of: AgentOf
) -> None:
    from agents import Runner

    stage.plays(
        # The server's call is between two of the agent's, in one turn.
        calls(
            call("get_weather", city="Paris"),
            call("count_letters", word="Paris"),
            call("get_weather", city="Rome"),
            text="I look. ",
        ),
        call("count_letters", word="Rome"),
        "Paris is warmer; its name has 5 letters.",
    )
    result = await Runner.run(agent_of("Geographer", tools=[_get_weather()]), "Which is warmer?")
    assert result.final_output == "Paris is warmer; its name has 5 letters."
    assert _own_calls(result) == ["get_weather", "get_weather"]
    assert _server_calls(result) == [("count_letters", "5"), ("count_letters", "4")]
    assert stage.results == ["21", "5", "18", "4"]
    assert len(stage.model.requests) == 3


async def test_a_streamed_run_has_the_same_end(stage: Stage, agent_of: AgentOf) -> None:
    from agents import Runner

    stage.plays(
        think("Which tool?", call("count_letters", word="Paris")),
        call("get_weather", city="Paris"),
        "21 degrees, 5 letters.",
    )
    result = Runner.run_streamed(agent_of("Geographer", tools=[_get_weather()]), "Paris?")
    said, kinds = "", list[str]()
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            kinds.append(event.data.type)
            said += event.data.delta if event.data.type == "response.output_text.delta" else ""
    assert said == result.final_output == "21 degrees, 5 letters."
    assert _own_calls(result) == ["get_weather"]
    assert _server_calls(result) == [("count_letters", "5")]
    assert stage.results == ["5", "21"]
    # Two requests of the agent, each with one beginning and one end, whatever the server ran.
    assert (kinds.count("response.created"), kinds.count("response.completed")) == (2, 2)


async def test_an_agent_hands_over_to_another(stage: Stage, agent_of: AgentOf) -> None:
    from agents import Runner

    stage.plays(
        calls(call("count_letters", word="Roma"), call("transfer_to_historian")),
        call("count_letters", word="Rome"),
        "Founded in 753 BC.",
    )
    historian = agent_of("Historian", instructions="You know the past.")
    triage = agent_of("Triage", instructions="You choose.", handoffs=[historian])
    result = await Runner.run(triage, "When was Rome founded?")
    assert result.final_output == "Founded in 753 BC."
    assert result.last_agent.name == "Historian"
    [first, *_, last] = stage.model.requests
    assert _names(first) == ["count_letters", "transfer_to_historian"]
    assert _names(last) == ["count_letters"]
    assert "You know the past." in last.messages[0].text
    assert stage.results[0] == "4"


async def test_a_conversation_continues_from_the_stored_response(
    stage: Stage, agent_of: AgentOf
) -> None:
    from agents import Runner

    stage.plays(call("count_letters", word="Paris"), "5 letters.", "I said 5.")
    agent = agent_of("Geographer")
    first = await Runner.run(agent, "How many letters has Paris?")
    second = await Runner.run(
        agent, "What did you say?", previous_response_id=first.last_response_id
    )
    assert second.final_output == "I said 5."
    assert [message.text for message in stage.model.requests[-1].messages if message.text] == [
        "How many letters has Paris?",
        "5 letters.",
        "What did you say?",
    ]
    assert stage.results == ["5"]


async def test_it_gets_a_typed_answer(stage: Stage, agent_of: AgentOf) -> None:
    from agents import Runner
    from pydantic import BaseModel

    class City(BaseModel):
        name: str
        degrees: int

    stage.plays(call("count_letters", word="Paris"), '{"name": "Paris", "degrees": 21}')
    result = await Runner.run(agent_of("Geographer", output_type=City), "Which city?")
    assert result.final_output == City(name="Paris", degrees=21)


def _names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools if isinstance(tool, FunctionDeclaration)]


def _own_calls(result: Any) -> list[str]:
    from agents.items import ToolCallItem

    items: list[Any] = [
        item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)
    ]
    return [item.name for item in items if item.type == "function_call"]


def _server_calls(result: Any) -> list[tuple[str, str]]:
    items = [item for response in result.raw_responses for item in response.output]
    return [(item.name, item.output) for item in items if item.type == "mcp_call"]
