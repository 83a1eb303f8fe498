"""Putting a turn together, and deciding what it means."""

from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass import (
    FunctionCall,
    InlineData,
    Message,
    PartReceived,
    StreamCut,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    Usage,
)
from windlass.events import FinishReason
from windlass.loop.policy import END_REASONS, Policy, Step, next_step
from windlass.loop.turn import Turn, TurnBuilder

A, B = FunctionCall("a", "{}", "1"), FunctionCall("b", "{}", "2")


def built(*events: Any) -> Turn:
    builder = TurnBuilder()
    for event in events:
        builder.add(event)
    return builder.turn()


def test_neighbouring_deltas_become_one_part_in_the_models_order() -> None:
    turn = built(
        ThoughtDelta("h"),
        ThoughtDelta("m"),
        TextDelta("Let "),
        TextDelta("me."),
        ToolCallStarted(0, "1", "a"),
        ToolCallDelta(0, "{}"),
        ToolCallEnded(0, A),
        TextDelta("And"),
        PartReceived(InlineData(b"x", "image/png")),
        TurnEnded("stop", Usage(1, 2, 3), message_extra={"openai": {"x": 1}}),
    )
    assert turn.message == Message(
        "assistant",
        (Thought("hm"), Text("Let me."), A, Text("And"), InlineData(b"x", "image/png")),
        {"openai": {"x": 1}},
    )
    assert (turn.calls, turn.usage) == ((A,), Usage(1, 2, 3))


def test_a_signed_part_is_never_merged_or_moved() -> None:
    turn = built(
        TextDelta("a"),
        TextDelta("b", "sig"),
        TextDelta("c"),
        TextDelta("", "last"),
        TurnEnded("stop"),
    )
    assert turn.message.parts == (Text("a"), Text("b", "sig"), Text("c"), Text("", "last"))


def test_interleaved_calls_keep_the_order_of_their_starts() -> None:
    turn = built(
        ToolCallStarted(0, "1", "a"),
        ToolCallStarted(1, "2", "b"),
        ToolCallEnded(1, B),
        ToolCallEnded(0, A),
        TurnEnded("tool_calls"),
    )
    assert turn.calls == (A, B)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [TextDelta("a")],
        [ToolCallStarted(0, "1", "a"), TurnEnded("stop")],
    ],
)
def test_a_turn_without_its_end_or_the_end_of_a_call_is_cut(events: list[Any]) -> None:
    with pytest.raises(StreamCut):
        built(*events)


def test_text_before_an_interruption_is_preserved_without_the_calls() -> None:
    builder = TurnBuilder()
    assert builder.partial() is None
    for event in (TextDelta("a"), ToolCallStarted(0, "1", "a"), ToolCallEnded(0, A)):
        builder.add(event)
    assert builder.partial() == Message.assistant("a")


@given(st.lists(st.text(max_size=4)))
def test_however_a_text_is_split_it_is_the_same_turn(pieces: list[str]) -> None:
    whole = "".join(pieces)
    turn = built(*map(TextDelta, pieces), TurnEnded("stop"))
    assert turn.message.parts == ((Text(whole),) if whole else ())


PLAIN = st.builds(TextDelta, st.text(max_size=4))
DELTAS = st.one_of(
    PLAIN,
    PLAIN,
    st.builds(TextDelta, st.text(max_size=4), about=st.just({"model": "m"})),
    st.builds(TextDelta, st.text(max_size=4), st.sampled_from(["sig", None])),
    st.builds(TextDelta, st.text(max_size=4), logprobs=st.just({"content": [{"token": "a"}]})),
    st.builds(ThoughtDelta, st.text(max_size=4)),
)


@example([[TextDelta("a", about={"model": "m"}), TextDelta("b")]])
@example([[TextDelta("a"), TextDelta("b", about={"model": "m"})]])
@given(st.lists(st.lists(DELTAS, min_size=1, max_size=4)))
def test_texts_that_came_together_are_the_same_turn(batches: list[list[Any]]) -> None:
    builder = TurnBuilder()
    for batch in batches:
        characters = builder.add_texts(batch)
        if characters is None:
            for event in batch:
                builder.add(event)
        else:
            assert characters == sum(len(event.text) for event in batch)
    builder.add(TurnEnded("stop"))
    assert builder.turn() == built(
        *(each for batch in batches for each in batch), TurnEnded("stop")
    )


def test_every_finish_reason_has_a_meaning() -> None:
    assert set(END_REASONS) == set(get_args(FinishReason))


@pytest.mark.parametrize("finish", get_args(FinishReason))
@pytest.mark.parametrize("has_calls", [True, False])
def test_every_turn_has_a_next_step(finish: FinishReason, has_calls: bool) -> None:
    turn = Turn(Message.assistant(), (A,) if has_calls else (), finish, Usage())
    step = next_step(turn, Policy(), 0, tools_off=False)
    if not has_calls or finish in ("content_filter", "malformed_call"):
        assert step is Step.END
    else:
        assert step is (Step.REFUSE_CALLS if finish == "length" else Step.RUN_TOOLS)
    assert next_step(turn, Policy(), 0, tools_off=True) is Step.END
