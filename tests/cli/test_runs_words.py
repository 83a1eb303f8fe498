"""The output of `windlass runs`: events in, text out."""

from datetime import UTC
from typing import get_args

import msgspec
import pytest

from windlass.cli.formatting import OUTCOMES, duration, response_text
from windlass.cli.output import Tone, coloured
from windlass.cli.runs.control import waiting
from windlass.cli.runs.display import (
    EventFormatter,
    ListedRun,
    StyledText,
    list_json,
    list_table,
    run_details,
)
from windlass.cli.runs.following import pauses
from windlass.content import FunctionCall, FunctionResponse, InlineData, Message, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    Outcome,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    TextDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.runs.records import RunRecord

RUN = "run_0123456789abcdef"
RECORD = RunRecord(id=RUN, model="openai/gpt-5-mini", created=1_794_806_000.0, title="Pay 5.")
PAY = FunctionCall("pay", '{"amount":5}', "call_1")
STARTED = RunStarted(RUN, "openai/gpt-5-mini", (Message.system("Be nice."), Message.user("Pay 5.")))
ROUND = RoundStarted(1, "awaiting_model_call")
AGAIN = RoundRestarted(1, "awaiting_model_call")


def at(time: float, event: RunEvent) -> RunEvent:
    return msgspec.structs.replace(event, time=RECORD.created + time)


def answer(outcome: Outcome = "ok", **more: object) -> RunEvent:
    response = {"output": "paid 5"} if outcome == "ok" else {"error": f"it is {outcome}"}
    ended = ToolRunEnded(FunctionResponse("pay", response, "call_1"), outcome)
    return msgspec.structs.replace(ended, **more)


def told(*events: RunEvent) -> tuple[str, str]:
    """The text on stdout, and the text on stderr."""
    formatter = EventFormatter(RUN)
    pieces = [piece for event in events for piece in formatter.add(event)] + formatter.finish()
    return said(pieces, is_answer=True), said(pieces, is_answer=False)


def said(pieces: list[StyledText], *, is_answer: bool) -> str:
    return "".join(piece.text for piece in pieces if piece.is_answer is is_answer)


def described(record: RunRecord, *events: RunEvent, **options: bool) -> str:
    return "".join(piece.text for piece in run_details(record, events, zone=UTC, **options))


def test_the_table_has_every_outcome() -> None:
    assert OUTCOMES.keys() == set(get_args(Outcome))


@pytest.mark.parametrize("tone", get_args(Tone))
def test_colours_do_not_change_the_text(tone: Tone) -> None:
    assert "sunny" in coloured("sunny", tone)
    assert coloured("", tone) == ""


def test_the_answer_and_its_metadata_are_separate() -> None:
    out, about = told(
        STARTED,
        ROUND,
        TextDelta("Let me "),
        TextDelta("see."),
        ToolCallEnded(0, PAY),
        TurnEnded("tool_calls"),
        Status("Executing pay..."),
        ToolRunStarted(PAY, 1),
        ToolRunProgress("call_1", "pay", 0.5, "half of it"),
        answer(seconds=1.5),
        RoundStarted(2, "awaiting_final_response"),
        TextDelta("Paid."),
        RunEnded("answer", Usage(30, 10, 40), 2),
    )
    assert out == "Let me see.\nPaid.\n"
    assert about.splitlines() == [
        f"{RUN}, openai/gpt-5-mini: Pay 5.",
        "Executing pay...",
        "  pay: 50% half of it",
        '  pay {"amount":5} -> paid 5 (ok, 1.50 s)',
        "30 tokens in, 10 out, 2 rounds",
    ]


def test_superseded_text_is_marked_in_place() -> None:
    out, about = told(STARTED, ROUND, TextDelta("Half an ans"), RunResumed(1), AGAIN)
    assert out == ("Half an ans\n[superseded: round 1 restarts; ignore its text above]\n")
    assert "Another process resumed the run" in about


def test_a_round_without_text_leaves_no_mark_in_the_answer() -> None:
    out, about = told(STARTED, ROUND, RunResumed(1), AGAIN, TextDelta("Paid."))
    assert out == "Paid.\n"
    assert "Round 1 restarts." in about


def test_the_text_of_an_earlier_round_is_not_superseded() -> None:
    out, _ = told(
        ROUND, TextDelta("First."), RoundStarted(2, "awaiting_final_response"), RunResumed(1),
        RoundRestarted(2, "awaiting_final_response"), TextDelta("Second."),
    )  # fmt: skip
    assert out == "First.\nSecond.\n"


def test_a_waiting_call_is_shown_with_the_command_that_decides() -> None:
    _, about = told(ToolCallEnded(0, PAY), ApprovalRequested(PAY))
    assert about == (f'  pay {{"amount":5}} needs approval: windlass runs approve {RUN} call_1\n')


