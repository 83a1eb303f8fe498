"""`windlass runs` in this process: which file, which run, and each action with its exit code."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.keeping import LOG, going, half_said, interrupted, keep
from tests.cli.running import Ran

from windlass import ModelError
from windlass.cli import main
from windlass.cli.runs.following import play
from windlass.events import ApprovalRequested, RunEvent
from windlass.loop.approval import Approval
from windlass.runs.export import read_export
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import call, calls, say, slow

WEATHER = [call("get_weather", city="Paris"), "It is sunny."]
Runs = Callable[..., Ran]


@pytest.fixture
def runs(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Runs:
    """Runs `windlass runs` with these words."""

    def start(*words: str) -> Ran:
        try:
            code = main(["runs", *words])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        out, error = capfdbinary.readouterr()
        return Ran(code, out.decode(), error.decode())

    return start


def ids(ran: Ran) -> list[str]:
    return [each["id"] for each in json.loads(ran.out)]


# Which file, and which run.


def test_without_a_file_the_error_names_the_remedy(runs: Runs) -> None:
    ran = runs("list")
    assert ran.code == 2
    assert ran.error == (
        "windlass: no stored runs here: there is no windlass.db, and no windlass.toml with a"
        " [runs] path; name the file with --log FILE\n"
    )
    assert not Path(LOG).exists()


@pytest.mark.parametrize("words", [["--log", "other.db"], []])
def test_a_missing_file_is_not_created(runs: Runs, words: list[str]) -> None:
    Path("windlass.toml").write_text('[runs]\npath = "other.db"\n')
    ran = runs("list", *words)
    assert ran.code == 2
    assert "other.db does not exist" in ran.error
    assert not Path("other.db").exists()


def test_the_file_is_the_one_that_the_configuration_names(runs: Runs) -> None:
    made = keep(["Hi."])
    Path("kept").mkdir()
    os.rename(LOG, "kept/runs.db")
    Path("windlass.toml").write_text('[runs]\npath = "kept/runs.db"\n[tools]\nmodules = ["no.py"]')
    assert ids(runs("list", "--json")) == [made]


def test_without_a_runs_section_the_file_is_in_this_directory(runs: Runs) -> None:
    made = keep(["Hi."])
    Path("windlass.toml").write_text("[server]\nport = 1\n")
    assert ids(runs("list", "--json")) == [made]


def test_a_configuration_that_cannot_be_read_is_reported(runs: Runs) -> None:
    Path("windlass.toml").write_text("[runs")
    ran = runs("list")
    assert ran.code == 2
    assert "cannot read windlass.toml" in ran.error


def test_a_file_that_is_no_log_is_reported(runs: Runs) -> None:
    Path("notes.db").write_text("not a database, and long enough to be read as none " * 20)
    ran = runs("list", "--log", "notes.db")
    assert ran.code == 1
    assert "notes.db is damaged" in ran.error


def test_a_run_is_found_by_the_beginning_of_its_id(runs: Runs) -> None:
    made = keep(["Hi."])
    for given in (made, made[:9], made[4:9]):
        assert runs("show", given).out.startswith(f"{made}\n")


def test_a_missing_run_is_reported(runs: Runs) -> None:
    keep(["Hi."])
    ran = runs("show", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "unknown run 'nobody'; `windlass runs list` lists all runs" in ran.error


def test_a_beginning_that_many_ids_have_is_reported_with_them(runs: Runs) -> None:
    made = [keep(["Hi."], prompt=f"Hi \x1b{number}") for number in range(2)]
    ran = runs("show", "run_")
    assert ran.code == 1
    assert "'run_' matches 2 runs:" in ran.error
    assert all(each in ran.error for each in made)
    assert "\x1b" not in ran.error


# list and show.


def test_the_list_is_newest_first_and_can_be_narrowed(runs: Runs) -> None:
    answered = keep(["Hi."], chat="chat_1")
    failed = keep([ModelError("it broke")])
    left = half_said()
    assert ids(runs("list", "--json")) == [left, failed, answered]
    assert ids(runs("list", "--json", "--open")) == [left]
    assert ids(runs("list", "--json", "--failed")) == [failed]
    assert ids(runs("list", "--json", "--chat", "chat_1")) == [answered]
    assert ids(runs("list", "--json", "--limit", "1")) == [left]
    shown = runs("list", "--limit", "2")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["ID", left[:12], failed[:12]]
    assert shown.error == "windlass: 2 of 3 runs; --limit 0 lists all\n"
    assert len(runs("list", "--limit", "0").out.splitlines()) == 4


def test_the_list_shows_the_state_of_each_run(runs: Runs) -> None:
    keep(WEATHER)
    half_said()
    with going([slow("One two.", after=1)]):
        running, cut, answered = json.loads(runs("list", "--json").out)
    assert [each["state"] for each in (running, cut, answered)] == [
        "running",
        "interrupted",
        "answer",
    ]
    assert (answered["rounds"], answered["usage"]["total_tokens"]) == (2, 30)


def test_an_empty_list_is_no_error(runs: Runs) -> None:
    keep(["Hi."])
    ran = runs("list", "--failed")
    assert (ran.code, ran.out) == (0, "")
    assert "no such run" in ran.error
    assert runs("list", "--failed", "--json").out == "[]\n"


def test_a_pipe_gets_titles_on_one_line_and_no_colours(runs: Runs) -> None:
    keep(["Hi."], prompt="What is " * 12)
    [_, row] = runs("list").out.splitlines()
    assert row.endswith("…")
    assert "\x1b" not in row


def test_a_run_is_shown_whole(runs: Runs) -> None:
    made = keep(
        [calls(call("pay", amount=9), text="Let me pay."), "Done."],
        approve=lambda _: Approval(False, reason="too much"),
    )
    ran = runs("show", made)
    assert ran.code == 0
    for words in ("Weather in Paris?", "Let me pay.", 'pay {"amount":9}', "too much", "Done."):
        assert words in ran.out
    fields = json.loads(runs("show", made, "--json").out)
    assert fields["rounds"][0]["calls"][0]["approval"]["reason"] == "too much"
    assert "events" not in fields


# export and replay.


def test_an_export_is_played_as_the_run_was(runs: Runs) -> None:
    made = keep(WEATHER)
    assert runs("export", made, "-o", "run.json").code == 0
    followed, played = runs("follow", made), runs("replay", "run.json", "--speed", "0")
    assert (played.code, played.out) == (0, "It is sunny.\n")
    assert (followed.out, followed.error) == (played.out, played.error)
    assert 'get_weather {"city":"Paris"} -> sunny in Paris (ok' in played.error


def test_an_export_goes_to_stdout_without_a_file(runs: Runs) -> None:
    made = keep(WEATHER)
    export = read_export(runs("export", made).out.encode())
    assert export.run.id == made
    assert [message["role"] for message in export.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_an_unwritable_export_path_is_reported(runs: Runs) -> None:
    made = keep(["Hi."])
    ran = runs("export", made, "-o", "nowhere/run.json")
    assert ran.code == 2
    assert "cannot write nowhere/run.json: No such file or directory" in ran.error


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read run.json: No such"), ("{}", "run.json: not a run export")],
)
def test_an_invalid_replay_is_reported(runs: Runs, content: str | None, said: str) -> None:
    if content is not None:
        Path("run.json").write_text(content)
    ran = runs("replay", "run.json")
    assert ran.code == 2
    assert said in ran.error


def test_an_unfinished_run_is_replayed_to_its_last_event(runs: Runs) -> None:
    made = half_said()
    runs("export", made, "-o", "run.json")
    ran = runs("replay", "run.json", "--speed", "0")
    assert (ran.code, ran.out) == (3, "One \n")
    assert "the run was exported before it ended" in ran.error


def test_a_replay_pauses_as_the_run_did(runs: Runs) -> None:
    made = keep(WEATHER)
    events = read_export(runs("export", made).out.encode()).events
    happened: list[object] = []

    class Watch:
        def show(self, event: RunEvent) -> None:
            happened.append(event.seq)

        def close(self) -> None:
            happened.append("closed")

    async def sleep(seconds: float) -> None:
        happened.append(seconds)

    asyncio.run(play(events, Watch(), 0.5, sleep=sleep))
    assert [each for each in happened if isinstance(each, int)] == [e.seq for e in events]
    assert happened[-1] == "closed"
    pauses = [each for each in happened if isinstance(each, float)]
    assert sum(pauses) == pytest.approx(2 * (events[-1].time - events[0].time))


# follow.


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (["Hi."], 0, ""),
        ([ModelError("it broke")], 1, "the run failed: it broke\n"),
        (
            [say("Half of", finish="length")],
            3,
            "no full answer: length: the model's output limit cut the answer\n",
        ),
    ],
)
def test_the_exit_code_says_how_the_run_ended(
    runs: Runs, script: list[Any], code: int, words: str
) -> None:
    made = keep(script)
    for options in ([], ["-q"], ["--json"], ["--after", "99"]):
        assert runs("follow", made, *options).code == code
    assert words in runs("follow", made).error
    assert runs("follow", made, "-q").error == (f"windlass: {words}" if words else "")


def test_a_run_can_be_followed_from_any_number(runs: Runs) -> None:
    made = keep(WEATHER)
    whole = runs("follow", made, "--events").out.splitlines()
    assert [json.loads(line)["seq"] for line in whole] == list(range(1, len(whole) + 1))
    assert runs("follow", made, "--events", "--after", "3").out.splitlines() == whole[3:]


def test_a_late_follower_knows_the_arguments_of_earlier_calls(runs: Runs) -> None:
    made = keep(WEATHER)
    events = [json.loads(line) for line in runs("follow", made, "--events").out.splitlines()]
    before = next(e["seq"] for e in events if e["event"] == "tool_run_ended") - 1
    assert 'get_weather {"city":"Paris"} ->' in runs("follow", made, "--after", str(before)).error


def test_followed_json_is_that_of_windlass_run(runs: Runs) -> None:
    made = keep(WEATHER)
    for options in ([], ["--after", "5"]):
        reply = json.loads(runs("follow", made, "--json", *options).out)
        assert (reply["text"], reply["stop_reason"]) == ("It is sunny.", "answer")
        assert reply["results"][0]["output"] == "sunny in Paris"
    failed = json.loads(runs("follow", keep([ModelError("it broke")]), "--json").out)
    assert failed == {"stop_reason": "error", "error": "it broke"}


# stop and approve.


def test_a_run_is_stopped_in_any_process(runs: Runs) -> None:
    with going([slow("One two.", after=1)]) as made:
        ran = runs("stop", made[:12])
    assert (ran.code, ran.error) == (0, f"windlass: stopped {made}\n")
    assert json.loads(runs("list", "--json").out)[0]["reason"] == "stopped"


def test_stopping_an_ended_run_changes_nothing(runs: Runs) -> None:
    made = keep(["Hi."])
    ran = runs("stop", made)
    assert (ran.code, ran.error) == (0, f"windlass: {made} has already ended: answer\n")


def test_an_interrupted_run_cannot_be_stopped_or_approved(runs: Runs) -> None:
    made = interrupted([call("pay", amount=5)], lambda event: isinstance(event, ApprovalRequested))
    for words in (["stop", made], ["approve", made]):
        ran = runs(*words)
        assert ran.code == 1
        assert f"`windlass runs resume {made}` resumes it" in ran.error
    # The order must not reach the process that resumes the run later.
    assert runs("list", "--open", "--json").out.count(made) == 1
    assert asyncio.run(_orders()) == 0


async def _orders() -> int:
    log = SQLiteLog(LOG)
    try:
        return await log._read(
            lambda connection: connection.execute("SELECT count(*) FROM orders").fetchone()[0]
        )
    finally:
        await log.aclose()


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ([], "paid 5"),
        (["--arguments", '{"amount": 3}'], "paid 3"),
        (["--deny", "--reason", "too much"], "The call was denied: too much."),
    ],
)
def test_a_call_that_waits_is_decided(runs: Runs, options: list[str], result: str) -> None:
    with going([call("pay", amount=5), "Done."]) as made:
        wait_for(made, ApprovalRequested)
        ran = runs("approve", made, *options)
        assert ran.code == 0
        assert ran.error == (
            f'windlass: pay {{"amount":5}}: {"denied" if "--deny" in options else "approved"}\n'
        )
        assert runs("follow", made).out == "Done.\n"
    assert result in runs("show", made).out


def wait_for(run_id: str, kind: type[RunEvent], count: int = 1) -> None:
    """Reads the run's file until it has this many such events."""

    async def wait() -> None:
        log = SQLiteLog(LOG)
        found = 0
        async for event in log.follow(run_id):
            found += isinstance(event, kind)
            if found == count:
                break
        await log.aclose()

    asyncio.run(wait())


