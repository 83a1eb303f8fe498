"""What people see of a run, as data: events in, blocks out."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cli.chat.view import (
    OUTCOME_STATES,
    Card,
    CardRow,
    Notice,
    RunView,
    Speech,
    Thinking,
    complete_length,
)
from windlass.content import FunctionCall, FunctionResponse, InlineData, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    Outcome,
    PartReceived,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    Status,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)

PARIS = FunctionCall("get_weather", '{"city":"Paris"}', "c1")
ROME = FunctionCall("get_weather", '{"city":"Rome"}', "c2")


def view_of(*events: RunEvent, max_rounds: int = 5) -> RunView:
    view = RunView(max_rounds)
    for event in (RunStarted("run_1", "openai/gpt", (), time=100.0), *events):
        view.add(event)
    return view


def asked(index: int, call: FunctionCall) -> list[RunEvent]:
    """The model writes a call, in two pieces."""
    return [
        ToolCallStarted(index, call.id, call.name),
        ToolCallDelta(index, call.json[:5]),
        ToolCallDelta(index, call.json[5:]),
        ToolCallEnded(index, call),
    ]


def ended(call: FunctionCall, outcome: Outcome = "ok", **fields: object) -> ToolRunEnded:
    said = {"output": "sunny"} if outcome == "ok" else {"error": "no weather"}
    return ToolRunEnded(FunctionResponse(call.name, said, call.id), outcome, **fields)  # pyright: ignore[reportArgumentType]


def only_card(view: RunView) -> Card:
    [card] = view.cards
    return card


def test_a_card_follows_its_call_from_the_first_word_to_the_answer() -> None:
    view = view_of(RoundStarted(1, "awaiting_model_call"))
    states: list[str] = []
    for event in (
        *asked(0, PARIS),
        TurnEnded("tool_calls"),
        ToolRunStarted(PARIS, 1, time=101.0),
        ToolRunProgress("c1", "get_weather", 0.5, "half way"),
        ended(PARIS, seconds=0.4),
    ):
        view.add(event)
        states.append(only_card(view).state)
    assert list(dict.fromkeys(states)) == ["writing", "waiting", "running", "done"]
    card = only_card(view)
    assert card.arguments == {"city": "Paris"}
    assert (card.began, card.seconds, card.progress, card.message) == (101.0, 0.4, 0.5, "half way")
    assert card.result == "sunny"


def test_the_arguments_can_be_seen_while_the_model_writes_them() -> None:
    view = view_of(*asked(0, PARIS)[:2])
    assert only_card(view).arguments == '{"cit'


def test_calls_of_one_turn_are_in_one_row_until_all_have_ended() -> None:
    view = view_of(*asked(0, PARIS), *asked(1, ROME), TurnEnded("tool_calls"), ended(ROME))
    [row] = view.blocks
    assert isinstance(row, CardRow)
    assert [card.state for card in row.cards] == ["waiting", "done"]
    assert not row.done
    view.add(ended(PARIS))
    assert row.done


def test_a_row_is_not_done_while_the_model_may_add_to_it() -> None:
    view = view_of(*asked(0, PARIS), ended(PARIS))
    assert not view.blocks[0].done
    view.add(TurnEnded("tool_calls"))
    assert view.blocks[0].done


def test_two_calls_with_one_id_get_an_answer_each() -> None:
    twin = FunctionCall("get_weather", '{"city":"Oslo"}', "c1")
    view = view_of(*asked(0, PARIS), *asked(1, twin), ended(PARIS), ended(twin, "error"))
    assert [card.state for card in view.cards] == ["done", "failed"]


def test_the_next_turn_has_a_row_of_its_own() -> None:
    view = view_of(
        RoundStarted(1, "awaiting_model_call"),
        *asked(0, PARIS),
        TurnEnded("tool_calls"),
        ended(PARIS),
        RoundStarted(2, "awaiting_final_response"),
        *asked(0, ROME),
    )
    assert [len(row.cards) for row in view.blocks if isinstance(row, CardRow)] == [1, 1]


def test_a_card_asks_and_shows_the_edited_arguments() -> None:
    view = view_of(*asked(0, PARIS), ApprovalRequested(PARIS))
    assert only_card(view).state == "asking"
    view.add(ApprovalResolved("c1", True, {"city": "Rome"}))
    view.add(ToolRunStarted(FunctionCall("get_weather", '{"city":"Rome"}', "c1"), 1))
    assert only_card(view).state == "running"
    assert only_card(view).arguments == {"city": "Rome"}


def test_every_outcome_has_a_state() -> None:
    assert set(OUTCOME_STATES) == set(get_args(Outcome))


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_every_card_ends_with_its_call(outcome: Outcome) -> None:
    view = view_of(*asked(0, PARIS), TurnEnded("tool_calls"), ended(PARIS, outcome))
    assert only_card(view).state == OUTCOME_STATES[outcome]
    assert view.blocks[0].done


def test_a_stop_says_what_was_cancelled_and_what_may_have_had_an_effect() -> None:
    mail = FunctionCall("send_mail", "{}", "c3")
    view = view_of(
        *asked(0, PARIS),
        *asked(1, ROME),
        *asked(2, mail),
        TurnEnded("tool_calls"),
        ended(PARIS, "stopped"),
        ended(ROME, "not_run"),
        ended(mail, "stopped", effect_unknown=True),
        RunEnded("stopped"),
    )
    assert view.blocks[-1] == Notice(
        "Stopped. May have had an effect: send_mail. Cancelled without an effect: get_weather."
        " Not started: get_weather.",
        "warning",
    )


def test_a_stop_before_any_tool_is_one_line() -> None:
    view = view_of(TextDelta("One"), RunEnded("stopped"))
    assert view.blocks == [Speech("One", done=True), Notice("Stopped.", "warning")]


def test_a_call_that_was_interrupted_ends_with_the_run() -> None:
    view = view_of(*asked(0, PARIS)[:2], RunEnded("error", error="the stream was cut"))
    assert only_card(view).state == "not run"
    assert all(block.done for block in view.blocks)
    assert view.blocks[-1] == Notice("the stream was cut", "error")


def test_thoughts_are_one_block_with_the_time_they_took() -> None:
    view = view_of(
        ThoughtDelta("Hm, ", time=101.0),
        ThoughtDelta("Paris.", time=102.0),
        TextDelta("It", time=103.5),
    )
    assert view.blocks == [Thinking(101.0, "Hm, Paris.", 2.5), Speech("It")]
    assert view.thoughts == "Hm, Paris."


def test_text_thoughts_and_calls_keep_their_order() -> None:
    view = view_of(
        TextDelta("a"), ThoughtDelta("b"), TextDelta("c"), *asked(0, PARIS), TextDelta("d")
    )
    assert [type(block) for block in view.blocks] == [Speech, Thinking, Speech, CardRow, Speech]
    assert [block.done for block in view.blocks] == [True, True, True, False, False]


def test_empty_pieces_make_no_blocks() -> None:
    assert view_of(TextDelta(""), ThoughtDelta(""), TurnEnded("stop")).blocks == []


def test_a_medium_is_named_with_its_size() -> None:
    view = view_of(TextDelta("see"), PartReceived(InlineData(b"1234", "image/png")))
    assert view.blocks == [Speech("see", done=True), Notice("[image/png, 4 bytes]")]


def test_a_status_is_announced_unless_cards_show_it() -> None:
    view = view_of(*asked(0, PARIS), Status("Executing get_weather..."), ended(PARIS))
    view.add(Status("Maximum tool execution rounds reached. Generating final response..."))
    assert [b.text for b in view.blocks if isinstance(b, Notice)] == [
        "Maximum tool execution rounds reached. Generating final response..."
    ]


def test_the_round_budget_and_disabled_tools_are_shown() -> None:
    view = view_of(RoundStarted(2, "awaiting_final_response"), max_rounds=2)
    assert view.budget == "round 2 of 2"
    view.add(RoundStarted(3, "awaiting_final_response"))
    assert view.budget == "last round, without tools"


def test_an_ended_run_has_its_usage_time_and_reason() -> None:
    usage = Usage(20, 10, 30)
    view = view_of(TextDelta("Hi"), RunEnded("length", usage, 1, time=101.5))
    assert (view.usage, view.seconds, view.reason) == (usage, 1.5, "length")
    assert view.blocks[-1] == Notice("The model's output limit cut the answer.", "warning")


def test_events_of_unknown_calls_change_nothing() -> None:
    view = view_of(
        ToolCallDelta(3, "{"),
        ToolRunStarted(PARIS, 1),
        ToolRunProgress("c1", "get_weather", 1.0),
        ApprovalRequested(PARIS),
        ApprovalResolved("c1", True),
        ended(PARIS),
    )
    assert view.blocks == []


@pytest.mark.parametrize("progress", [float("nan"), float("inf"), -3.0, 7.0])
def test_progress_is_a_fraction_whatever_a_tool_reports(progress: float) -> None:
    view = view_of(*asked(0, PARIS), ToolRunStarted(PARIS, 1))
    view.add(ToolRunProgress("c1", "get_weather", progress))
    assert only_card(view).progress in (None, 0.0, 1.0)


def test_paragraphs_that_are_whole_are_done_while_the_last_is_written() -> None:
    view = view_of(TextDelta("First.\n\nSecond"), TextDelta(" line.\n"), TextDelta("third"))
    assert view.blocks == [Speech("First.\n\n", done=True), Speech("Second line.\nthird")]


@pytest.mark.parametrize(
    "text",
    [
        "- one\n\n- two\n",
        "1. one\n\n2. two\n",
        "- one\n\n  more of one\n",
        "```python\na = 1\n\nb = 2\n",
        "````\n```\n\nstill code\n",
        "~~~\n```\n\nstill code\n",
        "> quoted\n\n> quoted\n",
        "One paragraph\nin two lines\n",
        "First.\n\nPerhaps a list",
    ],
)
def test_a_block_is_not_split(text: str) -> None:
    assert complete_length(text) == 0


def test_a_block_may_end_after_a_closed_fence() -> None:
    code = "```python\na = 1\n\nb = 2\n```\n\n"
    assert complete_length(f"{code}Then.\n") == len(code)


MARKDOWN = st.lists(
    st.sampled_from(["word", " ", "\n", "\n\n", "```", "- ", "1. ", "  ", "# ", "~~~~", "\r\n"])
).map("".join)


@given(MARKDOWN, st.integers(1, 7))
def test_no_character_is_lost_however_the_text_is_split(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    view = view_of(*(TextDelta(piece) for piece in pieces), RunEnded("answer"))
    assert "".join(block.text for block in view.blocks if isinstance(block, Speech)) == text
