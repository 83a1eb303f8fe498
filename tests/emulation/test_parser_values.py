"""The schema decides the type of unquoted values; names are found without prefixes."""

from typing import Any

import pytest
from tests.emulation.parsing import PING, TOOLS, declared, read

TYPED: list[tuple[Any, str, Any]] = [
    ("string", "42", "42"),
    ("string", "null", "null"),
    ("string", '"quoted"', '"quoted"'),
    ("integer", "42", 42),
    ("integer", "5.0", 5),
    ("integer", "many", "many"),
    ("number", "-3.5e2", -350.0),
    ("boolean", "True", True),
    ("boolean", "yes", "yes"),
    ("array", '["a", 1]', ["a", 1]),
    ("array", "['a', True]", ["a", True]),
    ("object", '{"a": {"b": null}}', {"a": {"b": None}}),
    ("object", "{1, 2}", "{1, 2}"),
    ("float", "1.5", 1.5),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["integer", "null"]}, "7", 7),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "None", None),
    ({"anyOf": [{"type": "array"}, {"type": "string"}]}, "just text", "just text"),
    ({"anyOf": [{"anyOf": [{"type": "boolean"}]}, {"type": "null"}]}, "false", False),
    ({"$ref": "#/$defs/Place"}, '{"x": 1}', {"x": 1}),
    ({"enum": [1, 2]}, "2", 2),
    ({}, "42", "42"),
]


@pytest.mark.parametrize(("schema", "written", "value"), TYPED)
def test_the_schema_decides_the_type_of_a_value(schema: Any, written: str, value: Any) -> None:
    tool = declared("f", a=schema)
    tool.parameters["$defs"] = {"Place": {"type": "object"}}
    for text in (
        f"<tool_call>\n<function=f>\n<parameter=a>\n{written}\n</parameter>\n</function>\n</tool_call>",
        f'<function_calls><invoke name="f"><parameter name="a">{written}</parameter></invoke>',
        f"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{written}</arg_value>\n</tool_call>",
        f"<f><a>{written}</a></f>",
    ):
        assert read(text, [tool]).calls == [("f", {"a": value})]
        assert read(iter(text), [tool]).calls == [("f", {"a": value})]


def test_a_repeated_parameter_makes_a_list_if_the_schema_wants_one() -> None:
    tools = [declared("f", tags={"type": "array", "items": {"type": "integer"}}, x="string")]
    text = "<f><tags>1</tags><x>a</x><tags>2</tags></f>"
    assert read(text, tools).calls == [("f", {"x": "a", "tags": [1, 2]})]


def test_tags_in_tags_are_objects() -> None:
    tools = [declared("f", o={"type": "object", "properties": {"n": {"type": "integer"}}})]
    assert read("<f><o><n>1</n><m>2</m></o></f>", tools).calls == [("f", {"o": {"n": 1, "m": "2"}})]


def test_a_value_keeps_its_indentation_and_one_newline_around_it_is_layout() -> None:
    text = (
        "<tool_call><function=search><parameter=query>\n  a\n\n</parameter></function></tool_call>"
    )
    assert read(text).calls == [("search", {"query": "  a\n"})]


def test_an_object_under_an_undeclared_name_contains_the_arguments() -> None:
    text = '<invoke name="search"><parameter name="input">{"query": "a"}</parameter></invoke>'
    assert read(text).calls == [("search", {"query": "a"})]


def test_an_input_without_a_name_goes_to_the_only_parameter() -> None:
    text = "Action: search\nAction Input: weather in Paris"
    assert read(text).calls == [("search", {"query": "weather in Paris"})]
    two = text.replace("search", "get_weather")
    assert read(two).calls == [("get_weather", {"__input": "weather in Paris"})]


def test_a_truncated_value_is_not_an_argument() -> None:
    whole = (
        "<tool_call>search<arg_key>query</arg_key><arg_value>San Francisco</arg_value></tool_call>"
    )
    for end in range(whole.index("San"), whole.index("</arg_value>") + 11):
        assert all(isinstance(arguments, str) for _, arguments in read(whole[:end]).calls)


@pytest.mark.parametrize(
    "written",
    ["functions.get_weather", "default_api.get_weather", "default_api:get_weather", "get_weath"],
)
def test_a_name_is_found_without_its_prefix_and_if_shortened(written: str) -> None:
    text = f'<tool_call>{{"name": "{written}", "arguments": {{"city": "x"}}}}</tool_call>'
    assert read(text).calls == [("get_weather", {"city": "x"})]
    request = f'Request function call: {written}\nParameters:\n{{"city": "x"}}'
    assert read(request).calls == [("get_weather", {"city": "x"})]


def test_a_name_that_several_declared_names_begin_with_is_not_guessed() -> None:
    tools = [declared("get_weather", city="string"), declared("get_weather_map", city="string")]
    text = '<tool_call>{"name": "get_weathe", "arguments": {"city": "x"}}</tool_call>'
    assert read(text, tools).calls == []


def test_a_short_prefix_of_a_name_is_another_name() -> None:
    assert read('<tool_call>{"name": "p", "arguments": {}}</tool_call>', [PING]).calls == []


def test_an_invalid_schema_does_not_break_the_parser() -> None:
    tool = declared(
        "f", a={"type": {}, "anyOf": {}, "enum": "x", "properties": []}, b={"$ref": "#"}
    )
    text = "<f><a><x>1</x></a><b>2</b></f>"
    assert read(text, [tool, *TOOLS]).calls[0][0] == "f"
