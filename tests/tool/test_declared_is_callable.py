"""What is declared is callable, whatever JSON the model makes of it."""

import json
import random
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.json_values import any_json, values_of
from tests.support.sample_tools import SAMPLES
from tests.support.thoroughness import examples

from windlass import FunctionDeclaration, InvalidArguments, Tool
from windlass.tool import as_tools

TOOLS = [as_tools([sample])[0] for sample in SAMPLES]
tools = pytest.mark.parametrize("tool", TOOLS, ids=[f"{i}-{t.name}" for i, t in enumerate(TOOLS)])
careless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(tool: Tool, text: str) -> dict[str, Any] | str:
    """The arguments, or the text that the model reads; any other exception fails the test."""
    try:
        return tool.validate(text)
    except InvalidArguments as error:
        return str(error)


def schema_of(tool: Tool) -> dict[str, Any]:
    assert isinstance(tool.declaration, FunctionDeclaration)
    return tool.declaration.parameters


@cache
def values_for(tool: Tool) -> st.SearchStrategy[Any]:
    return values_of(schema_of(tool))


@pytest.mark.sweep
@tools
@settings(careless, max_examples=examples(25))
@given(data=st.data())
def test_arguments_that_match_the_declared_schema_are_accepted_and_callable(
    tool: Tool, data: st.DataObject
):
    value = data.draw(values_for(tool))
    assert jsonschema_rs.is_valid(schema_of(tool), value), value
    assert tool.function is not None
    tool.function(**tool.validate(json.dumps(value)))


@careless
@given(value=any_json)
def test_random_json_is_accepted_or_refused_and_nothing_else(value: Any):
    for tool in TOOLS:
        result = outcome(tool, json.dumps(value))
        assert result != "", tool
        assert "pydantic" not in result, tool


@careless
@given(values=st.lists(any_json, max_size=5), seed=st.integers(0, 99))
def test_random_values_under_the_right_names_are_accepted_or_refused(values: list[Any], seed: int):
    chance = random.Random(seed)
    for tool in TOOLS:
        names = [*schema_of(tool)["properties"], "other"]
        chance.shuffle(names)
        result = outcome(tool, json.dumps(dict(zip(names, values, strict=False))))
        assert result != "", tool
        if isinstance(result, dict):
            assert tool.function is not None
            tool.function(**result)


@careless
@given(text=st.text(max_size=30) | st.text('{}[]":,0123eE.-nulltrfas\\d8 ', max_size=30))
def test_random_text_is_accepted_or_refused(text: str):
    for tool in TOOLS:
        assert outcome(tool, text) != "", tool


@pytest.mark.sweep
@tools
@pytest.mark.parametrize("depth", [150, 199, 100_000])
def test_deep_nesting_is_accepted_or_refused(tool: Tool, depth: int):
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        assert outcome(tool, text) != ""
