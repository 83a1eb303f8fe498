"""What is declared is callable, whatever JSON the model makes of it."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.json_values import any_json, values_of
from tests.sample_tools import SAMPLES

from windlass import FunctionDeclaration, InvalidArguments, Tool
from windlass.tool import as_tools

TOOLS = [as_tools([sample])[0] for sample in SAMPLES]
tools = pytest.mark.parametrize("tool", TOOLS, ids=[f"{i}-{t.name}" for i, t in enumerate(TOOLS)])
careless = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(tool: Tool, text: str) -> dict[str, Any] | str:
    """The arguments, or the text that the model reads; any other exception fails the test."""
    try:
        return tool.validate(text)
    except InvalidArguments as error:
        return str(error)


def schema_of(tool: Tool) -> dict[str, Any]:
    assert isinstance(tool.declaration, FunctionDeclaration)
    return tool.declaration.parameters


@tools
@careless
@given(data=st.data())
def test_what_satisfies_the_declared_schema_is_accepted_and_callable(
    tool: Tool, data: st.DataObject
):
    schema = schema_of(tool)
    value = data.draw(values_of(schema))
    assert jsonschema_rs.is_valid(schema, value), value
    assert tool.function is not None
    tool.function(**tool.validate(json.dumps(value)))


@tools
@careless
@given(value=any_json)
def test_random_json_is_accepted_or_refused_and_nothing_else(tool: Tool, value: Any):
    result = outcome(tool, json.dumps(value))
    assert result != ""
    assert "pydantic" not in result


@tools
@careless
@given(data=st.data())
def test_random_values_under_the_right_names_are_accepted_or_refused(
    tool: Tool, data: st.DataObject
):
    names = st.sampled_from([*schema_of(tool)["properties"], "other"])
    value = data.draw(st.dictionaries(names, any_json, max_size=5))
    result = outcome(tool, json.dumps(value))
    assert result != ""
    if isinstance(result, dict):
        assert tool.function is not None
        tool.function(**result)


@tools
@careless
@given(text=st.text(max_size=30) | st.text('{}[]":,0123eE.-nulltrfas\\d8 ', max_size=30))
def test_random_text_is_accepted_or_refused(tool: Tool, text: str):
    assert outcome(tool, text) != ""


@tools
@pytest.mark.parametrize("depth", [150, 199, 100_000])
def test_deep_nesting_is_accepted_or_refused(tool: Tool, depth: int):
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        assert outcome(tool, text) != ""
