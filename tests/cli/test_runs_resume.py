"""`windlass runs resume`: resumes interrupted runs of clients and gateways."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.keeping import MODEL, going, half_said, interrupted, keep
from tests.cli.running import Ran, Upstream

from windlass.cli import main
from windlass.events import ApprovalRequested, RunEvent, ToolRunEnded
from windlass.testing import call, slow

Resume = Callable[..., Ran]


@pytest.fixture
def resume(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Resume:
    def start(*words: str, action: str = "resume") -> Ran:
        code = main(["runs", action, *words])
        out, error = capfdbinary.readouterr()
        return Ran(code, out.decode(), error.decode())

    return start


def answered(event: RunEvent) -> bool:
    return isinstance(event, ToolRunEnded)


def test_a_run_resumes_where_it_was_interrupted(upstream: Upstream, resume: Resume) -> None:
    made = interrupted([call("get_weather", city="Paris"), slow("Never.")], answered)
    fake = upstream("It is sunny.")
    ran = resume("--tools", "tools.py")
    assert (ran.code, ran.out) == (0, "It is sunny.\n")
    assert f"resuming {made}: Weather?" in ran.error
    assert "Executing get_weather" not in ran.error
    assert fake.requests[0].body["messages"][-1]["content"] == "sunny in Paris"
    listed = json.loads(resume("--json", action="list").out)
    assert [(each["id"], each["state"]) for each in listed] == [(made, "answer")]


def test_interrupted_text_is_marked_for_followers(upstream: Upstream, resume: Resume) -> None:
    made = half_said()
    upstream("All is well.")
    assert resume(made).out == "All is well.\n"
    assert resume(made, action="follow").out == (
        "One \n[superseded: round 1 restarts; ignore its text above]\nAll is well.\n"
    )
    assert json.loads(resume(made, "--json", action="follow").out)["text"] == "All is well."


def test_all_interrupted_runs_resume_oldest_first(upstream: Upstream, resume: Resume) -> None:
    first = half_said()
    second = half_said()
    keep(["Hi."])
    upstream("I am first.", "I am second.")
    ran = resume()
    assert (ran.code, ran.out) == (0, "I am first.\nI am second.\n")
    assert ran.error.index(first) < ran.error.index(second)
    assert resume().error == "windlass: no interrupted runs\n"


def test_only_the_named_runs_are_resumed(upstream: Upstream, resume: Resume) -> None:
    first = half_said()
    second = half_said()
    upstream("I am second.")
    assert resume(second[:12]).code == 0
    [left] = json.loads(resume("--open", "--json", action="list").out)
    assert (left["id"], left["state"]) == (first, "interrupted")


def test_the_exit_code_is_that_of_the_worst_stop_reason(upstream: Upstream, resume: Resume) -> None:
    for _ in range(2):
        half_said()
    fake = upstream("Fine.")
    ran = resume("-q")
    assert ran.code == 1
    assert ran.out == "Fine.\n"
    assert "windlass: the run failed: " in ran.error
    assert len(fake.requests) >= 2


def test_a_missing_tool_does_not_end_the_run(upstream: Upstream, resume: Resume) -> None:
    made = interrupted([call("get_weather", city="Paris"), slow("Never.")], answered)
    upstream("It is sunny.")
    ran = resume(made)
    assert ran.code == 2
    assert f"{made} needs missing tools: get_weather, pay; name their file" in ran.error
    assert resume("--tools", "tools.py").out == "It is sunny.\n"


def test_a_run_with_missing_tools_can_be_ended(upstream: Upstream, resume: Resume) -> None:
    made = interrupted([call("get_weather", city="Paris"), slow("Never.")], answered)
    upstream("Never.")
    ran = resume(made, "--force")
    assert ran.code == 1
    assert "its tools are missing: get_weather, pay" in ran.error
    [ended] = json.loads(resume("--json", action="list").out)
    assert ended["state"] == "error"


def test_another_model_does_not_resume_it(upstream: Upstream, resume: Resume) -> None:
    made = half_said()
    upstream("Never.")
    ran = resume("--model", "openai/other", "--tools", "tools.py")
    assert ran.code == 2
    assert f"{made} was started with {MODEL}: openai/other cannot resume it" in ran.error
    assert "interrupted" in resume(action="list").out


def test_a_configured_model_is_found_by_its_target(
    upstream: Upstream, resume: Resume, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted([call("get_weather", city="Paris"), slow("Never.")], answered)
    fake = upstream("It is sunny.")
    monkeypatch.delenv("OPENAI_BASE_URL")
    Path("windlass.toml").write_text(
        f'[models.fast]\ntarget = "{MODEL}"\nbase_url = "{fake.base_url}"\n'
        'tools = ["get_weather", "pay"]\n[tools]\nmodules = ["tools.py"]\n'
    )
    assert resume().out == "It is sunny.\n"


def test_ended_and_active_runs_are_not_resumed(upstream: Upstream, resume: Resume) -> None:
    ended = keep(["Hi."])
    ran = resume(ended)
    assert (ran.code, ran.error) == (1, f"windlass: {ended} has already ended: answer\n")
    with going([slow("One two.", after=1)]) as made:
        ran = resume(made)
    assert ran.code == 1
    assert (
        f"{made} is running in another process; `windlass runs follow {made}` shows it" in ran.error
    )


@pytest.mark.parametrize(("answer", "result"), [("yes", "paid 5"), ("no", "denied")])
def test_an_approval_can_be_given_in_advance(
    upstream: Upstream, resume: Resume, answer: str, result: str
) -> None:
    interrupted([call("pay", amount=5)], lambda event: isinstance(event, ApprovalRequested))
    fake = upstream("Done.")
    assert resume("--tools", "tools.py", "--approve", answer).out == "Done.\n"
    assert result in fake.requests[0].body["messages"][-1]["content"]


def test_the_output_can_be_json_or_events(upstream: Upstream, resume: Resume) -> None:
    half_said()
    half_said()
    upstream("Fine.", "Fine.")
    oldest = json.loads(resume("--json", action="list").out)[-1]["id"]
    assert json.loads(resume(oldest, "--json").out)["text"] == "Fine."
    events = [json.loads(line)["event"] for line in resume("--events").out.splitlines()]
    assert (events[0], events[-1]) == ("run_resumed", "run_ended")
