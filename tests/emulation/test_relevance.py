"""How likely a function fits, and which arguments a model made up."""

import math
from typing import Any

import pytest

from windlass.emulation.relevance import first_token, fit, is_made_up, words_of


def test_the_likely_first_tokens_are_read_in_all_spellings() -> None:
    top = [{"token": each, "logprob": math.log(0.25)} for each in ("Yes", " yes", "No")]
    likely = first_token({"content": [{"token": "Yes", "top_logprobs": top}]})
    assert likely == pytest.approx({"yes": 0.5, "no": 0.25})
    assert fit("Yes", likely) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": []}, {"content": [{}]}, {"content": [{"top_logprobs": [1]}]}],
)
def test_without_probabilities_the_text_counts(logprobs: dict[str, Any] | None) -> None:
    assert first_token(logprobs) == {}
    assert fit("Yes", {}) == 1.0
    assert fit(" no", {}) == 0.0


@pytest.mark.parametrize(
    ("value", "made_up"),
    [
        ("Rome", False),
        ("rome, italy", False),
        ("Italy", False),
        ("EUR", False),
        ("2026-05-01", False),
        ("May 1, 2026", False),
        ("10:30 AM", False),
        ("user1", True),
        ("room 12", True),
        ("hotel 12", False),
        ("cm", False),
        (5, False),
        (["Rome", "Berlin"], True),
        ("Berlin", True),
        ("", False),
        ("罗马", False),
    ],
)
def test_a_text_without_a_word_of_the_request_is_made_up(value: Any, made_up: bool) -> None:
    assert is_made_up(value, "An Italian hotel in Rome next May") is made_up


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("include_tools", "include tools"),
        ("is_active", "active"),
        ("hasPool", "Pool"),
        ("vip", "vip"),
    ],
)
def test_the_words_of_a_parameters_name(name: str, words: str) -> None:
    assert words_of(name) == words


def test_a_title_is_not_known_because_of_its_article() -> None:
    assert is_made_up("The Third Man", "Buy me a ticket for the cinema")
    assert not is_made_up("The Third Man", "Two tickets for the third man")
