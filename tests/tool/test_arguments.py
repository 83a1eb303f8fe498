"""Arguments: the model's text becomes typed values, or an error that the model can act on."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from pydantic import AfterValidator, BaseModel, Field
from tests.support import sample_tools as samples
from tests.support.json_values import any_json
from tests.support.thoroughness import examples

from windlass import ConfigError, Depends, FunctionDeclaration, InvalidArguments, Tool
from windlass.tool import as_tools


def validated(function: Any, /, **arguments: Any) -> dict[str, Any]:
    return as_tools([function])[0].validate(json.dumps(arguments))


def outcome(tool: Tool, arguments: Any) -> str:
    """Returns the error text for the model, or the arguments."""
    try:
        return repr(tool.validate(json.dumps(arguments)))
    except InvalidArguments as error:
        return str(error)


def refusal(function: Any, /, **arguments: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        validated(function, **arguments)
    return str(caught.value)


def declared(schema: dict[str, Any], function: Any = lambda **_: None) -> Tool:
    return Tool(FunctionDeclaration("declared", "", schema), function)


# The text as a whole.


@pytest.mark.parametrize("text", ["", "  ", "{}", "null", ' "{}" '])
def test_no_arguments_at_all_are_an_empty_object(text: str):
    assert as_tools([samples.no_parameters])[0].validate(text) == {}
    assert declared({"type": "object", "properties": {}}).validate(text) == {}


@pytest.mark.parametrize("tool", [as_tools([samples.plain])[0], declared({"type": "object"})])
def test_invalid_json_is_refused_with_its_position(tool: Tool):
    with pytest.raises(InvalidArguments, match=r"not valid JSON: .* at line 1 column 9"):
        tool.validate('{"a": 1,, }')


@pytest.mark.parametrize("tool", [as_tools([samples.plain])[0], declared({"type": "object"})])
@pytest.mark.parametrize("text", ["[1]", '"text"', "5", "true"])
def test_anything_but_an_object_is_refused(tool: Tool, text: str):
    with pytest.raises(InvalidArguments, match="must be a JSON object, got"):
        tool.validate(text)


@pytest.mark.parametrize("tool", [as_tools([samples.plain])[0], declared({"type": "object"})])
@pytest.mark.parametrize("text", ['{"a": "\ud800"}', '{"a": "\\ud800"}'])
def test_half_a_surrogate_pair_is_refused(tool: Tool, text: str):
    with pytest.raises(InvalidArguments, match="not valid JSON"):
        tool.validate(text)


def test_an_object_in_quotes_is_read():
    def f(city: str): ...

    assert as_tools([f])[0].validate('"{\\"city\\": \\"Paris\\"}"') == {"city": "Paris"}


# Values are converted to the declared types.


def test_values_are_real_python_objects():
    arguments = validated(
        samples.classes,
        a={"x": 1, "color": "b"},
        b={"street": "Main", "near": [{"street": "Side"}]},
        c={"left": 1},
        d={"userName": "ann"},
        e={"a": 1},
    )
    assert arguments["a"] == samples.Point(1, color=samples.Color.BLUE)
    assert arguments["b"] == {"street": "Main", "near": [{"street": "Side"}]}
    assert arguments["c"] == samples.Pair(1)
    assert isinstance(arguments["d"], samples.User)
    assert arguments["d"].name == "ann"


def test_times_and_texts_are_parsed():
    assert validated(
        samples.times, a="2025-01-31T12:00:00Z", b="2025-01-31", c="12:30", d="PT90S"
    ) == {
        "a": dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC),
        "b": dt.date(2025, 1, 31),
        "c": dt.time(12, 30),
        "d": dt.timedelta(seconds=90),
    }
    uuid = "12345678-1234-5678-1234-567812345678"
    assert validated(samples.texts, a=uuid, b=1.5, c="/tmp/x", d="é") == {
        "a": UUID(uuid),
        "b": Decimal("1.5"),
        "c": Path("/tmp/x"),
        "d": "é".encode(),
    }


def test_enum_members_are_found_by_value_and_by_name():
    for said in ("r", "RED"):
        assert validated(samples.enums, a=said, b=1, c="OTHER", d="fast") == {
            "a": samples.Color.RED,
            "b": samples.Level.LOW,
            "c": samples.Shape.OTHER,
            "d": samples.Mode.FAST,
        }
    assert validated(samples.enums, a="r", b="HIGH", c="SQUARE", d="SLOW")["d"] is samples.Mode.slow


def test_names_of_members_work_inside_classes():
    point = validated(samples.nested, a=[{"x": 1, "color": "BLUE"}], b={}, c={"value": 1}, d=[])
    assert point["a"][0].color is samples.Color.BLUE

    def f(user: samples.User): ...

    user = validated(f, user={"userName": "ann", "color": "RED", "only": "r"})["user"]
    assert (user.color, user.only) == (samples.Color.RED, samples.Color.RED)


def test_a_literal_of_enum_members_accepts_only_those():
    assert validated(samples.member_literals, a="r", b=1)["b"] is samples.Level.LOW
    assert validated(samples.member_literals, a="RED", b="none")["b"] == "none"
    assert refusal(samples.member_literals, a="b") == "a: expected 'r', got 'b'"


@pytest.mark.parametrize("sent", [5, 5.0, "5", "5.0"])
def test_whole_numbers_in_any_spelling_become_integers(sent: Any):
    def f(n: int): ...

    value = validated(f, n=sent)["n"]
    assert (value, type(value)) == (5, int)


def test_numbers_become_text_where_text_is_wanted():
    def f(a: str, b: samples.Address, c: samples.User): ...

    arguments = validated(f, a=75001, b={"street": 5}, c={"userName": 1.5})
    assert arguments["a"] == "75001"
    assert arguments["b"] == {"street": "5"}
    assert arguments["c"].name == "1.5"


def test_a_number_beyond_64_bits_in_float_spelling_is_an_integer():
    def f(n: int): ...

    assert validated(f, n=1e30) == {"n": int(1e30)}


def test_json_in_quotes_is_read_where_an_object_or_array_is_wanted():
    def f(a: list[int], b: samples.Point, c: dict[str, int] | None, d: str): ...

    assert validated(f, a="[1, 2]", b='{"x": 1, "tags": "[\\"t\\"]"}', c='{"k": 1}', d="[1]") == {
        "a": [1, 2],
        "b": samples.Point(1, tags=["t"]),
        "c": {"k": 1},
        "d": "[1]",
    }


def test_literals_in_the_wrong_spelling_are_found():
    assert validated(samples.literals, a="x", b="2", c="1") == {"a": "x", "b": 2, "c": 1}


def test_null_means_the_default_where_null_does_not_fit():
    def f(a: int = 3, b: str | None = "b", c: samples.Point | None = None): ...

    assert validated(f, a=None, b=None, c={"x": 1, "y": None}) == {"b": None, "c": samples.Point(1)}


def test_null_in_a_map_is_never_left_out():
    def f(a: dict[str, int]): ...

    assert refusal(f, a={"x": None}) == "a.x: expected an integer, got null"


def test_null_for_a_required_parameter_is_refused():
    def f(a: int): ...

    assert refusal(f, a=None) == "a: expected an integer, got null"


def test_a_default_in_a_pydantic_field_is_filled_in():
    def f(a: int = Field(3, ge=1), b: Annotated[int, Field(default_factory=lambda: 4)] = 9): ...

    assert validated(f) == {"a": 3, "b": 4}
    assert refusal(f, a=0) == "a: expected at least 1, got 0"


def test_a_value_that_fits_a_union_exactly_is_not_coerced():
    assert validated(samples.unions, a="5", b={"left": 1})["a"] == "5"
    assert validated(samples.unions, a=5, b={"x": 1})["b"] == samples.Point(1)


def test_aliases_and_python_names_are_both_accepted():
    assert validated(samples.aliased, camelCase=1) == {"a": 1}
    assert validated(samples.aliased, a=1, b=2) == {"a": 1, "b": 2}


def test_unusual_names_are_accepted():
    sent = {"schema": "s", "json": 1, "model_config": 2, "validate": "v", "_private": 3}
    assert validated(samples.odd_names, **sent) == sent


# Errors name each field.


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (samples.literals, {"a": "z"}, "a: expected one of 'x', 'y', got 'z'"),
        (samples.plain, {"a": "five"}, "a: expected an integer, got 'five'"),
        (samples.plain, {"a": 1.5}, "a: expected an integer, got 1.5"),
        (samples.plain, {"b": [1]}, "b: expected a number, got [1]"),
        (samples.plain, {"c": {"x": 1}}, 'c: expected a string, got {"x":1}'),
        (samples.plain, {"d": "maybe"}, "d: expected true or false, got 'maybe'"),
        (samples.plain, {}, "a: required, but missing"),
        (samples.enums, {"a": "green"}, "a: expected one of 'r', 'b', got 'green'"),
        (samples.constrained, {"a": 0}, "a: expected at least 1, got 0"),
        (samples.constrained, {"a": 10}, "a: expected at most 9, got 10"),
        (samples.constrained, {"b": "x"}, "b: expected at least 2 characters, got 'x'"),
        (samples.constrained, {"c": []}, "c: expected at least 1 items, got []"),
        (samples.times, {"a": "soon"}, "a: expected a date and time such as 2025-01-31T12:00:00Z"),
        (samples.times, {"b": "soon"}, "b: expected a date such as 2025-01-31, got 'soon'"),
        (samples.texts, {"a": "x"}, "a: expected a UUID, got 'x'"),
        (samples.int_keys, {"a": {"x": "y"}}, "a.x: expected a key that is an integer, got 'x'"),
        (samples.nested, {"a": [{"x": 1}, {"x": "y"}]}, "a[1].x: expected an integer, got 'y'"),
        (samples.nested, {"c": {"children": [{}]}}, "c.children[0].value: required, but missing"),
        (samples.classes, {"a": 5}, "a: expected an object, got 5"),
        (
            samples.classes,
            {"c": {"left": 1, "up": 2}},
            "c.up: no such argument; known: left, right",
        ),
        (samples.collections, {"c": [1]}, "c[1]: required, but missing"),
        (samples.unions, {"a": []}, "a: expected an integer or a string, got []"),
        (
            samples.tagged,
            {"a": {"kind": "x"}},
            "expected 'kind' to be one of 'circle', 'rectangle'",
        ),
        (samples.tagged, {"a": {"kind": "circle"}}, "a.radius: required, but missing"),
        (samples.untagged, {"a": 5}, "a: expected an object, got 5"),
    ],
)
def test_each_problem_is_a_line_with_its_field(function: Any, arguments: dict[str, Any], text: str):
    assert any(
        line.startswith(text) or text in line
        for line in refusal(function, **arguments).splitlines()
    )


def test_all_problems_are_reported_at_once():
    def f(city: str, unit: Literal["c", "f"] = "c"): ...

    assert refusal(f, unit="kelvin", colour=1).splitlines() == [
        "city: required, but missing",
        "unit: expected one of 'c', 'f', got 'kelvin'",
        "colour: no such argument; known: city, unit",
    ]


def test_alternatives_that_nearly_fit_are_each_explained():
    text = refusal(samples.untagged, a={"kind": "rectangle", "radius": -1})
    assert text == (
        "a: fits none of its 2 alternatives: a.kind: expected 'circle', got 'rectangle';"
        " a.radius: expected more than 0, got -1 | a.sides: required, but missing"
    )


def test_the_message_of_a_custom_validator_is_passed_on():
    def even(n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n

    def f(n: Annotated[int, AfterValidator(even)]): ...

    assert refusal(f, n=3) == "n: must be even, got 3"


def test_long_values_and_long_lists_of_problems_are_cut():
    def f(a: list[int], b: int = 0): ...

    text = refusal(f, a=["x" * 1000] * 50)
    assert len(text) < 1500
    assert text.endswith("... and 40 more")


@pytest.mark.parametrize("sample", samples.SAMPLES, ids=range(len(samples.SAMPLES)))
def test_no_text_shows_internals(sample: Any):
    tool = as_tools([sample])[0]
    for junk in (5, [1], {"x": {"y": []}}, None, "text"):
        text = outcome(tool, dict.fromkeys("abcde", junk))
        for word in ("pydantic", "http", "BaseModel", "function-", "Arguments"):
            assert word not in text


# Arguments that the model must not set.


def test_unknown_arguments_are_refused_unless_the_function_accepts_them():
    assert "no such argument; known: a" in refusal(lambda_free, a=1, b=2)
    assert validated(samples.open_ended, a=1, b={"c": 2}) == {"a": 1, "b": {"c": 2}}
    assert validated(samples.all_kinds, a=1, b=2, c=3, d="4") == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert refusal(samples.all_kinds, a=1, b=2, c=3, d="x") == "d: expected an integer, got 'x'"


def lambda_free(a: int): ...


def test_the_model_cannot_set_an_injected_argument():
    def secret() -> str:
        return "s"

    def f(a: int, token: Annotated[str, Depends(secret)], **kwargs: Any): ...
    def g(a: int, token: Annotated[str, Depends(secret)]): ...

    assert refusal(f, a=1, token="mine") == "token: no such argument; known: a"
    assert refusal(g, a=1, token="mine") == "token: no such argument; known: a"


# Declarations with a separate function.

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": "integer", "minimum": 1},
        "places": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"lat": {"type": "number"}},
                "required": ["lat"],
            },
        },
        "near": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["city"],
}


def get_weather(city: str, unit: str, days: int = 1, places: Any = None, near: Any = 0): ...


def test_declared_arguments_are_coerced_and_completed():
    sent = {"city": 75, "days": "3", "places": '[{"lat": "48.5"}, {"lat": 2}]', "unit": None}
    assert declared(WEATHER, get_weather).validate(json.dumps(sent)) == {
        "city": "75",
        "days": 3,
        "places": [{"lat": 48.5}, {"lat": 2}],
        "unit": "c",
    }


def test_declared_defaults_reach_into_nested_objects():
    inner = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": inner}}}
    assert declared(schema).validate('{"a": [{}, {"n": 2}]}') == {"a": [{"n": 1}, {"n": 2}]}


def test_declared_integers_arrive_as_integers():
    value = declared(WEATHER, get_weather).validate('{"city": "Paris", "days": 2.0, "near": null}')
    assert type(value["days"]) is int
    assert value["near"] is None


def test_violations_of_a_declared_schema_have_the_same_messages():
    with pytest.raises(InvalidArguments) as caught:
        declared(WEATHER, get_weather).validate(
            '{"unit": "kelvin", "days": 0, "places": [{"lat": 1}, {}, {"lat": "x"}], "colour": 1}'
        )
    assert str(caught.value).splitlines() == [
        "unit: expected one of 'c', 'f', got 'kelvin'",
        "days: expected at least 1, got 0",
        "places[1].lat: required, but missing",
        "places[2].lat: expected a number, got 'x'",
        "colour: no such argument; known: city, unit, days, places, near",
        "city: required, but missing",
    ]


@pytest.mark.parametrize(
    ("schema", "sent", "text"),
    [
        ({"type": ["string", "null"]}, [], "expected a string or null, got []"),
        ({"const": 3}, 4, "expected 3, got 4"),
        ({"maximum": 3}, 4, "expected at most 3, got 4"),
        ({"exclusiveMinimum": 3}, 3, "expected more than 3, got 3"),
        ({"exclusiveMaximum": 3}, 3, "expected less than 3, got 3"),
        ({"multipleOf": 3}, 4, "expected a multiple of 3, got 4"),
        ({"maxLength": 1}, "ab", "expected at most 1 characters, got 'ab'"),
        ({"minItems": 1}, [], "expected at least 1 items, got []"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items, got [1,2]"),
        ({"uniqueItems": True}, [1, 1], "expected items without duplicates, got [1,1]"),
        ({"pattern": "^a"}, "b", "expected text that matches ^a, got 'b'"),
        ({"not": {"type": "string"}}, "b", "expected a value that matches the schema's 'not'"),
        (
            {"anyOf": [{"type": "integer"}, {"minLength": 2}]},
            "b",
            "expected an integer or at least",
        ),
        ({"unevaluatedProperties": False}, {"x": 1}, ".x: no such argument"),
    ],
)
def test_each_keyword_of_a_declared_schema_has_a_message(
    schema: dict[str, Any], sent: Any, text: str
):
    tool = declared({"type": "object", "properties": {"a": schema}})
    assert outcome(tool, {"a": sent}).startswith(f"a{'' if text[0] == '.' else ': '}{text}")


def test_undeclared_arguments_reach_a_function_that_accepts_any():
    assert declared(WEATHER, lambda **_: None).validate('{"city": "Paris", "x": 1}')["x"] == 1
    open_schema = {**WEATHER, "additionalProperties": True}
    assert declared(open_schema, get_weather).validate('{"city": "Paris", "x": 1}')["x"] == 1


def test_a_declared_default_is_a_copy_for_each_call():
    tool = declared({"type": "object", "properties": {"a": {"type": "array", "default": []}}})
    tool.validate("{}")["a"].append(1)
    assert tool.validate("{}") == {"a": []}


def test_a_broken_schema_is_a_config_error_and_is_never_fetched():
    for schema in ({"type": "objekt"}, {"$ref": "http://localhost:1/x"}, {"$ref": "#/$defs/gone"}):
        with pytest.raises(ConfigError, match="declared: the parameters are not a JSON Schema"):
            declared(schema).validate("{}")


DECLARED = [
    declared(schema)
    for schema in (
        WEATHER,
        {},
        {"$ref": "#/$defs/a", "$defs": {"a": WEATHER}},
        {"allOf": [WEATHER]},
    )
]


@settings(max_examples=examples(60), deadline=None)
@given(value=any_json)
def test_random_json_against_a_declared_schema_is_accepted_or_refused(value: Any):
    for tool in DECLARED:
        for sent in (value, {"places": value, "near": value, "unit": value}):
            assert outcome(tool, sent) != ""


def test_a_recursive_schema_and_a_reference_to_itself_end():
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert declared(tree).validate('{"kids": "[{\\"kids\\": []}]"}') == {"kids": [{"kids": []}]}
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert declared(loop).validate('{"a": [1]}') == {"a": [1]}
    with pytest.raises(ConfigError, match="refers to itself"):
        declared({"type": "object", "anyOf": [{"$ref": "#"}]}).validate('{"a": [1]}')


def test_the_message_of_a_model_validator_is_reported():
    class Range(BaseModel):
        low: int
        high: int

        def model_post_init(self, context: Any) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    def f(range: Range): ...

    assert refusal(f, range={"low": 2, "high": 1}).startswith("range: low is above high, got")