def test_the_call_must_be_named_if_several_wait(runs: Runs) -> None:
    both = calls(call("pay", amount=1, id="call_a1"), call("pay", amount=2, id="call_b2"))
    with going([both, "Done."]) as made:
        wait_for(made, ApprovalRequested, count=2)
        for words in ([], ["call_"], ["call_x"]):
            ran = runs("approve", made, *words)
            assert ran.code == 2
            assert 'call_a1  pay {"amount":1}\n  call_b2  pay {"amount":2}' in ran.error
        assert runs("approve", made, "call_a").code == 0
        assert runs("approve", made, "call_b2").code == 0
        assert runs("follow", made, "-q").code == 0


def test_a_call_that_does_not_wait_cannot_be_decided(runs: Runs) -> None:
    ran = runs("approve", keep(WEATHER))
    assert ran.code == 1
    assert "has ended (answer): none of its calls needs approval" in ran.error
    with going([slow("One two.", after=1)]) as made:
        ran = runs("approve", made)
    assert ran.code == 1
    assert f"no call of {made} waits for approval" in ran.error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["approve", "x", "--deny", "--arguments", "{}"],
            "--arguments cannot be combined with --deny",
        ),
        (["approve", "x", "--arguments", "[]"], "must be a JSON object"),
        (["approve", "x", "--arguments", "{"], "must be a JSON object"),
        (["list", "--limit", "-1"], "must be a whole number, 0 or more"),
        (["replay", "x", "--speed", "-1"], "must be a number, 0 or more"),
        (["replay", "x", "--speed", "nan"], "must be a number, 0 or more"),
        (["expire"], "no limit: set --older-than, --keep or --max-bytes"),
        (["expire", "--older-than", "30"], "must be like 90s, 15m, 12h or 30d, not '30'"),
        (["expire", "--max-bytes", "much"], "must be like 4096, 500k, 20M or 1G, not 'much'"),
    ],
)
def test_wrong_arguments_are_reported(runs: Runs, words: list[str], said: str) -> None:
    keep(["Hi."])
    ran = runs(*words)
    assert ran.code == 2
    assert said in ran.error


