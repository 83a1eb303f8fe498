"""`windlass run` as a process: pipes, terminals and interruptions."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.cli.running import Upstream, on_a_terminal, read_to, started, windlass

from windlass.testing import Gate, call, slow

pytestmark = pytest.mark.process


def test_quiet_keeps_the_log_to_errors(upstream: Upstream) -> None:
    upstream(call("get_weather", city="Paris"), "Sunny.", "Sunny.")
    done = windlass("run", "Hi", "--tools", "tools.py", "--max-rounds", "1", "-q", input="")
    [line] = done.stderr.splitlines()
    assert line.startswith("windlass: no full answer: max_rounds: ")


@pytest.mark.parametrize("words", [["-"], []])
def test_a_prompt_is_read_from_a_pipe(upstream: Upstream, words: list[str]) -> None:
    fake = upstream("Hello.")
    done = windlass("run", *words, input="What is thïs?")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert fake.requests[0].body["messages"][-1]["content"] == "What is thïs?"


@pytest.mark.parametrize(("answer", "seen"), [("y", "paid 5"), ("n", "the user said no")])
def test_a_person_at_a_terminal_is_asked(upstream: Upstream, answer: str, seen: str) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    process, terminal = on_a_terminal("run", "Pay 5.", "--tools", "tools.py")
    with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = read_to(screen, b"[y/N] ")
        screen.write(f"{answer}\n".encode())
        read_to(screen, b"2 rounds")
        out, _ = process.communicate(timeout=120)
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
        assert process.wait(timeout=120) == 0
    assert fake.requests[1].body["messages"][-1]["content"] == "paid 5"


def test_the_model_cannot_control_the_terminal(upstream: Upstream) -> None:
    upstream("\x1b[31mred\x1b]0;title\x07")
    process, terminal = on_a_terminal("run", "Hi", "-q", stdout=None)
    with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
        shown = read_to(screen, b"\n")
        assert process.wait(timeout=120) == 0
    assert b"red" in shown
    assert b"\x1b" not in shown
    assert b"\x07" not in shown


def test_an_interruption_stops_the_run_and_reports_its_tools(
    upstream: Upstream,
) -> None:
    upstream(call("wait_for_ever"))
    with started("run", "Wait.", "--tools", "tools.py", "--json") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Executing wait_for_ever" in line:
                break
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped, may have had an effect" in rest
    assert "Traceback" not in rest
    reply = json.loads(out)
    assert reply["stop_reason"] == "stopped"
    assert [each["name"] for each in reply["results"]] == ["wait_for_ever"]


def test_a_disconnect_of_a_reader_is_no_error(upstream: Upstream) -> None:
    gate = Gate()
    upstream(slow("One two three.", gate, after=1))
    with started("run", "Count.", "-q") as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "One "
        process.stdout.close()
        gate.open()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_it_needs_no_rich(upstream: Upstream) -> None:
    upstream("Hello.")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('rich', 'prompt_toolkit', 'shtab')));"
        "from windlass.cli import main; sys.exit(main(['run', 'Hi']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.stdout == b"Hello.\n", done.stderr
