"""Reasoning becomes thoughts, with any markers; a call in it is not a call."""

import pytest
from tests.emulation.parsing import read

from windlass.emulation.parser import render_call

CALL = render_call("search", {"query": "x"})
MARKS = {
    "<think>": "</think>",
    "<seed:think>": "</seed:think>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<|channel>thought\n": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|content_thinking|>": "<|end_message|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
}


@pytest.mark.parametrize("opening", MARKS)
def test_thoughts_are_apart_from_text(opening: str) -> None:
    text = f"{opening}one {{two}}{MARKS[opening]}\n\nAnswer."
    for pieces in ([text], iter(text), [opening, text.removeprefix(opening)]):
        assert read(pieces) == ("\n\nAnswer.", "one {two}", [])


@pytest.mark.parametrize("opening", MARKS)
def test_a_call_in_thoughts_is_a_thought(opening: str) -> None:
    text = f"{opening}I could {CALL} but no{MARKS[opening]}Done."
    for pieces in ([text], iter(text)):
        found = read(pieces)
        assert (found.text, found.calls) == ("Done.", [])
        assert CALL in found.thoughts


@pytest.mark.parametrize("opening", MARKS)
def test_a_call_in_thoughts_that_never_end_is_a_call(opening: str) -> None:
    text = f"{opening}I shall search.{CALL}"
    for pieces in ([text], iter(text)):
        assert read(pieces) == ("", "I shall search.", [("search", {"query": "x"})])


def test_a_marker_in_endless_thoughts_that_is_not_a_call_is_a_thought() -> None:
    for inner in ("<tool_call> hm", '<tool_call>{"name": "zz"}', "<tool_call>{oops"):
        assert read(f"<think>{inner}") == ("", inner, [])


def test_endless_thoughts_may_hold_several_calls() -> None:
    found = read(f"<think>one <tool_call>{{no}} {CALL}{CALL}")
    assert found.calls == [("search", {"query": "x"})] * 2


def test_only_the_first_end_ends_thoughts() -> None:
    assert read("<think>a<think>b</think>c</think>d") == ("c</think>d", "a<think>b", [])


def test_thoughts_may_come_between_calls() -> None:
    found = read(f"<think>a</think>{CALL}\n<think>b</think>\n{CALL}")
    assert (found.text, found.thoughts, len(found.calls)) == ("", "ab", 2)


def test_the_tokens_around_an_answer_are_not_part_of_it() -> None:
    assert read("<|channel|>final<|message|>Hello<|return|>").text == "Hello"
    assert read("<|START_RESPONSE|>Hello<|END_RESPONSE|>").text == "Hello"
