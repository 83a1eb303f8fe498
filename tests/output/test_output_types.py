"""Types of answers: their schemas, and the values and errors of texts."""

from typing import Any, Literal
from typing import TypedDict as StandardTypedDict

import msgspec
import pytest
import typing_extensions
from tests.support.typed_answers import (
    BAD,
    ERRORS,
    GOOD,
    INVOICE,
    Cat,
    Colour,
    Dog,
    Invoice,
    Point,
    Task,
    Weather,
)

from windlass.errors import ConfigError
from windlass.output.spec import Accepted, OutputSpec, Rejected, closed, strict_schema
from windlass.output.value import output_type, stored_type


class StandardWeather(StandardTypedDict):
    city: str
    celsius: float


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
WEATHER = {"city": "Oslo", "celsius": 3.5}
VALUES: list[tuple[Any, str, Any]] = [
    (Invoice, GOOD, INVOICE),
    (Point, '{"x": 1}', Point(1)),
    (Weather, '{"city": "Oslo", "celsius": 3.5}', WEATHER),
    (StandardWeather, '{"city": "Oslo", "celsius": 3.5}', WEATHER),
    (Task, '{"title": "t"}', Task("t")),
    (SCHEMA, '{"a": 1}', {"a": 1}),
    ({}, '{"any": [1]}', {"any": [1]}),
    (dict[str, int], '{"a": 1}', {"a": 1}),
]
WRAPPED: list[tuple[Any, str, Any]] = [
    (Colour, '"red"', Colour.RED),
    (list[Point], '[{"x": 1}]', [Point(1)]),
    (list[Task], '[{"title": "t"}]', [Task("t")]),
    (Cat | Dog, '{"kind": "dog", "name": "Rex"}', Dog(kind="dog", name="Rex")),
    (Point | None, "null", None),
    (Literal["yes", "no"], '"no"', "no"),
    (int, "42", 42),
    (bool, "true", True),
    (float, "0.5", 0.5),
    (str, '"hello"', "hello"),
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
]


@pytest.mark.parametrize(("kind", "text", "value"), [*VALUES, *WRAPPED], ids=str)
def test_a_text_becomes_a_value_of_the_type(kind: Any, text: str, value: Any) -> None:
    assert output_type(kind).read(f"\n{text} ") == Accepted(value)


@pytest.mark.parametrize(("kind", "text", "value"), WRAPPED, ids=str)
def test_a_value_that_is_no_object_is_asked_for_in_an_object(
    kind: Any, text: str, value: Any
) -> None:
    output = output_type(kind)
    assert output.spec.wrapped
    assert output.spec.schema["type"] == "object"
    assert list(output.spec.schema["properties"]) == ["value"]
    assert output.read(f'{{"value": {text}}}') == Accepted(value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(Colour, "blue", Colour.BLUE), (str, "plain words", "plain words"), (int, "+7", 7)],
)
def test_a_bare_text_without_quotes_is_read_as_a_string(kind: Any, text: str, value: Any) -> None:
    assert output_type(kind).read(text) == Accepted(value)


def test_the_errors_name_every_wrong_field() -> None:
    assert output_type(Invoice).read(BAD) == Rejected(ERRORS)


@pytest.mark.parametrize(
    ("kind", "text", "start"),
    [
        (Invoice, "", "the answer is empty"),
        (Invoice, "Sure! Here it is.", "the answer is not valid JSON"),
        (Invoice, "[1]", "expected an object"),
        (Point, '{"x": "many"}', "x: expected an integer, got 'many'"),
        (Task, '{"title": 1, "done": 2}', "done: expected true or false, got 2"),
        (Task, "{}", "title: required, but missing"),
        (SCHEMA, '{"a": "1"}', "a: expected an integer, got '1'"),
        (SCHEMA, '{"a": 1, "b": 2}', "b: no such field; known: a"),
        ({}, "[1]", "expected an object, got [1]"),
        (Colour, "green", "expected one of 'red', 'blue', got 'green'"),
        (int, "many", "expected an integer, got 'many'"),
        (list[Point], '{"value": [{"x": 1}, {}]}', "[1].x: required, but missing"),
    ],
)
def test_an_invalid_text_is_rejected_with_a_message_for_the_model(
    kind: Any, text: str, start: str
) -> None:
    outcome = output_type(kind).read(text)
    assert isinstance(outcome, Rejected)
    assert any(error.startswith(start) for error in outcome.errors), outcome.errors


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    assert isinstance(output_type(dict[str, Any]).read('{"a":' + "[" * 100_000), Rejected)


def test_a_hundred_errors_are_cut_to_ten() -> None:
    outcome = output_type(list[int]).read(msgspec.json.encode(["x"] * 100).decode())
    assert isinstance(outcome, Rejected)
    assert len(outcome.errors) == 11
    assert outcome.errors[-1] == "... and 90 more"


def test_descriptions_reach_the_schema_and_objects_are_closed() -> None:
    schema = output_type(Invoice).spec.schema
    assert schema["properties"]["total"]["description"] == "In euros."
    assert schema["additionalProperties"] is False
    assert schema["properties"]["lines"]["items"]["additionalProperties"] is False


def test_the_schema_of_a_type_is_created_once() -> None:
    assert output_type(Invoice) is output_type(Invoice)
    assert output_type({"type": "object"}) is output_type({"type": "object"})


@pytest.mark.parametrize("given", [lambda: 1, object(), "Invoice", 7])
def test_a_type_without_a_schema_is_a_config_error(given: Any) -> None:
    with pytest.raises(ConfigError, match="output"):
        output_type(given)


def test_an_invalid_json_schema_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="type"):
        output_type({"type": "objekt"})


@pytest.mark.parametrize(("kind", "text", "value"), [*VALUES, *WRAPPED], ids=str)
def test_a_stored_spec_validates_the_same_texts(kind: Any, text: str, value: Any) -> None:
    stored = msgspec.convert(msgspec.to_builtins(output_type(kind).spec), OutputSpec)
    outcome = stored_type(stored).read(text)
    assert isinstance(outcome, Accepted)
    assert outcome.value == msgspec.json.decode(text)


@pytest.mark.parametrize(("field", "value"), [("method", "magic"), ("retries", -1)])
def test_a_wrong_option_is_a_config_error(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"output_{field}"):
        OutputSpec(schema={}, **{field: value})


def test_the_strict_form_requires_every_field() -> None:
    strict = strict_schema(output_type(Task).spec.schema)
    assert strict is not None
    assert strict["required"] == ["title", "done"]
    assert "default" not in strict["properties"]["done"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "binary"}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
    ],
)
def test_a_schema_without_a_strict_form_has_none(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_a_declared_open_object_stays_open() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    assert closed(schema) == schema


def test_optional_keys_of_a_typed_dict_are_optional() -> None:
    class Draft(typing_extensions.TypedDict, total=False):
        title: str

    assert output_type(Draft).read("{}") == Accepted({})
