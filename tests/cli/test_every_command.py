"""Every command as a user starts it: in a new process, where nothing is imported yet."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import pytest
from tests.cli.keeping import going, half_said, keep
from tests.cli.running import Upstream
from tests.cli.terminal import Terminal
from tests.support.browsing import FLAGS, HEADLESS

from windlass.cli import main, whole_parser
from windlass.testing import call
from windlass.testing.aistudio import FakeAIStudio

pytestmark = pytest.mark.process

Test = TypeVar("Test", bound=Callable[..., object])
MODEL = ("--model", "openai/gpt-5-mini")
TOOLS = ("--tools", "tools.py")


def _commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, bool]]:
    """Each command and each of its actions, and whether it has actions itself."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if name:
        yield name, bool(groups)
    for group in groups:
        for word, below in cast("dict[str, argparse.ArgumentParser]", group.choices).items():
            yield from _commands(below, f"{name} {word}".strip())


COMMANDS = dict(_commands(whole_parser()))
USED: set[str] = set()


def real_use_of(command: str) -> Callable[[Test], Test]:
    """Marks the test that uses the command for its purpose, as a process."""

    def marked(test: Test) -> Test:
        USED.add(command)
        return test

    return marked


def done(*words: str, input: str = "", code: int = 0) -> str:
    """The command's stdout. It must exit with the code, and without a traceback."""
    ran = subprocess.run(
        [sys.executable, "-m", "windlass", *words],
        input=input,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == code, ran.stderr
    return ran.stdout


@contextmanager
def serving(*words: str, until: str) -> Iterator[str]:
    """A command that runs until it is stopped, and the line on stderr that reports that it is
    ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        while until not in (line := process.stderr.readline()):
            lines.append(line)
            assert line, "".join(lines)
        yield line
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGTERM), rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as response:
        return response.read().decode()


def test_every_command_and_action_has_a_real_use_below() -> None:
    assert {name for name, has_actions in COMMANDS.items() if not has_actions} == USED


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(
    here: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: windlass {command} ")


def test_help_needs_nothing_that_is_imported_before(here: Path) -> None:
    assert done("runs", "resume", "--help").startswith("usage: windlass runs resume ")


@real_use_of("run")
def test_run_asks_a_model_with_tools(upstream: Upstream) -> None:
    upstream(call("get_weather", city="Paris"), "It is sunny.")
    assert done("run", "Weather?", *MODEL, *TOOLS) == "It is sunny.\n"


@real_use_of("chat")
def test_chat_answers_at_a_terminal(upstream: Upstream, here: Path) -> None:
    fake = upstream("It is sunny.")
    environ = {"OPENAI_BASE_URL": fake.base_url, "OPENAI_API_KEY": os.environ["OPENAI_API_KEY"]}
    with Terminal([sys.executable, "-m", "windlass", "chat", *MODEL], here, environ) as terminal:
        terminal.wait_for("/help\n", "\n>\n")
        terminal.type("Weather?", "Enter")
        terminal.wait_for("It is sunny.")
        terminal.type("/quit", "Enter")
        terminal.wait_for("exit code 0")


@real_use_of("tools list")
def test_tools_list_names_the_tools_of_a_file(here: Path) -> None:
    assert "get_weather" in done("tools", "list", "tools.py")


@real_use_of("tools schema")
def test_tools_schema_shows_the_parameters(here: Path) -> None:
    assert "city" in done("tools", "schema", "get_weather", *TOOLS)


@real_use_of("tools call")
def test_tools_call_calls_one(here: Path) -> None:
    assert "sunny in Oslo" in done("tools", "call", "get_weather", *TOOLS, "--arg", "city=Oslo")


@real_use_of("models")
def test_models_lists_models(here: Path) -> None:
    assert "openai/" in done("models")


@pytest.mark.whole("test_demo, whose `make run` starts the same command")
@real_use_of("demo")
@pytest.mark.usefixtures("here")
def test_demo_serves_the_embedded_model(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(here / "state"))
    words = ("demo", "--model", "smol", "--port", "0")
    with serving(*words, until="Windlass listens on ") as line:
        address = line.removeprefix("Windlass listens on ").split()[0]
        assert json.loads(fetched(f"{address}/health")) == {"status": "ok"}


@real_use_of("serve")
def test_serve_listens(upstream: Upstream) -> None:
    upstream()
    with serving("serve", "--port", "0", until="Windlass listens on ") as line:
        address = line.split("Windlass listens on ")[1].strip()
        assert json.loads(fetched(f"{address}/health")) == {"status": "ok"}


@real_use_of("connect codex")
@real_use_of("connect claude")
@real_use_of("connect gemini")
def test_connect_tests_that_a_gateway_answers(upstream: Upstream, here: Path) -> None:
    upstream("connected", "connected", "connected")
    with serving("serve", "--port", "0", until="Windlass listens on ") as line:
        address = line.split("Windlass listens on ")[1].strip()
        words = ("--url", f"{address}/v1", "--model", "openai/gpt-5-mini")
        assert f'base_url = "{address}/v1"' in done("connect", "codex", *words)
        assert f'"ANTHROPIC_BASE_URL": "{address}"' in done("connect", "claude", *words)
        assert '"selectedType": "gemini-api-key"' in done("connect", "gemini", *words)


@real_use_of("worker")
def test_worker_offers_its_tools(here: Path, nats: str) -> None:
    with serving("worker", *TOOLS, "--nats", nats, until="get_weather"):
        pass


@pytest.mark.whole("test_mcp_command, which starts the same command")
@real_use_of("mcp")
def test_mcp_answers_on_stdin_and_stdout(here: Path) -> None:
    body = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": body}
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", "mcp", *TOOLS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        _, told = process.communicate(timeout=120)
    assert answer["result"]["serverInfo"]["name"] == "windlass"
    assert (process.returncode, "Traceback" in told) == (0, False)


@real_use_of("init")
@real_use_of("check-config")
def test_init_writes_what_check_config_accepts(here: Path) -> None:
    done("init", "new")
    done("check-config", "new/windlass.toml")


@real_use_of("doctor")
def test_doctor_checks_the_installation(upstream: Upstream) -> None:
    upstream()
    assert json.loads(done("doctor", "--json"))["ready"] is True


@real_use_of("keys new")
def test_keys_new_makes_a_key(here: Path) -> None:
    assert done("keys", "new", "--name", "web").startswith("wl_")


@real_use_of("aistudio login")
def test_aistudio_login_ends_when_the_page_is_there(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = here / "chromium"  # login shows a window, and a test has no screen
    browser.write_text(f'#!/bin/sh\nexec {HEADLESS} --headless {" ".join(FLAGS)} "$@"\n')
    browser.chmod(0o755)
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(browser))
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(here / "profile"))
    with FakeAIStudio([]) as fake:
        monkeypatch.setenv("WINDLASS_AISTUDIO_URL", fake.url)
        done("aistudio", "login")


@real_use_of("aistudio doctor")
def test_aistudio_doctor_finds_the_parts_of_the_page(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_AISTUDIO_BROWSER", str(HEADLESS))
    monkeypatch.setenv("WINDLASS_AISTUDIO_PROFILE", str(here / "profile"))
    with FakeAIStudio([call("ping", text="hello")]) as fake:
        found = json.loads(done("aistudio", "doctor", "--url", fake.url, "--json"))
    assert not {"missing", "failed"} & {each["state"] for each in found}
    assert (here / "profile").stat().st_mode & 0o077 == 0


@real_use_of("aistudio clear-cache")
def test_aistudio_clear_cache_asks_the_gateway(here: Path) -> None:
    (here / "windlass.toml").write_text('[models.studio]\ntarget = "aistudio/default"\n')
    with serving("serve", "--port", "0", until="http://") as line:
        address = re.search(r"http://[\w.:]+", line)
        assert address is not None
        told = done("aistudio", "clear-cache", "--url", f"{address[0]}/v1")
    assert told == "studio: cleared 0 pages\n"


@real_use_of("parse")
def test_parse_reads_a_call(here: Path) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    [found] = json.loads(done("parse", input=text))["calls"]
    assert (found["name"], found["arguments"]) == ("f", {"a": 1})


@real_use_of("completion")
def test_completion_writes_a_script(here: Path) -> None:
    assert "windlass" in done("completion", "bash")


@real_use_of("runs list")
@real_use_of("runs show")
@real_use_of("runs follow")
@real_use_of("runs export")
@real_use_of("runs replay")
@real_use_of("runs delete")
def test_runs_reads_a_finished_run_and_deletes_it(here: Path) -> None:
    made = keep([call("get_weather", city="Paris"), "It is sunny."])
    assert made[:12] in done("runs", "list")
    assert "It is sunny." in done("runs", "show", made)
    assert done("runs", "follow", made) == "It is sunny.\n"
    exported = done("runs", "export", made)
    assert done("runs", "replay", "-", "--speed", "0", input=exported) == "It is sunny.\n"
    done("runs", "delete", made)
    assert json.loads(done("runs", "list", "--json")) == []


@real_use_of("runs expire")
def test_runs_expire_deletes_all_but_the_newest(here: Path) -> None:
    keep(["One."])
    newest = keep(["Two."])
    done("runs", "expire", "--keep", "1")
    assert [each["id"] for each in json.loads(done("runs", "list", "--json"))] == [newest]


@real_use_of("runs resume")
def test_runs_resume_ends_an_interrupted_run(upstream: Upstream) -> None:
    made = half_said()
    upstream("All is well.")
    assert done("runs", "resume", made) == "All is well.\n"


@real_use_of("runs approve")
@real_use_of("runs stop")
def test_runs_approve_and_stop_reach_a_run_of_another_process(here: Path) -> None:
    with going([call("pay", amount=5), call("pay", amount=6)]) as made:
        followed = ("runs", "follow", made, "--events")
        for amount in (5, 6):
            with subprocess.Popen(
                [sys.executable, "-m", "windlass", *followed], stdout=subprocess.PIPE, text=True
            ) as follower:
                assert follower.stdout is not None
                asked = f'"amount\\":{amount}'
                assert any('"approval_requested"' in x and asked in x for x in follower.stdout)
                follower.kill()
            done("runs", "approve" if amount == 5 else "stop", made)
    [run] = json.loads(done("runs", "list", "--json"))
    assert run["reason"] == "stopped"