# delete and expire.


def test_ended_runs_are_deleted_and_others_are_not(runs: Runs) -> None:
    ended, other = keep(["Hi."]), keep(["Hi."])
    left = half_said()
    assert runs("delete", ended[:12]).error == f"windlass: deleted {ended}\n"
    assert ids(runs("list", "--json")) == [left, other]
    ran = runs("delete", left)
    assert ran.code == 1
    assert f"run {left!r} has not ended" in ran.error


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--older-than", "1d"], 3),
        (["--older-than", "0s"], 0),
        (["--keep", "1"], 1),
        (["--max-bytes", "1k"], 1),
        (["--max-bytes", "1G"], 3),
    ],
)
def test_runs_expire_by_age_number_and_size(runs: Runs, words: list[str], left: int) -> None:
    for _ in range(3):
        keep(["Hi."])
    ran = runs("expire", *words)
    assert ran.error == f"windlass: deleted {3 - left} runs\n"
    assert len(ids(runs("list", "--json"))) == left


def test_a_tool_that_crashed_says_where_its_traceback_is(runs: Runs) -> None:
    def crash() -> str:
        """Fails."""
        raise KeyError

    made = keep([call("crash"), "It is broken."], tools=[crash])
    for ran in (runs("show", made), runs("follow", made)):
        assert "the log of its process has the traceback" in ran.out + ran.error
