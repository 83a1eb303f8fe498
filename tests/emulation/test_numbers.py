"""Numbers in an answer: which of them come from a request or a result."""

import pytest

from windlass.emulation.numbers import Numbers


def known(*values: object) -> Numbers:
    numbers = Numbers()
    for value in values:
        numbers.add(value)
    return numbers


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ({"temperature": 18, "unit": "celsius"}, "It is 18 °C."),
        ({"temperature": -4}, "It is -4 degrees, minus 4 in words."),
        ({"result": 154.3236}, "That is about 154.32 pounds, or 154.3, or 154."),
        ({"result": 7006652}, "The product is 7,006,652."),
        ("1,234 apples", "There are 1234."),
        ({"time": "13:05"}, "It is 1:05 PM, or 13:05."),
        ({"date": "2026-11-17"}, "It is November 17, 2026."),
        ({"share": 0.15}, "That is 15%."),
        ("15% of 80", '{"expression": "0.15 * 80"}'),
        ("a dozen eggs", "12 eggs"),
        ("a tenth of that", "divided by 10"),
        ("on May 15th, 2023", '{"date": "2023-05-15"}'),
        ("next Saturday, today is April 25th", '{"date": "2023-04-29"}'),
        ("on 2023.4.15 at noon", '{"start": "2023-04-15 12:00:00"}'),
        ("最多10个", "10"),
        ("the P4 tickets, at most 12GB", "priority 4, 12"),
        ("at 3 PM or 5:30 p.m.", "15:00 and 17:30"),
        ("Twenty people", "20 people"),
        ("2 million euros", "2,000,000 euros"),
        ("nothing", "1. First\n2. Second\n12. Twelfth"),
        ("nothing", "Both of the 2 cities are cold."),
        ("nothing", "No number at all, B2B and utf8 included."),
    ],
)
def test_these_numbers_come_from_the_source(source: object, answer: str) -> None:
    assert known(source).unknown(answer) == []


@pytest.mark.parametrize(
    ("source", "answer", "made_up"),
    [
        ({"temperature": 18}, "It is 64.4 °F.", [64.4]),
        ({"result": 41.8429}, "A quarter of it is 10.46.", [10.46]),
        ({"temperature": 33}, "Three times 33 is 99.", [99]),
        ("Paris", "Paris has 2,100,000 people.", [2100000]),
        ({"temperature": 18}, "It is 19 °C.", [19]),
        ("Weather in Paris", '{"date": "2023-04-29"}', [2023, 4, 29]),
    ],
)
def test_these_numbers_are_made_up(source: object, answer: str, made_up: list[float]) -> None:
    assert known(source).unknown(answer) == made_up


def test_arguments_are_explained_if_all_their_numbers_are() -> None:
    numbers = known("Convert 26 miles to km")
    assert numbers.explain({"value": 26, "from_unit": "miles"})
    assert not numbers.explain({"value": 41.8, "from_unit": "km"})
    assert numbers.explain("no JSON, but 26")
