"""The units that a request asks for, and their short names."""

import pytest

from windlass.content import FunctionCall
from windlass.emulation.units import is_in_unit, names_unit, wanted_units


@pytest.mark.parametrize(
    ("request_", "units"),
    [
        ("How warm is it in degrees Celsius?", ["celsius"]),
        ("The wind in Oslo, in metres per second", ["oslo", "metres per second"]),
        ("Its speed in km/h", ["km/h"]),
        ("How warm is it?", []),
    ],
)
def test_a_request_names_what_it_wants_a_number_in(request_: str, units: list[str]) -> None:
    assert list(wanted_units(request_)) == units


@pytest.mark.parametrize(
    ("text", "unit", "named"),
    [
        ("knots", "knots", True),
        ('{"unit":"knot"}', "knots", True),
        ('{"unit":"m/s"}', "metres per second", True),
        ('{"wind_kmh":9}', "km per hour", True),
        ('{"wind_kmh":9}', "knots", False),
        ('{"unit":"mph"}', "metres per second", False),
        ('{"unit":"kg"}', "pounds", False),
    ],
)
def test_a_text_names_a_unit_or_its_short_form(text: str, unit: str, named: bool) -> None:
    assert names_unit(text, unit) is named


def test_the_arguments_of_a_call_and_not_their_names_are_its_units() -> None:
    assert is_in_unit(FunctionCall("convert", '{"value":9,"to":"kg"}'), "kilograms")
    assert not is_in_unit(FunctionCall("convert", '{"value":9,"to":"knots"}'), "total")
    assert not is_in_unit(FunctionCall("convert", "no object"), "knots")
