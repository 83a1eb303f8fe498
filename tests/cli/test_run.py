"""`windlass run` in a script: stdout, stderr, options and exit codes."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.running import KEY, Run, Upstream

from windlass.cli import main
from windlass.content import Message
from windlass.events import TextDelta, event_from_json
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import Gate, Turn, call, calls, refuse, say, slow


def test_stdout_has_only_the_answer_and_stderr_the_rest(upstream: Upstream, run: Run) -> None:
    upstream(call("get_weather", city="Paris"), "It is sunny.")
    ran = run("Weather?", "--tools", "tools.py", "--model", "openai/gpt-test")
    assert (ran.code, ran.out) == (0, "It is sunny.\n")
    assert 'get_weather {"city":"Paris"} -> sunny in Paris (ok' in ran.error
    assert ran.error.count("Executing get_weather...") == 1
    assert ran.error.index("Executing get_weather...") < ran.error.index("-> sunny in Paris")
    assert "20 tokens in, 10 out, 2 rounds" in ran.error
    assert KEY not in ran.error


def test_quiet_leaves_stderr_empty(upstream: Upstream, run: Run) -> None:
    upstream(call("get_weather", city="Paris"), "It is sunny.")
    assert run("Weather?", "--tools", "tools.py", "-q") == (0, "It is sunny.\n", "")


def test_text_before_a_tool_is_on_its_own_line(upstream: Upstream, run: Run) -> None:
    upstream(calls(call("get_weather", city="Paris"), text="Let me see."), "It is sunny.")
    assert run("Weather?", "--tools", "tools.py").out == "Let me see.\nIt is sunny.\n"


def test_output_of_a_tool_is_not_part_of_the_answer(upstream: Upstream, run: Run) -> None:
    upstream(call("chatter"), "Done.")
    ran = run("Chat.", "--tools", "tools.py", "-q")
    assert ran == (0, "Done.\n", "said by a tool\n")


def test_json_is_one_object_with_all_that_a_reply_has(upstream: Upstream, run: Run) -> None:
    upstream(call("get_weather", city="Paris", id="call_1"), "It is sunny.")
    ran = run("Weather?", "--tools", "tools.py", "--json")
    reply = json.loads(ran.out)
    assert ran.code == 0
    assert reply["text"] == "It is sunny."
    assert reply["calls"] == [
        {"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
    ]
    assert reply["results"] == [{"id": "call_1", "name": "get_weather", "output": "sunny in Paris"}]
    assert reply["usage"]["total_tokens"] == 30
    assert [each["usage"]["input_tokens"] for each in reply["rounds"]] == [10, 10]
    assert reply["stop_reason"] == "answer"
    roles = [Message.from_dict(message).role for message in reply["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert reply["model"] == "openai/gpt-5-mini"


def test_events_are_one_a_line_and_can_be_read_back(upstream: Upstream, run: Run) -> None:
    upstream("Hello there.")
    lines = run("Hi", "--events").out.splitlines()
    events = [event_from_json(line) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello there."
    assert json.loads(lines[-1])["done"] is True


def test_options_reach_the_model(upstream: Upstream, run: Run, here: Path) -> None:
    fake = upstream("A cat.")
    (here / "cat.png").write_bytes(b"not looked at")
    run("What is it?", "--system", "Be brief.", "--image", "cat.png", "--model", "openai/gpt-seen")
    body = fake.requests[0].body
    assert body["model"] == "gpt-seen"
    assert body["messages"][0]["content"] == "Be brief."
    image, text = body["messages"][1]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert text["text"] == "What is it?"


def test_emulated_mode_brings_tools_as_text(upstream: Upstream, run: Run) -> None:
    fake = upstream("Fine.")
    run("Weather?", "--tools", "tools.py", "--mode", "emulated")
    assert "tools" not in fake.requests[0].body
    assert "get_weather" in str(fake.requests[0].body["messages"])


@pytest.mark.parametrize(
    ("turn", "words", "reason"),
    [
        (say("It is su", finish="length"), [], "length"),
        (say("", finish="content_filter"), [], "content_filter"),
        (call("get_weather", city="Paris"), ["--max-rounds", "0"], "max_rounds"),
    ],
)
def test_a_run_without_a_full_answer_exits_with_3_and_reports_why(
    upstream: Upstream, run: Run, turn: Turn, words: list[str], reason: str
) -> None:
    upstream(turn)
    ran = run("Weather?", "--tools", "tools.py", "-q", *words)
    assert ran.code == 3
    assert ran.error.splitlines()[-1].startswith(f"windlass: no full answer: {reason}: ")


def test_a_used_up_budget_ends_the_run_with_3(upstream: Upstream, run: Run, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["gpt-test"]\ninput = 1\noutput = 2\n')
    more = ["--tools", "tools.py", "-q", "--json", "--model", "openai/gpt-test"]
    more += ["--prices", str(prices)]
    for words in (["--max-tokens-total", "20"], ["--max-cost", "0.00003"]):
        upstream(call("get_weather", city="Paris"), "Sunny.")
        ran = run("Weather?", *more, *words)
        assert ran.code == 3
        assert "windlass: no full answer: budget: " in ran.error
        reply = json.loads(ran.out)
        assert (reply["stop_reason"], reply["text"]) == ("budget", "Sunny.")
        assert reply["usage"]["cost"] == "0.000040"


def test_a_cost_without_a_price_is_refused(upstream: Upstream, run: Run) -> None:
    upstream("Hi.")
    ran = run("Weather?", "--max-cost", "1")
    assert ran.code != 0
    assert "max_cost needs the price of" in ran.error


def test_an_expired_timeout_ends_the_run_with_3(upstream: Upstream, run: Run) -> None:
    upstream(slow("One two three.", Gate(), after=1))
    ran = run("Count.", "--timeout", "0.2", "-q")
    assert ran.code == 3
    assert "no full answer: deadline" in ran.error


def test_a_configured_limit_that_is_an_error_exits_with_3_too(
    upstream: Upstream, run: Run, here: Path
) -> None:
    upstream(call("get_weather", city="Paris"))
    (here / "windlass.toml").write_text(
        '[models.strict]\ntarget = "openai/gpt-test"\ntools = ["get_weather"]\n'
        'max_rounds = 0\non_limit = "error"\n[tools]\nmodules = ["tools.py"]\n'
    )
    ran = run("Weather?", "-q", "--json")
    assert (ran.code, "max_rounds" in ran.error) == (3, True)
    assert json.loads(ran.out)["stop_reason"] == "max_rounds"


def test_a_failed_model_exits_with_1_and_its_message(upstream: Upstream, run: Run) -> None:
    upstream(refuse(400, "too hot today"))
    ran = run("Weather?", "-q")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error == "windlass: too hot today (HTTP 400)\n"


def test_a_failure_is_an_object_too_in_json(upstream: Upstream, run: Run) -> None:
    upstream(refuse(400, "too hot today"))
    ran = run("Weather?", "--json")
    assert json.loads(ran.out) == {"stop_reason": "error", "error": "too hot today (HTTP 400)"}
    assert ran.code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Hi", "--tools", "none.py"], "'none.py': there is no file"),
        (["Hi", "--model", "nobody/gpt"], "unknown model 'nobody/gpt': use provider/model"),
        (["Hi", "--image", "tools.py"], "--image: tools.py does not have the name of an image"),
        (["Hi", "--image", "no.png"], "--image: cannot read no.png: No such file"),
        ([""], "the prompt is empty"),
        (["Hi", "--approve", "ask"], "--approve ask needs a terminal"),
    ],
)
def test_invalid_options_are_one_line_and_exit_with_2(
    upstream: Upstream, run: Run, words: list[str], said: str
) -> None:
    upstream()
    ran = run(*words, "-q")
    [line] = ran.error.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert line.startswith(f"windlass: {said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-rounds", "few"], "must be a whole number, 0 or more, not 'few'"),
        (["--timeout", "nan"], "must be a number of seconds above 0, not 'nan'"),
        (["--json", "--events"], "not allowed with argument"),
    ],
)
def test_wrong_options_exit_with_2(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "Hi", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_tool_with_approval_is_denied_without_a_terminal(upstream: Upstream, run: Run) -> None:
    fake = upstream(call("pay", amount=5), "I could not pay.")
    ran = run("Pay 5.", "--tools", "tools.py")
    assert ran.code == 0
    assert "denied" in ran.error
    assert "no terminal to ask" in fake.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(("answer", "seen"), [("yes", "paid 5"), ("no", "approvals are off")])
def test_approvals_can_be_given_and_denied_in_advance(
    upstream: Upstream, run: Run, answer: str, seen: str
) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    run("Pay 5.", "--tools", "tools.py", "--approve", answer)
    assert seen in fake.requests[1].body["messages"][-1]["content"]


def test_a_tool_that_crashes_says_where_its_traceback_is(
    here: Path, upstream: Upstream, run: Run
) -> None:
    (here / "broken.py").write_text("def crash():\n    raise KeyError\n\nTOOLS = [crash]\n")
    upstream(call("crash"), "It is broken.")
    ran = run("Go.", "--tools", "broken.py")
    assert ran.code == 0
    assert "crash failed with an internal error. (failed, see the traceback above, " in ran.error


def test_a_failure_at_once_is_reported_without_a_count_of_no_tokens(
    upstream: Upstream, run: Run
) -> None:
    upstream(refuse(400, "too hot today"))
    ran = run("Weather?", "--model", "openai/gpt-test")
    assert ran.error == (
        "openai/gpt-test (requested); tools: none\nwindlass: too hot today (HTTP 400)\n"
    )


def test_a_failure_after_some_rounds_counts_their_tokens(upstream: Upstream, run: Run) -> None:
    upstream(call("get_weather", city="Paris"), refuse(400, "too hot today"))
    assert "10 tokens in, 5 out" in run("Weather?", "--tools", "tools.py").error


async def kept_in(file: Path) -> list[tuple[str, str | None]]:
    log = SQLiteLog(file)
    try:
        return [(record.title, record.reason) for record in await log.list()]
    finally:
        await log.aclose()


def test_runs_are_stored_where_the_local_file_says(
    upstream: Upstream, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream(*["Hello."] * 4)
    (here / "windlass.toml").write_text(
        '[models.fast]\ntarget = "openai/gpt-test"\n[runs]\npath = "kept/runs.db"\n'
    )
    (here / "kept").mkdir()
    assert run("Kept?").code == 0
    assert run("By its name?", "--model", "fast").code == 0
    assert run("Without the file?", "--model", "openai/gpt-test").code == 0
    monkeypatch.setenv("WINDLASS_MODEL", "openai/gpt-test")
    assert run("With the environment?").code == 0
    kept = asyncio.run(kept_in(here / "kept" / "runs.db"))
    assert sorted(kept) == [("By its name?", "answer"), ("Kept?", "answer")]
    assert [path.name for path in here.glob("*.db")] == []


def test_a_key_that_is_missing_is_reported_in_the_words_of_the_command_line(
    here: Path, run: Run
) -> None:
    ran = run("Hi", "--model", "openai/gpt-test", "-q")
    assert ran == (2, "", "windlass: OpenAI needs a key: set OPENAI_API_KEY\n")
