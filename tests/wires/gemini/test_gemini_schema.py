"""The older form of schemas: always something that google-genai's `Schema` reads."""

import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from windlass.wires.gemini.write_request import openapi_schema


def converted(schema: dict[str, Any]) -> dict[str, Any]:
    result = openapi_schema(schema)
    types.Schema.model_validate_json(json.dumps(result))
    return result


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "minLength": 1}, {"type": "STRING", "minLength": 1}),
        ({"type": ["integer", "null"]}, {"type": "INTEGER", "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
            {"type": "STRING", "nullable": True, "description": "d"},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
        ),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "STRING", "enum": ["1", "2"]}),
        ({"const": True}, {"type": "STRING", "enum": ["true"]}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        (
            {"type": "array", "items": {"type": "number"}, "maxItems": 3, "uniqueItems": True},
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "maxItems": 3},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "string", "format": "uuid"}, {"type": "STRING"}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        ({}, {"type": "STRING"}),
        (
            {"properties": {"type": {"type": "string"}, "any": True}, "required": ["type", "gone"]},
            {
                "type": "OBJECT",
                "properties": {"type": {"type": "STRING"}, "any": {"type": "STRING"}},
                "required": ["type"],
            },
        ),
        (
            {"allOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]},
                       {"properties": {"b": {}}, "required": ["b"]}]},
            {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
                "required": ["a", "b"],
            },
        ),
    ],
)  # fmt: skip
def test_the_converted_schemas(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    result = converted(schema)
    if "properties" in result:
        result["properties"] = dict(sorted(result["properties"].items()))
        expected["properties"] = dict(sorted(expected["properties"].items()))
        assert sorted(result.pop("required")) == sorted(expected.pop("required"))
    assert result == expected


def test_references_are_put_in_place() -> None:
    schema = {
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/Place", "description": "where"},
            "work": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "gone": {"$ref": "#/$defs/Nothing"},
        },
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    place = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
    assert converted(schema)["properties"] == {
        "home": {**place, "description": "where"},
        "work": {**place, "nullable": True},
        "gone": {"type": "OBJECT"},
    }


def test_a_recursive_reference_ends() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "integer"}},
    }
    result = converted({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert result["properties"] == {"next": {"type": "OBJECT"}, "v": {"type": "INTEGER"}}


words = st.sampled_from(
    ["type", "properties", "items", "anyOf", "oneOf", "allOf", "enum", "const", "required",
     "format", "$ref", "$defs", "nullable", "description", "default", "minimum"]
)  # fmt: skip
leaves = st.sampled_from(
    ["string", "object", "array", "null", "integer", "#/$defs/a", "a", True, None, 3]
)
schemas = st.dictionaries(
    words,
    st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(words | st.sampled_from(["a"]), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    max_size=5,
)


@given(schemas)
def test_no_schema_makes_the_conversion_fail(schema: dict[str, Any]) -> None:
    json.dumps(openapi_schema(schema))
