"""The demo's tools: what they answer, and what they refuse."""

from typing import Any

import pytest

from windlass import AsyncClient, FunctionCall
from windlass.cli.demo_tools import TOOLS
from windlass.testing import ScriptedModel


async def answer_of(name: str, json: str) -> Any:
    client = AsyncClient(ScriptedModel([]), mode="native")
    [response] = await client.execute([FunctionCall(name, json, "call_1")], tools=TOOLS)
    return response.output if response.error is None else response.error


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("17 + 4 * 3", 29),
        ("(17 + 4) * 3", 63),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("1 / 4", 0.25),
        ("+1.5", 1.5),
    ],
)
async def test_arithmetic_is_right(expression: str, value: float) -> None:
    assert await answer_of("calculate", f'{{"expression": "{expression}"}}') == value


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "2 +", "__import__('os')", "9 ** 9 ** 9", "True + 1", "1 << 9", "1" * 201, "'a' * 3"],
)
async def test_what_is_not_arithmetic_is_refused_with_a_message(expression: str) -> None:
    said = await answer_of("calculate", f'{{"expression": "{expression}"}}')
    assert said.startswith(("Cannot calculate this", "The expression is too long"))


@pytest.mark.parametrize(
    ("value", "given", "wanted", "converted"),
    [
        (10, "miles", "km", 16.09344),
        (5, "pounds", "kg", 2.267962),
        (1, "gallon", "litres", 3.785412),
        (100, "degrees fahrenheit", "Celsius", 37.78),
        (0, "c", "kelvin", 273.15),
        (3, "feet", "inches", 36),
    ],
)
async def test_units_are_converted(value: float, given: str, wanted: str, converted: float) -> None:
    asked = f'{{"value": {value}, "from_unit": "{given}", "to_unit": "{wanted}"}}'
    assert (await answer_of("convert_units", asked))["value"] == converted


async def test_a_length_is_no_weight() -> None:
    asked = '{"value": 1, "from_unit": "mile", "to_unit": "kg"}'
    assert await answer_of("convert_units", asked) == "Cannot convert 'mile' to 'kg'."


@pytest.mark.parametrize("place", ["Tokyo", "new york", "Europe/Paris", "UTC"])
async def test_the_time_is_known_in_cities_and_zones(place: str) -> None:
    said = await answer_of("get_time", f'{{"place": "{place}"}}')
    assert said["place"] == place
    assert len(said["time"]) == len("12:34")


async def test_a_place_without_a_zone_is_said_to_be_unknown() -> None:
    assert "Europe/Paris" in await answer_of("get_time", '{"place": "Atlantis"}')


async def test_the_weather_of_a_city_is_the_same_each_time_and_in_both_units() -> None:
    warm = await answer_of("get_weather", '{"city": "Paris"}')
    assert warm == await answer_of("get_weather", '{"city": "Paris"}')
    other = await answer_of("get_weather", '{"city": "Paris", "unit": "fahrenheit"}')
    assert other["temperature"] == round(warm["temperature"] * 9 / 5 + 32)


async def test_the_test_tool_repeats_what_it_receives() -> None:
    assert await answer_of("test_tool", '{"message": "Hello", "count": 2}') == "Hello Hello"
    assert await answer_of("test_tool", '{"message": "Hello"}') == "Hello"
