"""An agent of the `openai-agents` package, with its own tools.

Tests import it when they run: importing the package takes a second.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI

DEGREES = {"Paris": 21, "Rome": 18}


@function_tool
def get_weather(city: str) -> int:
    """The degrees in a city."""
    return DEGREES[city]


@function_tool
def write_down(note: str) -> str:
    """Keeps a note."""
    return f"kept: {note}"


class Done(NamedTuple):
    """The result of a task: the answer, the agent's own calls, and what was streamed."""

    output: Any
    called: list[str | None]
    results: list[Any]
    said: str


class Geographer:
    """The agent, which uses a gateway."""

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent

    async def does(self, task: str) -> Done:
        return _done(await Runner.run(self._agent, task))

    async def does_streamed(self, task: str) -> Done:
        result = Runner.run_streamed(self._agent, task)
        said = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
        return _done(result, "".join(said))


def _done(result: Any, said: str = "") -> Done:
    calls = [item.tool_name for item in result.new_items if isinstance(item, ToolCallItem)]
    results = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    return Done(result.final_output, calls, results, said)


@asynccontextmanager
async def opened(
    base_url: str, model: str, *, tool_choice: str | None = None, ends_with_tool: bool = False
) -> AsyncIterator[Geographer]:
    set_tracing_disabled(disabled=True)
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        yield Geographer(
            Agent(
                "Geographer",
                tools=[get_weather, write_down],
                model=OpenAIChatCompletionsModel(model, client),
                model_settings=ModelSettings(tool_choice=tool_choice),
                tool_use_behavior="stop_on_first_tool" if ends_with_tool else "run_llm_again",
            )
        )
