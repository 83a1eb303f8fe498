"""Values have the form that a parameter asks for."""

from typing import Any

import pytest

from windlass.content import FunctionDeclaration
from windlass.emulation.program import Program, offered_functions
from windlass.emulation.values import in_asked_form, named_choices

NUMBER = {"type": "number"}


@pytest.mark.parametrize("written", [5, 0.05, 5.0])
@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("rate", NUMBER, 0.05),
        ("rate", {"type": "integer"}, 5),
        ("rate", {**NUMBER, "description": "The rate as a percentage."}, 5),
        ("rate", {**NUMBER, "description": "As a decimal: 5% is 0.05."}, 0.05),
        ("rate", {**NUMBER, "description": "In the range 0 to 100."}, 5),
        ("rate", {**NUMBER, "maximum": 100}, 5),
        ("rate_percent", NUMBER, 5),
    ],
)
def test_a_percentage_has_the_form_that_the_parameter_asks_for(
    name: str, schema: dict[str, Any], expected: float, written: float
) -> None:
    for request in ("Lend 2000 at 5% for 3 years", "At 5 percent, please"):
        assert in_asked_form(name, written, schema, request) == expected


def test_the_percentages_of_a_list_have_the_form_of_its_items() -> None:
    rates = {"type": "array", "items": NUMBER, "description": "The rates."}
    assert in_asked_form("rates", [5, 0.1, 7], rates, "5% and 10%, after 7") == [0.05, 0.1, 7]


@pytest.mark.parametrize(
    ("value", "request_"),
    [(5, "5% for 5 years"), (3, "5% for 3 years"), ("5%", "5%"), (True, "1%"), (5, "for 5 years")],
)
def test_other_values_stay_as_they_are(value: object, request_: str) -> None:
    assert in_asked_form("years", value, NUMBER, request_) is value


def _step(arguments: str) -> Any:
    properties = {
        "artist": {"type": "string"},
        "genre": {"type": "string", "enum": ["folk_rock", "jazz", "all"]},
    }
    tool = FunctionDeclaration("play", "", {"type": "object", "properties": properties})
    return Program.read(f"x = play({arguments})", offered_functions([tool])).steps[0]


@pytest.mark.parametrize(
    ("arguments", "said", "expected"),
    [
        ('artist="Ada"', "All folk rock by Ada!", {"genre": "folk_rock"}),
        ('artist="Ada"', "Jazz or folk rock by Ada", {}),
        ('artist="Ada"', "All songs by Ada", {}),
        ('artist="Ada", genre="jazz"', "Folk rock by Ada", {}),
    ],
)
def test_a_choice_that_the_request_names_is_filled_in(
    arguments: str, said: str, expected: dict[str, str]
) -> None:
    assert named_choices(_step(arguments), said) == expected