def test_a_replayed_call_waits_for_no_decision() -> None:
    [piece] = EventFormatter(RUN, live=False).add(ApprovalRequested(PAY))
    assert piece.text == '  pay {"amount":5} needs approval\n'


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ApprovalResolved("call_1", True), "  pay: approved\n"),
        (ApprovalResolved("call_1", True, {"a": 1}), "  pay: approved with other arguments\n"),
        (ApprovalResolved("call_1", False, reason="too much"), "  pay: denied: too much\n"),
        (PartReceived(InlineData(b"123", "image/png")), "[image/png, 3 bytes]\n"),
        (answer("interrupted", effect_unknown=True), "may have had an effect"),
        (answer(cached=True, attempts=3), "(ok, from the cache, 3 attempts, 0.00 s)"),
        (RunEnded("error", error="it broke"), "the run failed: it broke\n"),
        (RunEnded("deadline"), "no full answer: deadline: the time limit of the run was reached\n"),
    ],
)
def test_each_event_has_its_text(event: RunEvent, words: str) -> None:
    assert words in told(ToolCallEnded(0, PAY), event)[1]


def test_no_output_controls_the_terminal_or_breaks_a_line() -> None:
    bad = "\x1b[31m\nwindlass: all is well\x07"
    evil = FunctionCall(bad, bad, bad)
    _, about = told(
        RunStarted(RUN, bad, (Message.user(bad),)),
        Status(bad),
        ToolCallEnded(0, evil),
        ToolRunProgress(bad, bad, None, bad),
        ApprovalRequested(evil),
        ApprovalResolved(bad, False, reason=bad),
        ToolRunEnded(FunctionResponse(bad, {"output": bad}, bad), "ok"),
        PartReceived(InlineData(b"", bad)),
        RunEnded("error", error=bad),
    )
    assert not set(about) & set("\x1b\x07")
    assert not [line for line in about.splitlines() if line.startswith("windlass:")]
    record = msgspec.structs.replace(RECORD, model=bad, owner=bad, chat=bad, error=bad)
    failed = msgspec.structs.replace(record, reason="error", ended=RECORD.created)
    whole = described(failed, RunStarted(RUN, bad, (Message.user(bad),)), ROUND, TextDelta(bad),
                      ToolCallEnded(0, evil), ApprovalRequested(evil), full=True)  # fmt: skip
    table = list_table([ListedRun(msgspec.structs.replace(record, title=bad))], 200)
    assert not (set(whole) | set(table)) & set("\x1b\x07")


def test_a_run_is_shown_from_its_prompt_to_its_end() -> None:
    record = msgspec.structs.replace(
        RECORD, chat="chat_7", owner="web", ended=RECORD.created + 9.0, reason="answer", events=12,
        size=900,
    )  # fmt: skip
    text = described(
        record,
        at(0.0, STARTED),
        at(0.5, ROUND),
        at(1.0, ToolCallEnded(0, PAY)),
        at(1.5, TurnEnded("tool_calls", Usage(10, 5, 15))),
        at(2.0, ApprovalRequested(PAY)),
        at(5.0, ApprovalResolved("call_1", True, {"amount": 4}, "cheaper")),
        at(5.0, ToolRunStarted(PAY, 1)),
        at(6.0, answer(seconds=1.0)),
        at(6.0, RoundStarted(2, "awaiting_final_response")),
        at(7.0, TextDelta("All is\npaid.")),
        at(8.0, TurnEnded("stop", Usage(20, 5, 25))),
        at(9.0, RunEnded("answer", Usage(30, 10, 40), 2)),
    )
    assert (
        text
        == f"""\
{RUN}
  state    answer after 9.00 s
  model    openai/gpt-5-mini
  started  2026-11-16 05:13:20
  key      web
  chat     chat_7
  used     30 tokens in, 10 out
  log      12 events, 900 bytes

asked, after 1 other message
  Pay 5.

round 1: at 0.50 s, took 1.00 s, 10 tokens in, 5 out
  pay {{"amount":5}}
    approved after 3.00 s, with {{"amount":4}}: cheaper
    -> paid 5 (ok, at 5.00 s, took 1.00 s)

round 2: at 6.00 s, took 2.00 s, 20 tokens in, 5 out
  All is
  paid.
"""
    )


def test_an_idle_run_shows_the_possible_actions() -> None:
    text = described(
        RECORD, STARTED, ROUND, ToolCallEnded(0, PAY), ApprovalRequested(PAY), interrupted=True
    )
    assert "  state    interrupted\n" in text
    assert f"needs approval: windlass runs approve {RUN} call_1" in text
    assert f"Its process has exited: windlass runs resume {RUN}" in text


