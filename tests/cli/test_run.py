"""`windlass run` as a script meets it: stdout, stderr, exit codes, signals and pipes."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, get_args

import pytest

from windlass.cli import main
from windlass.cli.providers import Readiness
from windlass.cli.run import ENDINGS
from windlass.cli.toolfiles import choose_model
from windlass.content import Message
from windlass.events import StopReason, TextDelta, event_from_json
from windlass.testing import FakeOpenAI, Gate, Turn, call, calls, refuse, say, slow

TOOLS = '''
import sys
from windlass import ToolError, tool


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return f"sunny in {city}"


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@tool
def chatter() -> str:
    """Prints."""
    print("said by a tool")
    return "done"


@tool
def wait_for_ever() -> str:
    """Never comes back."""
    import threading

    threading.Event().wait()
    return "no"
'''
KEY = "sk-of-the-caller"


VARIABLES = (
    "WINDLASS_MODEL", "WINDLASS_TOOLS", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY",
    "GOOGLE_API_KEY", "VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN",
)  # fmt: skip

Upstream = Callable[..., FakeOpenAI]


class Ran(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    error: str


Run = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with tools, and an environment that says nothing."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def upstream(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """Starts an upstream with a script: the only one that the environment names."""
    with ExitStack() as stack:

        def start(*script: Any) -> FakeOpenAI:
            fake = stack.enter_context(FakeOpenAI(script, api_key=KEY))
            monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            return fake

        yield start


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `windlass run` with these words."""

    def start(*words: str) -> Ran:
        code = main(["run", *words])
        out, error = capfdbinary.readouterr()
        return Ran(code, out.decode(), error.decode())

    return start


def test_the_answer_is_all_of_stdout_and_the_story_is_on_stderr(
    upstream: Upstream, run: Run
) -> None:
    upstream(call("get_weather", city="Paris"), "It is sunny.")
    ran = run("Weather?", "--tools", "tools.py", "--model", "openai/gpt-test")
    assert (ran.code, ran.out) == (0, "It is sunny.\n")
    assert 'get_weather {"city":"Paris"} -> sunny in Paris (ok' in ran.error
    assert "Executing get_weather..." in ran.error
    assert "20 tokens in, 10 out, 2 rounds" in ran.error
    assert KEY not in ran.error


def test_quiet_leaves_stderr_empty(upstream: Upstream, run: Run) -> None:
    upstream(call("get_weather", city="Paris"), "It is sunny.")
    assert run("Weather?", "--tools", "tools.py", "-q") == (0, "It is sunny.\n", "")


def test_what_the_model_says_before_a_tool_runs_is_on_a_line_of_its_own(
    upstream: Upstream, run: Run
) -> None:
    upstream(calls(call("get_weather", city="Paris"), text="Let me see."), "It is sunny.")
    assert run("Weather?", "--tools", "tools.py").out == "Let me see.\nIt is sunny.\n"


def test_what_a_tool_prints_is_no_part_of_the_answer(upstream: Upstream, run: Run) -> None:
    upstream(call("chatter"), "Done.")
    ran = run("Chat.", "--tools", "tools.py", "-q")
    assert ran == (0, "Done.\n", "said by a tool\n")


def test_quiet_keeps_the_log_to_errors(upstream: Upstream) -> None:
    upstream(call("get_weather", city="Paris"), "Sunny.", "Sunny.")
    done = windlass("run", "Hi", "--tools", "tools.py", "--max-rounds", "1", "-q", input="")
    [line] = done.stderr.splitlines()
    assert line.startswith("windlass: no full answer: max_rounds: ")


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


def test_emulated_mode_brings_tools_in_words(upstream: Upstream, run: Run) -> None:
    fake = upstream("Fine.")
    run("Weather?", "--tools", "tools.py", "--mode", "emulated")
    assert "tools" not in fake.requests[0].body
    assert "get_weather" in str(fake.requests[0].body["messages"])


@pytest.mark.parametrize("words", [["-"], []])
def test_a_prompt_is_read_from_a_pipe(upstream: Upstream, words: list[str]) -> None:
    fake = upstream("Hello.")
    done = windlass("run", *words, input="What is thïs?")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert fake.requests[0].body["messages"][-1]["content"] == "What is thïs?"


