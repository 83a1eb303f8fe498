"""Requests for the tests of emulation, and models that only write text."""

from collections.abc import Sequence
from typing import Any

from windlass.content import FunctionCall, FunctionDeclaration, Message
from windlass.emulation.model import EmulatedModel
from windlass.events import ModelEvent, TextDelta, ToolCallEnded, TurnEnded
from windlass.model import Model, ModelRequest, tool_choice_from
from windlass.testing import ScriptedModel

WEATHER = FunctionDeclaration(
    "get_weather",
    "Current weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = FunctionDeclaration("get_time", "The time.")
TOOLS = (WEATHER, CLOCK)


def written(name: str, arguments: str = "{}") -> str:
    """Returns a call in the format that the prompt asks for."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


PARIS = written("get_weather", '{"city":"Paris"}')


def asked(
    messages: Sequence[Message] | str = "Weather in Paris?", *, choice: Any = "auto", **fields: Any
) -> ModelRequest:
    if isinstance(messages, str):
        messages = (Message.user(messages),)
    given = {"tools": TOOLS, **fields}
    return ModelRequest(messages, tool_choice=tool_choice_from(choice), **given)


async def events_of(model: Model, request: ModelRequest) -> list[ModelEvent]:
    async with model.stream(request) as events:
        return [event async for event in events]


def text_of(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls_of(events: Sequence[ModelEvent]) -> list[FunctionCall]:
    return [event.call for event in events if isinstance(event, ToolCallEnded)]


def names_of(events: Sequence[ModelEvent]) -> list[str]:
    return [call.name for call in calls_of(events)]


def end_of(events: Sequence[ModelEvent]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def emulated(script: Any, **options: Any) -> tuple[EmulatedModel, ScriptedModel]:
    """Returns the model under test, and the scripted model inside it."""
    inner = ScriptedModel(script)
    return EmulatedModel(inner, **options), inner
