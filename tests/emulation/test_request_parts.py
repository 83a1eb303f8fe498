"""The parts of a request: what it asks for, and in which order."""

import pytest

from windlass.emulation.request_parts import asking_parts, is_in_sequence, parts_of


@pytest.mark.parametrize(
    ("request_text", "parts"),
    [
        ("What is the weather in Rome?", []),
        ("Hello! What is the weather in Rome?", []),
        (
            "What is the weather in Rome? Convert the temperature to Kelvin.",
            ["What is the weather in Rome?", "Convert the temperature to Kelvin."],
        ),
        ("Look up Cairo and multiply it by 3.", ["Look up Cairo", "multiply it by 3."]),
        ("Is Rome warm, and is Oslo cold?", ["Is Rome warm", "is Oslo cold?"]),
        ("Multiply 45 by 3, then halve that", ["Multiply 45 by 3", "halve that"]),
    ],
)
def test_a_request_has_these_parts(request_text: str, parts: list[str]) -> None:
    assert parts_of(request_text) == parts


def test_only_parts_that_ask_for_something_count() -> None:
    assert asking_parts("How is Rome? I am going there.") == ["How is Rome?"]
    assert len(asking_parts("How is Rome? What time is it?")) == 2
    assert len(asking_parts("Take 3.5 kg, convert it to pounds and double the answer.")) == 2


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Convert 26 miles to km and then divide the result by 4.", True),
        ("Look up Cairo and multiply it by 3.", True),
        ("How warm is it in Sydney, and what is that times 2?", True),
        ("Convert 100 fahrenheit to celsius and add 10 to it.", True),
        ("What time is it in Tokyo and in New York?", False),
        ("Is it warm in Cairo, and what is 3 * 4?", False),
    ],
)
def test_the_words_say_whether_one_step_needs_the_other(request_text: str, expected: bool) -> None:
    assert is_in_sequence(request_text) == expected
