"""Tools in the form of the page's editor: refused fields are never sent, and losses are
reported."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.content import FunctionDeclaration
from windlass.errors import ModelError
from windlass.models.aistudio.schema import SchemaConverter, digest_of

ALLOWED = {
    *("type", "format", "description", "nullable", "enum", "minItems", "maxItems", "properties"),
    *("required", "items", "minProperties", "maxProperties", "minimum", "maximum", "minLength"),
    *("maxLength", "pattern", "propertyOrdering"),
}


def converted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of one parameter, as it is declared."""
    parameters = {"type": "object", "properties": {"x": schema}}
    if "$defs" in schema:
        parameters["$defs"] = schema.pop("$defs")
    declared = SchemaConverter().convert_tools([FunctionDeclaration("f", "", parameters)])
    return declared.functions[0]["parameters"]["properties"]["x"]


def test_a_plain_tool_is_declared_as_it_is() -> None:
    tool = FunctionDeclaration(
        "get_weather",
        "Get weather for a location",
        {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
            "additionalProperties": False,
        },
        strict=True,
    )
    declarations = SchemaConverter().convert_tools([tool])
    assert json.loads(SchemaConverter().to_json_string(declarations)) == [
        {
            "name": "get_weather",
            "description": "Get weather for a location",
            "parameters": {
                "type": "object",
                "properties": {"location": {"type": "string"}},
                "required": ["location"],
            },
        }
    ]
    assert declarations.lost == ()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "string", "enum": ["1", "2"]}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "n"},
            {"type": "integer", "description": "n", "nullable": True},
        ),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "integer"}),
        ({"$ref": "#/$defs/P", "$defs": {"P": {"type": "number"}}}, {"type": "number"}),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, {"type": "string", "minLength": 2}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "title": "X", "default": "d", "examples": ["e"]}, {"type": "string"}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
    ],
)
def test_unsupported_keywords_become_the_nearest_supported_ones(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert converted(schema) == expected


def test_a_recursive_reference_is_written_out_once() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = converted({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert schema == {"type": "object", "properties": {"next": {"type": "object"}}}


def test_lost_keywords_are_named_with_their_place(caplog: pytest.LogCaptureFixture) -> None:
    parameters = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "multipleOf": 5},
            "u": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    with caplog.at_level(logging.INFO, "windlass.models.aistudio"):
        declared = SchemaConverter().convert_tools([FunctionDeclaration("f", "", parameters)])
    assert declared.lost == ("f.n: multipleOf", "f.u: all but the first of 2 alternatives")
    assert "f.n: multipleOf" in caplog.text


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("2fast", {"type": "object"}, "'2fast'.*start with a letter"),
        ("a b", {"type": "object"}, "'a b'"),
        ("f", {"type": "array"}, "'f'.*type object"),
    ],
)
def test_a_tool_that_cannot_be_declared_is_refused_by_name(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        SchemaConverter().convert_tools([FunctionDeclaration(name, "", parameters)])
    assert caught.value.status == 400


def test_the_digest_is_of_the_content_and_not_of_its_order() -> None:
    assert digest_of([{"name": "f", "description": "d"}]) == digest_of(
        [{"description": "d", "name": "f"}]
    )
    assert digest_of([{"name": "f"}, {"name": "g"}]) != digest_of([{"name": "g"}, {"name": "f"}])


_KEYS = st.sampled_from(
    [
        *("title", "default", "const", "examples", "$schema", "multipleOf", "uniqueItems"),
        *("exclusiveMinimum", "minimum", "pattern", "nullable", "additionalProperties", "strict"),
    ]
)
_LEAVES = st.builds(
    lambda kind, more: {"type": kind, **more},
    st.sampled_from(["string", "integer", "boolean", ["string", "null"], ["number", "string"]]),
    st.dictionaries(_KEYS, st.just(1), max_size=3),
)
_SCHEMAS = st.recursive(
    _LEAVES | st.just({}) | st.just({"$ref": "#/$defs/P"}) | st.just({"$ref": "#/nowhere"}),
    lambda inner: (
        st.builds(lambda a, b: {"anyOf": [a, b, {"type": "null"}]}, inner, inner)
        | st.builds(lambda a: {"type": "array", "items": a}, inner)
        | st.builds(lambda a: {"allOf": [a, {"description": "d"}]}, inner)
        | st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}}, inner, inner)
    ),
    max_leaves=8,
)


def _checked(schema: dict[str, Any]) -> None:
    """What the editor checks."""
    assert set(schema) <= ALLOWED
    assert isinstance(schema["type"], str)
    for inner in schema.get("properties", {}).values():
        _checked(inner)
    if schema["type"] == "array":
        _checked(schema["items"])


@given(_SCHEMAS)
def test_the_editor_accepts_every_declared_schema(schema: dict[str, Any]) -> None:
    parameters = {
        "type": "object",
        "properties": {"x": schema},
        "$defs": {"P": {"type": "object", "properties": {"again": {"$ref": "#/$defs/P"}}}},
    }
    declared = SchemaConverter().convert_tools([FunctionDeclaration("f", "", parameters)])
    _checked(declared.functions[0]["parameters"])
