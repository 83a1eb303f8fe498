"""The forms that descriptions ask for, as rules of a grammar."""

import pytest

from windlass.content import FunctionDeclaration
from windlass.emulation.forms import form_rule, in_form
from windlass.emulation.program import grammar_of, offered_functions

TWO_PARTS = r'"\"" [^",\\\n]{1,80} ", " [^"\\\n]{1,80} "\""'
WITH_CODE = r'"\"" [^",\\\n]{1,80} ", " [A-Z] [A-Z] "\""'


@pytest.mark.parametrize(
    ("description", "rule"),
    [
        ("A day, in the format 'YYYY-MM-DD'.", r'"\"" [0-9]{4} "-" [0-9]{2} "-" [0-9]{2} "\""'),
        (
            "The day (dd/mm/yyyy).",
            (
                r'"\"" [0-9]{2} "/" [0-9]{2} "/" [0-9]{4} "\""'
                r' | "\"" [0-9]{4} "-" [0-9]{2} "-" [0-9]{2} "\""'
            ),
        ),
        ("The hour as HH:MM.", r'"\"" [0-9]{2} ":" [0-9]{2} "\""'),
        (
            "YYYY-MM-DDTHH:MMZ",
            r'"\"" [0-9]{4} "-" [0-9]{2} "-" [0-9]{2} "T" [0-9]{2} ":" [0-9]{2} "Z\""',
        ),
        ("Where, in the format of 'City, State'.", TWO_PARTS),
        ("The city and country, such as 'Rome, Italy'.", TWO_PARTS),
        ("The city to start from, such as 'New York, NY'.", WITH_CODE),
        ("'City, State', such as 'New York, NY' or 'Austin, TX'.", WITH_CODE),
        ("'City, State' or 'City, Country', such as 'Reno, NV' or 'Paris, FR'.", WITH_CODE),
        ("'City, State' or 'City, Country', such as 'New York, NY'.", TWO_PARTS),
        ("'City, State', such as 'New York, NY' or 'Paris, France'.", TWO_PARTS),
    ],
)
def test_a_description_asks_for_this_form(description: str, rule: str) -> None:
    assert form_rule(description) == rule


@pytest.mark.parametrize(
    "description",
    [
        "",
        "The city.",
        "Name of the city, state, or country.",
        "The year, as YYYY.",
        "A comment on the summary.",
        "'YYYY-MM-DD', or 'HH:MM' for today.",
        "MM-DD-YYY",
    ],
)
def test_a_description_asks_for_no_form_or_for_one_of_several(description: str) -> None:
    assert form_rule(description) is None


def test_a_form_leaves_the_default_and_variables() -> None:
    day = {"type": "string", "description": "As YYYY-MM", "default": 'any "day"'}
    schema = {"type": "object", "properties": {"day": day}, "required": ["day"]}
    grammar = grammar_of(offered_functions([FunctionDeclaration("plan", "", schema)]))
    form = r'"\"" [0-9]{4} "-" [0-9]{2} "\""'
    default = r'"\"any \\\"day\\\"\""'
    assert f'c0 ::= "plan(" "day=" ({form} | reference | {default}) ")"' in grammar


def test_the_form_of_a_result_is_no_form_of_the_parameter() -> None:
    form = {"type": "string", "description": "The format of the result, such as MM-DD-YYYY."}
    schema = {"type": "object", "properties": {"dateFormat": form}}
    grammar = grammar_of(offered_functions([FunctionDeclaration("day_of", "", schema)]))
    assert 'o0 ::= "dateFormat=" (text)' in grammar


@pytest.mark.parametrize(
    ("text", "description", "expected"),
    [
        ("2023-05-15", "In the format 'MM/DD/YYYY'.", "05/15/2023"),
        ("2023-05-15", "dd.mm.yyyy", "15.05.2023"),
        ("2023-05-15", "YYYY-MM-DD", "2023-05-15"),
        ("2023-05-15", "A day.", "2023-05-15"),
        ("05/15/2023", "MM/DD/YYYY", "05/15/2023"),
        ("2023-05-15", "YYYY-MM-DD HH:MM", "2023-05-15"),
        ("tomorrow", "MM/DD/YYYY", "tomorrow"),
    ],
)
def test_an_iso_date_gets_the_form_that_is_asked_for(
    text: str, description: str, expected: str
) -> None:
    assert in_form(text, description) == expected


def test_the_default_is_allowed_beside_the_values_of_an_enum() -> None:
    status = {"type": "string", "enum": ["open", "closed"], "default": "all"}
    schema = {
        "type": "object",
        "properties": {"status": status, "kind": {**status, "default": "open"}},
    }
    grammar = grammar_of(offered_functions([FunctionDeclaration("tickets", "", schema)]))
    values = r'"\"open\"" | "\"closed\""'
    assert rf'o0 ::= "status=" ({values} | "\"all\"") | "kind=" ({values})' in grammar
