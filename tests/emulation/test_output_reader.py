"""The readers of `OutputModel`: JSON among other text, and the call of the final-answer tool."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.content import FunctionCall
from windlass.emulation.output import FinalCallReader, JsonAnswerReader
from windlass.events import (
    ModelEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.output.spec import OutputSpec

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\{}[]\n', max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"}', max_size=3), inner),
    max_leaves=8,
)


def read(reader: Any, *events: ModelEvent) -> list[ModelEvent]:
    return [passed for event in events for passed in reader.feed(event)]


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(
    st.dictionaries(st.text(max_size=3), VALUES) | st.lists(VALUES, max_size=4),
    st.integers(1, 9),
    st.sampled_from(["", "```json\n", "Here it is: "]),
    st.sampled_from(["", "\n```", " I hope that {this} helps ]."]),
)
def test_only_the_json_value_passes_whatever_the_pieces(
    value: Any, size: int, before: str, after: str
) -> None:
    text = before + json.dumps(value) + after
    pieces = [TextDelta(text[i : i + size]) for i in range(0, len(text), size)]
    assert text_of(read(JsonAnswerReader(), *pieces, TurnEnded("stop"))) == json.dumps(value)


def test_text_without_json_passes_at_the_end() -> None:
    end = TurnEnded("stop")
    events = read(JsonAnswerReader(), TextDelta("I can"), TextDelta("not."), end)
    assert events == [TextDelta("I can"), TextDelta("not."), end]


def test_text_before_a_call_passes() -> None:
    started = ToolCallStarted(0, "a", "price")
    assert read(JsonAnswerReader(), TextDelta("Let me see."), started) == [
        TextDelta("Let me see."),
        started,
    ]


def test_only_an_object_begins_where_an_object_is_asked_for() -> None:
    events = read(JsonAnswerReader("{"), TextDelta('[1] {"a": [2]} {}'), TurnEnded("stop"))
    assert text_of(events) == '{"a": [2]}'


def final(index: int, *pieces: str, name: str = "final_answer") -> list[ModelEvent]:
    call = FunctionCall(name, "".join(pieces), f"c{index}")
    deltas = [ToolCallDelta(index, piece) for piece in pieces]
    return [ToolCallStarted(index, call.id, name), *deltas, ToolCallEnded(index, call)]


def reader_of(schema: dict[str, Any]) -> FinalCallReader:
    return FinalCallReader("final_answer", OutputSpec(schema=schema), JsonAnswerReader())


def test_the_final_call_becomes_text_while_it_is_written() -> None:
    reader = reader_of({"type": "object"})
    events = read(reader, TextDelta("Done. "), *final(0, '{"a":', " 1}"), TurnEnded("tool_calls"))
    assert events == [TextDelta('{"a":'), TextDelta(" 1}"), TurnEnded("stop")]


def test_a_final_call_without_pieces_becomes_text_at_its_end() -> None:
    started, *_ = final(0, '{"a": 1}')
    ended = ToolCallEnded(0, FunctionCall("final_answer", '{"a": 1}', "c0"))
    assert text_of(read(reader_of({"type": "object"}), started, ended)) == '{"a": 1}'


def test_other_calls_pass_with_numbers_from_zero() -> None:
    others = final(1, "{}", name="price")
    events = read(reader_of({"type": "object"}), *final(0, "{}"), *others, TurnEnded("tool_calls"))
    made = [event for event in events if not isinstance(event, TextDelta)]
    assert [getattr(event, "index", None) for event in made] == [0, 0, 0, None]
    assert made[-1] == TurnEnded("tool_calls")


@pytest.mark.parametrize("written", ['{"value": [1, 2]}', '{"value":[1,2]}'])
def test_a_value_that_is_no_object_leaves_its_wrapper(written: str) -> None:
    events = read(reader_of({"type": "array"}), *final(0, written), TurnEnded("tool_calls"))
    assert text_of(events) == "[1,2]"


def test_without_the_final_call_the_text_is_the_answer() -> None:
    fenced = TextDelta('```json\n{"a": 1}\n```')
    events = read(reader_of({"type": "object"}), fenced, TurnEnded("stop"))
    assert text_of(events) == '{"a": 1}'
