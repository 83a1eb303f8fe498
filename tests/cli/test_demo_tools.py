"""The demo's tools: what they answer, and what they refuse."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass import AsyncClient, FunctionCall
from windlass.cli import demo, demo_tools
from windlass.cli.demo_places import place_named, weather_of
from windlass.cli.demo_tools import TOOLS
from windlass.jsontext import compact_json
from windlass.testing import ScriptedModel

SUMMER, WINTER = date(2027, 7, 14), date(2027, 1, 14)


async def answer_of(name: str, **arguments: Any) -> Any:
    client = AsyncClient(ScriptedModel([]), mode="native")
    call = FunctionCall(name, compact_json(arguments), "call_1")
    [response] = await client.execute([call], tools=TOOLS)
    return response.output if response.error is None else response.error


async def test_the_calculator_returns_the_expression_and_its_value() -> None:
    answer = await answer_of("calculate", expression="15% of 80")
    assert answer == {"expression": "15% of 80", "result": 12}


async def test_the_model_reads_why_something_cannot_be_calculated() -> None:
    answer = await answer_of("calculate", expression="1 / 0")
    assert answer == "Cannot calculate '1 / 0': a division by zero."


@pytest.mark.parametrize(
    ("value", "given", "wanted", "converted"),
    [
        (10, "miles", "km", 16.0934),
        (10, "kilometers", "Miles", 6.2137),
        (5, "pounds", "kg", 2.268),
        (70, "kg", "lbs", 154.3236),
        (1, "gallon", "litres", 3.7854),
        (100, "degrees fahrenheit", "Celsius", 37.78),
        (18, "°C", "°F", 64.4),
        (0, "c", "kelvin", 273.15),
        (3, "feet", "inches", 36),
        (90, "minutes", "hours", 1.5),
        (100, "km/h", "mph", 62.1371),
        (100, "kilometers per hour", "miles per hour", 62.1371),
        (3, "sq ft", "m²", 0.2787),
        (2, "GB", "megabytes", 2000),
        (1, "mm", "miles", 6.214e-07),
    ],
)
async def test_units_are_converted(value: float, given: str, wanted: str, converted: float) -> None:
    answer = await answer_of("convert_units", value=value, from_unit=given, to_unit=wanted)
    assert answer["result"] == converted
    assert answer["value"] == value


async def test_units_of_different_kinds_are_not_converted() -> None:
    answer = await answer_of("convert_units", value=1, from_unit="mile", to_unit="kg")
    assert answer == "Cannot convert 'mile' to 'kg'."


@pytest.mark.parametrize(
    "place", ["Tokyo", "new york", "Europe/Paris", "UTC", "San Francisco", "Munich, Germany"]
)
async def test_the_time_is_known_in_cities_and_zones(place: str) -> None:
    answer = await answer_of("get_time", place=place)
    assert answer["place"] == place
    assert len(answer["time"]) == len("12:34")


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ("São Paulo", "America/Sao_Paulo"),
        ("Kyoto", "Asia/Tokyo"),
        ("Seattle", "America/Los_Angeles"),
        ("Zürich", "Europe/Zurich"),
        ("Washington D.C.", "America/New_York"),
    ],
)
async def test_a_place_has_its_own_zone(place: str, zone: str) -> None:
    assert (await answer_of("get_time", place=place))["zone"] == zone


async def test_an_unknown_place_has_no_time() -> None:
    assert "Europe/Paris" in await answer_of("get_time", place="Atlantis")


async def test_the_weather_of_a_day_is_the_same_each_time_and_in_both_units() -> None:
    first = await answer_of("get_weather", city="Paris", day="2027-01-31")
    assert first == await answer_of("get_weather", city="Paris", day="2027-01-31")
    other = await answer_of("get_weather", city="Paris", day="2027-01-31", unit="fahrenheit")
    assert other["temperature"] == round(first["temperature"] * 9 / 5 + 32)
    assert (other["sky"], other["date"]) == (first["sky"], "2027-01-31")


async def test_the_weather_is_that_of_today_unless_another_day_is_asked_for() -> None:
    today = date.fromisoformat((await answer_of("get_weather", city="UTC"))["date"])
    tomorrow = await answer_of("get_weather", city="UTC", day="Tomorrow")
    friday = await answer_of("get_weather", city="UTC", day="on Friday")
    assert date.fromisoformat(tomorrow["date"]) - today in (timedelta(1), timedelta(2))
    assert date.fromisoformat(friday["date"]).weekday() == 4


async def test_an_unknown_day_is_refused_with_examples() -> None:
    assert "tomorrow" in await answer_of("get_weather", city="Paris", day="someday")


def mean(city: str, middle: date) -> float:
    days = [middle + timedelta(days=offset) for offset in range(-15, 16)]
    return sum(weather_of(city, day).celsius for day in days) / len(days)


@pytest.mark.parametrize(
    ("city", "winter", "summer"),
    [
        ("Oslo", (-8, 4), (12, 22)),
        ("Paris", (2, 10), (16, 25)),
        ("Cairo", (12, 19), (25, 34)),
        ("Singapore", (24, 31), (24, 31)),
        ("Sydney", (20, 30), (9, 18)),
        ("Chicago", (-6, 7), (20, 30)),
    ],
)
def test_the_weather_fits_the_place_and_the_season(
    city: str, winter: tuple[int, int], summer: tuple[int, int]
) -> None:
    assert winter[0] <= mean(city, WINTER) <= winter[1]
    assert summer[0] <= mean(city, SUMMER) <= summer[1]


def test_snow_falls_only_when_it_freezes() -> None:
    for offset in range(365):
        weather = weather_of("Oslo", WINTER + timedelta(days=offset))
        assert ("snow" in weather.sky) <= (weather.celsius <= 0)


def test_a_city_that_is_not_in_the_table_has_weather_too() -> None:
    assert place_named("Little Whinging") is None
    assert -15 < weather_of("Little Whinging", WINTER).celsius < 20


async def test_the_shopping_list_keeps_what_was_added(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path))
    add = demo_tools.add_to_shopping_list.function
    assert add is not None
    assert add(item="oat  milk") == {"added": "oat milk", "list": ["oat milk"]}
    assert add(item="bread\n")["list"] == ["oat milk", "bread"]
    assert (tmp_path / demo_tools.SHOPPING_LIST).read_text() == "oat milk\nbread\n"


def test_only_the_tool_that_changes_something_needs_approval() -> None:
    assert [tool.name for tool in TOOLS if tool.options.approve] == ["add_to_shopping_list"]


def test_the_demo_has_no_tool_for_tests_and_four_example_prompts() -> None:
    assert "test_tool" not in [tool.name for tool in TOOLS]
    assert len(demo.EXAMPLES) == 4