def test_a_failed_run_reports_why() -> None:
    record = msgspec.structs.replace(RECORD, reason="error", ended=RECORD.created, error="it broke")
    assert described(record, STARTED).endswith("\nthe run failed: it broke\n")


def test_superseded_text_is_shown_as_such() -> None:
    text = described(RECORD, STARTED, ROUND, TextDelta("Half"), RunResumed(1), AGAIN)
    assert "superseded: it was interrupted, and the model was asked again\n  Half\n" in text
    assert "  resumed  " in text


def test_long_results_are_cut_unless_all_is_asked_for() -> None:
    long = ToolRunEnded(FunctionResponse("pay", {"output": "x" * 5_000}, "call_1"), "ok")
    events = (STARTED, ROUND, TextDelta("y" * 5_000), ToolCallEnded(0, PAY), long)
    assert len(described(RECORD, *events)) < 3_000
    whole = described(RECORD, *events, full=True)
    assert "x" * 5_000 in whole
    assert "y" * 5_000 in whole


def test_the_list_is_a_table_or_complete_json() -> None:
    ended = msgspec.structs.replace(RECORD, id="run_b", reason="answer", ended=RECORD.created + 1)
    end = RunEnded("answer", Usage(3, 4, 7), 2)
    runs = [ListedRun(RECORD, interrupted=True), ListedRun(ended, end=end)]
    assert list_table(runs, 200, UTC) == (
        "ID            STARTED              STATE        ROUNDS  MODEL              TITLE\n"
        "run_01234567  2026-11-16 05:13:20  interrupted          openai/gpt-5-mini  Pay 5.\n"
        "run_b         2026-11-16 05:13:20  answer       2       openai/gpt-5-mini  Pay 5.\n"
    )
    first, second = list_json(runs)
    assert (first["id"], first["state"], first["rounds"]) == (RUN, "interrupted", None)
    assert (second["state"], second["rounds"]) == ("answer", 2)
    assert second["usage"]["total_tokens"] == 7


def test_calls_wait_until_they_are_decided_answered_or_void() -> None:
    other = FunctionCall("pay", "{}", "call_2")
    asked = [ApprovalRequested(PAY), ApprovalRequested(other)]
    assert waiting(asked) == [PAY, other]
    assert waiting([*asked, ApprovalResolved("call_1", False)]) == [other]
    assert waiting([*asked, answer("stopped")]) == [other]
    assert waiting([*asked, AGAIN]) == []
    assert waiting([*asked, RunEnded("stopped")]) == []


def test_pauses_are_those_of_the_run_by_its_speed() -> None:
    events = [at(0.0, STARTED), at(2.0, ROUND), at(2.0, TextDelta("a")), at(8.0, TextDelta("b"))]
    assert pauses(events, 1) == [0.0, 2.0, 0.0, 6.0]
    assert pauses(events, 2) == [0.0, 1.0, 0.0, 3.0]
    assert pauses(events, 0) == [0.0, 0.0, 0.0, 0.0]
    assert pauses(events, 2, max_pause=2.0) == [0.0, 1.0, 0.0, 2.0]
    assert pauses(events[::-1], 1) == [0.0, 0.0, 0.0, 0.0]
    assert pauses([], 1) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "0.00 s"),
        (1.234, "1.23 s"),
        (12.34, "12.3 s"),
        (75.0, "1 min 15 s"),
        (7_500.0, "2 h 05 min"),
    ],
)
def test_durations_have_a_suitable_precision(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (None, ""),
        ({"output": "sunny"}, "sunny"),
        ({"output": {"sky": "blue"}}, '{"sky":"blue"}'),
        ({"error": "no such city"}, "no such city"),
        ({"output": "a", "error": "b"}, '{"output":"a","error":"b"}'),
    ],
)
def test_a_result_is_shown_as_the_model_reads_it(
    response: dict[str, object] | None, text: str
) -> None:
    assert response_text(response) == text


def test_a_tool_that_ends_before_the_status_comes_is_announced_before_its_result() -> None:
    _, about = told(
        ROUND,
        ToolCallEnded(0, PAY),
        ToolRunStarted(PAY, 1),
        answer(seconds=1.5),
        TurnEnded("tool_calls"),
        Status("Executing pay..."),
    )
    assert about.splitlines() == [
        "Executing pay...",
        '  pay {"amount":5} -> paid 5 (ok, 1.50 s)',
    ]


def test_a_run_that_fails_at_once_has_no_count_of_no_tokens() -> None:
    _, about = told(ROUND, RunEnded("error", error="no such model"))
    assert about == "the run failed: no such model\n"
