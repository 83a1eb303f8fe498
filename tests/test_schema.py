"""The declared JSON Schema: plain, compact, in a fixed order."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from tests.support import sample_tools as samples

from windlass import ConfigError, Depends, FunctionDeclaration, ToolContext, tool
from windlass.schema import accepts_null, expanded_size, mapped, plain, schema_at
from windlass.tool import as_tools


def schema_of(item: Any) -> dict[str, Any]:
    declaration = as_tools([item])[0].declaration
    assert isinstance(declaration, FunctionDeclaration)
    return declaration.parameters


def properties_of(item: Any) -> dict[str, Any]:
    return schema_of(item)["properties"]


def test_a_plain_function_declares_its_types_defaults_and_descriptions():
    @tool
    def get_weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, Any]:
        """Current weather.

        Args:
            city: The city's name.
        """
        return {}

    assert get_weather.declaration == FunctionDeclaration(
        "get_weather",
        "Current weather.",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name."},
                "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    )


def test_a_function_without_parameters_declares_an_empty_object():
    assert schema_of(samples.no_parameters) == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_json_types_are_declared_as_themselves():
    assert [value["type"] for value in properties_of(samples.plain).values()] == [
        "integer",
        "number",
        "string",
        "boolean",
        "null",
    ]


def test_an_unannotated_parameter_gets_the_type_of_its_default():
    declared = properties_of(samples.unannotated)
    assert declared["a"] == {}
    assert declared["b"] == {"type": "integer", "default": 3}
    assert declared["c"] == {"default": None}
    assert declared["g"] == {"type": "array", "items": {}, "default": []}


def test_enums_are_declared_by_value_or_by_name_if_json_cannot_represent_the_value():
    declared = properties_of(samples.enums)
    assert declared["a"] == {"type": "string", "description": "A colour.", "enum": ["r", "b"]}
    assert declared["b"] == {"type": "integer", "enum": [1, 2]}
    assert declared["c"]["enum"] == ["SQUARE", "OTHER"]
    assert declared["e"]["default"] == ["r"]


def test_defaults_are_declared_if_json_can_represent_them():
    declared = properties_of(samples.defaults)
    assert declared["a"]["default"] == {"x": 1, "y": 0, "color": "r", "tags": []}
    assert declared["b"]["default"] == "OTHER"
    assert declared["c"] == {"type": "string", "format": "date", "default": "2025-01-31"}
    assert "default" not in declared["d"]
    assert "default" not in declared["e"]
    assert "default" not in declared["f"]  # null would not fit the declared type
    assert "required" not in schema_of(samples.defaults)


def test_descriptions_come_from_annotated_then_field_then_docstring():
    @tool
    def speak(
        a: Annotated[int, "From Annotated."],
        b: Annotated[int, Field(description="From Field.")],
        c: int,
    ):
        """Speaks.

        Args:
            a: From the docstring.
            b: From the docstring.
            c: From the docstring.
        """

    said = [value["description"] for value in properties_of(speak).values()]
    assert said == ["From Annotated.", "From Field.", "From the docstring."]


def test_the_fields_of_a_class_are_described_by_its_docstring_and_its_hints():
    point = properties_of(samples.classes)["a"]
    assert point["description"] == "A point on the map."
    assert point["properties"]["x"]["description"] == "To the right."
    assert point["properties"]["y"]["description"] == "Upwards."


def test_a_named_tuple_is_an_object_because_an_array_has_no_names():
    assert properties_of(samples.classes)["c"] == {
        "type": "object",
        "properties": {
            "left": {"type": "integer"},
            "right": {"type": "string", "default": "r"},
        },
        "required": ["left"],
        "additionalProperties": False,
    }


def test_constraints_and_aliases_of_fields_are_declared():
    assert properties_of(samples.constrained)["a"] == {
        "type": "integer",
        "maximum": 9,
        "minimum": 1,
    }
    assert properties_of(samples.constrained)["d"]["default"] == 0.5
    assert list(properties_of(samples.aliased)) == ["camelCase", "b-b"]
    assert properties_of(samples.aliased)["b-b"]["default"] == 1


def test_hidden_parameters_are_not_declared():
    def give() -> int:
        return 1

    def hidden(
        a: int,
        b: Annotated[int, Depends(give)],
        c: ToolContext,
        d: Annotated[ToolContext, "the context"],
        e: ToolContext | None = None,
    ): ...

    assert list(properties_of(hidden)) == ["a"]


def test_args_are_ignored_and_kwargs_allow_additional_properties():
    assert list(properties_of(samples.all_kinds)) == ["a", "b", "c"]
    assert schema_of(samples.all_kinds)["additionalProperties"] == {"type": "integer"}
    assert schema_of(samples.open_ended)["additionalProperties"] is True


def test_an_unpacked_typed_dict_is_a_list_of_parameters():
    assert list(properties_of(samples.unpacked)) == ["street", "number", "near"]
    assert schema_of(samples.unpacked)["required"] == ["street"]


@pytest.mark.parametrize("sample", samples.SAMPLES, ids=range(len(samples.SAMPLES)))
def test_no_declaration_has_titles_consts_or_definitions_that_could_be_written_in_place(
    sample: Any,
):
    text = json.dumps(schema_of(sample))
    assert '"title":' not in text
    assert '"const":' not in text
    for name in schema_of(sample).get("$defs", {}):
        assert text.count(f'"#/$defs/{name}"') > 1 or name in text.split(f'"{name}": ')[1]


def test_a_property_may_be_named_like_a_keyword():
    class Book(BaseModel):
        title: str
        default: int
        properties: dict[str, int]

    def f(title: str, book: Book): ...

    declared = properties_of(f)
    assert declared["title"] == {"type": "string"}
    assert list(declared["book"]["properties"]) == ["title", "default", "properties"]


def test_a_recursive_type_keeps_one_definition():
    schema = schema_of(samples.nested)
    assert set(schema["$defs"]) == {"Address", "Tree"}
    assert schema["properties"]["c"] == {"$ref": "#/$defs/Tree"}


def test_an_object_that_is_used_twice_becomes_a_definition_and_an_enum_does_not():
    def f(a: samples.Point, b: samples.Point, c: samples.Color, d: samples.Color): ...

    schema = schema_of(f)
    assert list(schema["$defs"]) == ["Point"]
    assert schema["properties"]["a"] == schema["properties"]["b"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["d"]["enum"] == ["r", "b"]


def test_a_description_is_never_beside_a_reference():
    def f(a: Annotated[samples.Tree, "A tree."], b: Annotated[samples.Point, "A point."]): ...

    declared = properties_of(f)
    assert declared["a"] == {"description": "A tree.", "anyOf": [{"$ref": "#/$defs/Tree"}]}
    assert declared["b"]["description"] == "A point."
    assert "$ref" not in declared["b"]


def test_the_tag_of_a_tagged_union_is_required():
    options = properties_of(samples.tagged)["a"]["oneOf"]
    assert [option["required"] for option in options] == [["kind", "radius"], ["kind", "sides"]]
    assert "discriminator" not in properties_of(samples.tagged)["a"]


def test_the_order_of_keys_does_not_depend_on_the_order_that_they_came_in():
    schema = {"default": 1, "minimum": 0, "description": "d", "type": "integer", "title": "T"}
    turned = dict(reversed(schema.items()))
    assert (
        list(plain(schema)) == list(plain(turned)) == ["type", "description", "minimum", "default"]
    )


def test_a_type_without_a_json_schema_is_refused_with_the_parameter_named():
    def f(a: int, connection: BaseModel | type[int] | Any, b: "object"): ...
    def g(a: int, callback: "dict[str, Tool]"): ...

    class Tool: ...

    def h(a: int, engine: Tool): ...

    schema_of(f)
    with pytest.raises(
        ConfigError, match=r"g: cannot resolve the type 'dict\[str, Tool\]' of 'callback'"
    ):
        schema_of(g)
    with pytest.raises(ConfigError, match=r"h: .*the parameter 'engine'.*Depends"):
        schema_of(h)


def test_a_path_in_a_schema_is_found_through_references_and_alternatives():
    schema = schema_of(samples.nested)
    assert schema_at(schema, ("c", "children", 3, "value")) == {"type": "integer"}
    assert schema_at(schema, ("b", "any", "near", 0, "street")) == {"type": "string"}
    assert schema_at(schema, ("nowhere", 1)) == {}


def test_walking_a_schema_leaves_values_alone():
    schema = {"default": {"type": "x"}, "enum": [{"type": "x"}], "items": {"type": "x"}}
    assert mapped(schema, lambda inner: {**inner, "seen": True}) == {
        "default": {"type": "x"},
        "enum": [{"type": "x"}],
        "items": {"type": "x", "seen": True},
    }


@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({}, True),
        ({"type": "null"}, True),
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"enum": ["a", None]}, True),
        ({"type": "string"}, False),
        ({"enum": ["a"]}, False),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}, False),
    ],
)
def test_null_is_valid_only_if_the_schema_allows_it(schema: dict[str, Any], accepted: bool):
    assert accepts_null(schema) is accepted


def test_the_size_of_a_schema_counts_expanded_references() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/pair"}, "b": {"$ref": "#/$defs/loop"}},
        "$defs": {
            "pair": {"anyOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/one"}]},
            "one": {"type": "string"},
            "loop": {"items": {"$ref": "#/$defs/loop"}},
        },
    }
    assert expanded_size(schema, 1000) == 10
    assert expanded_size(schema, 3) == 4


def test_recursive_definitions_stay() -> None:
    def refer(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}}}

    definitions = {"a": refer("b"), "b": refer("a"), "to": refer("a"), "end": {"type": "string"}}
    shown = plain({**refer("to"), "$defs": {**definitions, "from": refer("end")}})
    assert shown["$defs"].keys() == {"a", "b"}
    assert shown["properties"]["next"]["properties"]["next"] == {"$ref": "#/$defs/a"}
