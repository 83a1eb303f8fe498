"""What a run looks like on a screen of a given width, without a terminal."""

import io
import re
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from tests.support.json_values import any_json
from tests.support.thoroughness import examples

from windlass.cli.chat.screen import (
    STATES,
    Screen,
    draw_block,
    draw_ending,
    draw_full_card,
    draw_live_line,
    token_summary,
)
from windlass.cli.chat.view import Card, CardRow, CardState, Notice, RunView, Speech, Thinking
from windlass.cli.output import cut, one_line, visible
from windlass.content import FunctionResponse, Usage
from windlass.events import RoundStarted, RunEnded, RunStarted, TextDelta, ToolRunEnded
from windlass.jsontext import compact_json

OWN_STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Colours, the only sequences that drawing a block may write."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def drawn(shown: RenderableType, width: int = 80) -> str:
    """The lines as they look."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=width, height=40)
    Screen(console).say(shown)
    return OWN_STYLE.sub("", written.getvalue()).removesuffix("\n")


def card(name: str = "get_weather", json: str = '{"city":"Paris"}', **fields: object) -> Card:
    return Card(name, "c1", json, **fields)  # pyright: ignore[reportArgumentType]


def with_result(output: object, json: str = "{}") -> Card:
    done = card(json=json)
    done.run_ended(ToolRunEnded(FunctionResponse("f", {"output": output}, "c1"), "ok", 0.25))
    return done


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten\b\b", "over␍written␈␈"),
        ("\x7f\x00", "␡␀"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("half \ud83d", "half \\ud83d"),
        ("line\r\nline\tä 日本 👩‍💻", "line\nline\tä 日本 👩‍💻"),
    ],
)
def test_control_characters_are_shown_and_not_executed(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"
    assert one_line(" a\n\n b\t") == "a b"


ANY_TEXT = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["\x1b[2J", "&#x202e;", "&#27;[31m", "&#x9b;31m", "[a](\x1b]8;;x)", "![a](http://x/\x07)"]
)


@settings(max_examples=examples(50), deadline=None)
@given(ANY_TEXT, ANY_TEXT, any_json)
def test_no_text_of_models_or_tools_controls_the_terminal(
    text: str, other: str, value: object
) -> None:
    failed = card(text, other, state="failed", outcome="error", result=other, value=other)
    running = card(other, text, state="running", message=text, progress=0.5)
    written = [
        drawn(draw_block(block, 0.0))
        for block in (
            Speech(text),
            Thinking(0.0, text),
            Thinking(0.0, text, 1.0),
            Notice(text),
            Notice(text, "error"),
            CardRow([failed, running, with_result(value, compact_json({text: value}))]),
        )
    ]
    written += [drawn(draw_full_card(failed)), drawn(draw_full_card(with_result(value)))]
    for seen in written:
        assert not STEERING.search(seen), repr(seen)
        seen.encode()


def test_sequences_in_an_answer_can_be_read() -> None:
    assert "a␇␛[2J␍b" in drawn(draw_block(Speech("a\x07\x1b[2J\rb"), 0.0))


def test_a_link_shows_where_it_leads() -> None:
    seen = drawn(draw_block(Speech("[bank](http://evil.example)"), 0.0))
    assert "bank (http://evil.example)" in seen


def test_a_card_has_state_arguments_time_and_result() -> None:
    seen = drawn(draw_block(CardRow([with_result("sunny", '{"city":"Paris","days":3}')]), 0.0), 44)
    assert seen == (
        "╭─ ✔ get_weather ──────────────────────────╮\n"
        '│ city: "Paris"                            │\n'
        "│ days: 3                                  │\n"
        "│ → sunny                                  │\n"
        "╰────────────────────────── done · 0.25 s ─╯\n"
    )


def test_a_running_card_has_its_elapsed_time_and_progress() -> None:
    running = card(state="running", began=100.0, progress=0.5, message="asking the station")
    seen = drawn(draw_block(CardRow([running]), 102.25))
    assert "running · 2.2 s" in seen
    assert "━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 50%" in seen
    assert "asking the station" in seen


def test_cards_are_side_by_side_if_the_page_is_wide_enough() -> None:
    row = CardRow([card("first"), card("second"), card("third")])
    wide, narrow = drawn(draw_block(row, 0.0), 80), drawn(draw_block(row, 0.0), 40)
    assert re.search("first.*second", wide)
    assert not re.search("second.*third", wide)
    assert not re.search("first.*second", narrow)
    assert max(len(line) for line in narrow.splitlines()) == 40


def test_every_state_has_its_sign_and_is_written_out() -> None:
    assert set(STATES) == set(get_args(CardState))
    for state in get_args(CardState):
        assert state in drawn(draw_block(CardRow([card(state=state)]), 0.0))


def test_effects_attempts_and_the_cache_are_on_the_card() -> None:
    shown = card(
        state="stopped",
        outcome="stopped",
        seconds=12.6,
        effect_unknown=True,
        attempts=2,
        cached=True,
    )
    seen = drawn(draw_block(CardRow([shown]), 0.0))
    assert "stopped · 13 s · may have had an effect · 2 attempts · cached" in seen


def test_long_arguments_and_results_are_cut_and_seen_in_full_when_asked_for() -> None:
    lines = "\n".join(f"line {number}" for number in range(20))
    arguments = compact_json({f"name_{n}": "x" * 200 for n in range(9)})
    shown = with_result(lines, arguments)
    seen = drawn(draw_block(CardRow([shown]), 0.0))
    assert "… 5 more: /last" in seen
    assert "… 16 more lines: /last" in seen
    assert len(seen.splitlines()) == 12
    full = drawn(draw_full_card(shown))
    assert all(f"line {number}" in full for number in range(20))
    assert full.count("x") == 9 * 200


def test_an_object_is_shown_by_its_fields_and_in_full_as_json() -> None:
    shown = with_result({"sky": "sunny", "degrees": 21})
    seen = drawn(draw_block(CardRow([shown]), 0.0))
    assert '→ sky: "sunny"' in seen
    assert "  degrees: 21" in seen
    assert '"degrees": 21' in drawn(draw_full_card(shown))


def test_thoughts_are_folded_into_one_line_when_they_end() -> None:
    text = "First I think.\n" * 50
    going, folded = Thinking(0.0, text), Thinking(0.0, text, 1.25)
    assert len(drawn(draw_block(going, 0.0)).splitlines()) == 4
    assert drawn(draw_block(folded, 0.0)).startswith("✻ thought for 1.2 s: First I think. First")
    assert len(drawn(draw_block(folded, 0.0)).splitlines()) == 1


def test_usage_is_reported_with_what_was_cached_and_thought() -> None:
    assert token_summary(Usage(20, 10, 30)) == "20 in, 10 out"
    assert token_summary(Usage(20, 10, 30, 8, 4)) == "20 in, 10 out (8 cached, 4 thought)"


def test_the_line_under_a_run_says_round_time_and_how_to_stop() -> None:
    view = RunView(5)
    view.add(RunStarted("run_1", "openai/gpt", (), time=100.0))
    view.add(RoundStarted(1, "awaiting_model_call"))
    assert drawn(draw_live_line(view, 101.5, "Ctrl-C stops")).endswith(
        "round 1 of 5 · 1.5 s · Ctrl-C stops\n"
    )
    view.add(RunEnded("answer", Usage(20, 10, 30), 1, time=102.0))
    assert drawn(draw_ending(view)) == "round 1 of 5 · 20 in, 10 out · 2.0 s · openai/gpt\n"


def test_a_redrawn_block_never_exceeds_the_screen() -> None:
    """A line that has left the screen cannot be changed."""
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=True, width=40, height=10))
    view = RunView(5)
    view.add(RunStarted("run_1", "openai/gpt", ()))
    screen.begin()
    for number in range(50):
        view.add(TextDelta(f"- item {number}\n"))
        written.seek(0)
        written.truncate()
        screen.show(view, 0.0)
        assert written.getvalue().count("\n") <= 8
    assert "item 49" in written.getvalue()


def test_a_narrower_terminal_has_more_lines_to_take_back() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=40, height=20)
    screen, view = Screen(console), RunView(5)
    view.add(RunStarted("run_1", "openai/gpt", ()))
    view.add(TextDelta("x" * 40))
    screen.show(view, 0.0)
    console.width = 20
    written.seek(0)
    written.truncate()
    screen.clear()
    # The text's one line has become two; the empty one and the status line are still one each.
    assert written.getvalue().count("\x1b[1A\x1b[2K") == 4
    screen.clear()
    assert written.getvalue().count("\x1b[1A\x1b[2K") == 4


def test_nothing_is_left_to_be_drawn_over_at_the_end() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=True, width=40, height=20))
    view = RunView(5)
    view.say("it could not begin", "error")
    screen.begin()
    screen.show(view, 0.0)
    screen.end(view)
    ended = written.getvalue()
    screen.clear()
    assert written.getvalue() == ended


def test_a_card_of_a_tool_that_crashed_says_how_to_see_its_traceback() -> None:
    crashed = card()
    response = FunctionResponse("f", {"error": "f failed with an internal error."}, "c1")
    crashed.run_ended(ToolRunEnded(response, "error", crashed=True))
    assert "/last shows the traceback" in drawn(draw_block(CardRow([crashed]), 0.0))
