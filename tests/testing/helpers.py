"""What the tests of `windlass.testing` share."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from windlass.content import FunctionCall, Message, Usage
from windlass.events import ModelEvent
from windlass.jsontext import compact_json
from windlass.model import Model, ModelRequest
from windlass.testing import Turn

# The types of SDKs are narrower than the values of these tests.
HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


async def said_by(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    """All events of one turn."""
    wanted = request or ModelRequest((Message.user("Hello"),))
    async with model.stream(wanted) as events:
        return [event async for event in events]


def unknown_fields(value: object, path: str = "") -> Iterator[str]:
    """The fields that an SDK kept without knowing them."""
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown_fields(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from unknown_fields(item, f"{path}[{place}]")


# Text that UTF-8 can write: everything but surrogates.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
names = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | st.lists(texts, max_size=2)
json_objects = st.dictionaries(texts, json_values, max_size=3)
json_texts = json_objects.map(compact_json)
sizes = st.sampled_from(["words", "whole"]) | st.integers(1, 9)
usages = st.builds(
    lambda given, thought, spoken: Usage(
        given, thought + spoken, given + thought + spoken, 0, thought
    ),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
)


@st.composite
def turns(draw: Any, arguments: Any = json_texts) -> Turn:
    made = st.builds(FunctionCall, names, arguments, st.uuids().map(str))
    return Turn(
        text=draw(texts),
        thoughts=draw(texts),
        calls=tuple(draw(st.lists(made, max_size=3))),
        usage=draw(usages),
        pieces=draw(sizes),
    )
