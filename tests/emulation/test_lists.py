"""A list in a request gets one call for each of its items."""

import pytest

from windlass.content import FunctionDeclaration
from windlass.emulation.lists import one_for_each
from windlass.emulation.program import Program, offered_functions

SEARCH = FunctionDeclaration(
    "search",
    "",
    {
        "type": "object",
        "properties": {
            "about": {"type": "string"},
            "all": {"type": "string", "description": "A list, separated by commas."},
            "place": {"type": "string"},
        },
        "required": ["about", "all"],
    },
)


def searched(arguments: str, request: str, *others: str) -> list[str]:
    lines = "\n".join([f"x = search({arguments})", *others])
    program = Program.read(lines, offered_functions([SEARCH]))
    steps = one_for_each(program.steps[0], request, program.steps)
    return [each.line.partition(" = ")[2] for each in steps]


@pytest.mark.parametrize(
    ("value", "request_", "values"),
    [
        ("Java", "Experts for Python and Java", ["Python", "Java"]),
        ("Rome", "The news in Rome and in Oslo", ["Rome", "Oslo"]),
        (
            "Lima",
            "Flights to New York, Rio de Janeiro & Lima",
            ["New York", "Rio de Janeiro", "Lima"],
        ),
        ("tea", "News about 'tea' and 'hot milk', please", ["tea", "hot milk"]),
        ("tea", 'News about "tea" and "hot milk"', ["tea", "hot milk"]),
        ("tea, hot milk", 'News about "tea" and "hot milk"', ["tea", "hot milk"]),
        ("Rome and Lima", "The news of Rome, Oslo, and Lima", ["Rome", "Lima"]),
    ],
)
def test_a_call_is_made_for_each_item(value: str, request_: str, values: list[str]) -> None:
    given = [f"search(about={each!r})" for each in values]
    assert searched(f"about={value!r}", request_) == given


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        ('about="Trinidad and Tobago"', "News of Trinidad and Tobago"),
        ('about="Rome"', "The news of Rome and the weather"),
        ('about="Rome"', "The news of Rome, and I like it"),
        ('about="Rome", place="Oslo"', "From Rome and Oslo"),
        ('about="news", place="Rome"', "The news of Rome and Oslo"),
        ('about="Paris, France"', "News of Paris in France"),
        ('all="Rome"', "The news of Rome and Oslo"),
        ('about="Lima"', "The news of Rome and Oslo"),
    ],
)
def test_other_calls_stay_as_they_are(arguments: str, request_: str) -> None:
    assert len(searched(arguments, request_)) == 1


def test_an_item_of_another_call_gets_no_second_one() -> None:
    other = 'y = search(about="Oslo")'
    assert len(searched('about="Rome"', "The news of Rome and Oslo", other)) == 1


def test_a_call_that_uses_a_result_stays_as_it_is() -> None:
    lines = 'x = search(about="Lima")\ny = search(about="Rome", place=x)'
    program = Program.read(lines, offered_functions([SEARCH]))
    step = program.steps[1]
    assert one_for_each(step, "The news of Rome and Oslo", program.steps) == [step]