@pytest.mark.parametrize(
    ("turn", "words", "reason"),
    [
        (say("It is su", finish="length"), [], "length"),
        (say("", finish="content_filter"), [], "content_filter"),
        (call("get_weather", city="Paris"), ["--max-rounds", "0"], "max_rounds"),
    ],
)
def test_a_run_without_a_full_answer_exits_with_3_and_says_why(
    upstream: Upstream, run: Run, turn: Turn, words: list[str], reason: str
) -> None:
    upstream(turn)
    ran = run("Weather?", "--tools", "tools.py", "-q", *words)
    assert ran.code == 3
    assert ran.error.splitlines()[-1].startswith(f"windlass: no full answer: {reason}: ")


def test_a_time_that_is_up_ends_the_run_with_3(upstream: Upstream, run: Run) -> None:
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


def test_every_way_to_end_has_an_exit_code() -> None:
    assert ENDINGS.keys() == set(get_args(StopReason))
    assert {reason for reason, (code, _) in ENDINGS.items() if code == 0} == {"answer"}


def test_a_model_that_fails_exits_with_1_and_its_words(upstream: Upstream, run: Run) -> None:
    upstream(refuse(400, "too hot today"))
    ran = run("Weather?", "-q")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error == "windlass: too hot today\n"


def test_a_failure_is_an_object_too_for_those_who_read_json(upstream: Upstream, run: Run) -> None:
    upstream(refuse(400, "too hot today"))
    ran = run("Weather?", "--json")
    assert json.loads(ran.out) == {"stop_reason": "error", "error": "too hot today"}
    assert ran.code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Hi", "--tools", "none.py"], "'none.py': there is no file"),
        (["Hi", "--model", "nobody/gpt"], "a model's name is provider/model"),
        (["Hi", "--image", "tools.py"], "--image: tools.py is no image by its name"),
        (["Hi", "--image", "no.png"], "--image: cannot read no.png: No such file"),
        ([""], "the prompt is empty"),
        (["Hi", "--approve", "ask"], "--approve ask needs a terminal"),
    ],
)
def test_what_cannot_work_is_one_line_and_exits_with_2(
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


def test_a_tool_that_asks_first_is_denied_where_nobody_can_be_asked(
    upstream: Upstream, run: Run
) -> None:
    fake = upstream(call("pay", amount=5), "I could not pay.")
    ran = run("Pay 5.", "--tools", "tools.py")
    assert ran.code == 0
    assert "denied" in ran.error
    assert "nobody to ask" in fake.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(("answer", "seen"), [("yes", "paid 5"), ("no", "approvals are off")])
def test_approvals_can_be_given_and_refused_ahead(
    upstream: Upstream, run: Run, answer: str, seen: str
) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    run("Pay 5.", "--tools", "tools.py", "--approve", answer)
    assert seen in fake.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize(("answer", "seen"), [("y", "paid 5"), ("n", "the user said no")])
def test_a_person_at_a_terminal_is_asked(upstream: Upstream, answer: str, seen: str) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    process, terminal = on_a_terminal("run", "Pay 5.", "--tools", "tools.py")
    with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = read_to(screen, b"[y/N] ")
        screen.write(f"{answer}\n".encode())
        read_to(screen, b"2 rounds")
        out, _ = process.communicate(timeout=30)
    assert b'Run pay {"amount":5}?' in shown
    assert (process.returncode, out) == (0, b"Done.\n")
    assert seen in fake.requests[1].body["messages"][-1]["content"]


def test_a_person_is_asked_at_the_terminal_when_stdin_is_the_prompt(upstream: Upstream) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    process, terminal = on_a_terminal("run", "--tools", "tools.py", stdin=subprocess.PIPE)
    with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
        assert process.stdin is not None
        process.stdin.write(b"Pay 5.")
        process.stdin.close()
        read_to(screen, b"[y/N] ")
        screen.write(b"yes\n")
        read_to(screen, b"2 rounds")
        assert process.wait(timeout=30) == 0
    assert fake.requests[1].body["messages"][-1]["content"] == "paid 5"


def test_a_terminal_is_not_steered_by_the_model(upstream: Upstream) -> None:
    upstream("\x1b[31mred\x1b]0;title\x07")
    process, terminal = on_a_terminal("run", "Hi", "-q", stdout=None)
    with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = read_to(screen, b"\n")
        assert process.wait(timeout=30) == 0
    assert b"red" in shown
    assert b"\x1b" not in shown
    assert b"\x07" not in shown


def test_an_interruption_stops_the_run_and_says_what_became_of_its_tools(
    upstream: Upstream,
) -> None:
    upstream(call("wait_for_ever"))
    with started("run", "Wait.", "--tools", "tools.py", "--json") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Executing wait_for_ever" in line:
                break
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped; it may have had its effect" in rest
    assert "Traceback" not in rest
    reply = json.loads(out)
    assert reply["stop_reason"] == "stopped"
    assert [each["name"] for each in reply["results"]] == ["wait_for_ever"]


def test_a_reader_that_goes_away_is_no_error(upstream: Upstream) -> None:
    gate = Gate()
    upstream(slow("One two three.", gate, after=1))
    with started("run", "Count.", "-q") as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "One "
        process.stdout.close()
        gate.open()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_first_model_of_the_file_here_is_used_with_its_tools(
    upstream: Upstream, run: Run, here: Path
) -> None:
    fake = upstream(call("get_weather", city="Rome"), "Sunny.", "Also here.")
    (here / "windlass.toml").write_text(
        '[models.fast]\ntarget = "openai/gpt-of-file"\ntools = ["get_weather"]\n'
        'system = "Be kind."\n[models.other]\ntarget = "openai/gpt-other"\n'
        '[tools]\nmodules = ["tools.py"]\n'
    )
    ran = run("Weather?")
    body = fake.requests[0].body
    assert ran.out == "Sunny.\n"
    assert "openai/gpt-of-file (the first model of windlass.toml); tools: get_weather" in ran.error
    assert body["model"] == "gpt-of-file"
    assert body["messages"][0]["content"] == "Be kind."
    assert [each["function"]["name"] for each in body["tools"]] == ["get_weather"]
    assert run("Hi", "--model", "other").out == "Also here.\n"
    assert fake.requests[-1].body["model"] == "gpt-other"


def test_a_name_that_the_file_does_not_have_is_answered_with_those_it_has(
    run: Run, here: Path
) -> None:
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "openai/gpt-test"\n')
    ran = run("Hi", "--model", "fats")
    assert ran.code == 2
    assert "windlass.toml has no model 'fats'; did you mean 'fast'?" in ran.error


def test_the_environment_names_a_model_before_the_file_does(
    upstream: Upstream, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = upstream("Hello.")
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "openai/gpt-of-file"\n')
    monkeypatch.setenv("WINDLASS_MODEL", "openai/gpt-of-environment")
    monkeypatch.setenv("WINDLASS_TOOLS", "tools.py")
    run("Hi")
    assert fake.requests[0].body["model"] == "gpt-of-environment"
    assert len(fake.requests[0].body["tools"]) == 4


def test_without_any_model_every_remedy_is_named(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_ready = Readiness(False, "not installed")
    monkeypatch.setattr("windlass.cli.providers.embedded_readiness", lambda weights: not_ready)
    ran = run("Hi")
    assert ran.code == 2
    for remedy in ("--model", "WINDLASS_MODEL", "OPENAI_API_KEY", "GEMINI_API_KEY", "[local]"):
        assert remedy in ran.error


def test_the_embedded_model_is_used_when_no_key_is_set(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Readiness(True, "it is installed")
    monkeypatch.setattr("windlass.cli.providers.embedded_readiness", lambda weights: ready)
    assert choose_model(None).config.target == "local/qwen"


def test_it_needs_no_rich(upstream: Upstream) -> None:
    upstream("Hello.")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('rich', 'prompt_toolkit', 'shtab')));"
        "from windlass.cli import main; sys.exit(main(['run', 'Hi']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.stdout == b"Hello.\n", done.stderr


def windlass(*words: str, input: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windlass", *words],
        input=input,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "windlass", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "windlass", *sys.argv[1:]])
"""


def on_a_terminal(
    *words: str, stdin: int | None = None, stdout: int | None = subprocess.PIPE
) -> tuple[subprocess.Popen[bytes], int]:
    """The command at a terminal, which is what is not given otherwise, and our end of it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *words],
        stdin=theirs if stdin is None else stdin,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
    )
    os.close(theirs)
    return process, ours


def read_to(screen: IO[bytes], marker: bytes) -> bytes:
    shown = b""
    while marker not in shown:
        piece = screen.read(1024)
        assert piece, shown
        shown += piece
    return shown
