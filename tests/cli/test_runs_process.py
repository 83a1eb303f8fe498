"""`windlass runs` beside other processes: followed, stopped, killed and resumed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.keeping import LOG, MODEL, half_said, keep
from tests.cli.running import Ran, Run, Upstream, on_a_terminal, read_to, started, windlass

from windlass.cli import main
from windlass.events import ToolRunStarted
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import FakeOpenAI, Gate, call, slow

pytestmark = pytest.mark.process

CLIENT = f"""
import asyncio, sys
import tools
from windlass import AsyncClient

async def main():
    known = [tools.get_weather, tools.pay, tools.wait_for_ever]
    async with AsyncClient("{MODEL}", log="windlass.db", tools=known) as client:
        run = await client.start("Weather?")
        print(run.id, flush=True)
        await asyncio.wait([run.task])

asyncio.run(main())
"""
TOOLS = ("--tools", "tools.py")


@contextmanager
def client() -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process with a stored run, and the run's id."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def beginning(*words: str) -> Generator[subprocess.Popen[str]]:
    """`windlass runs` as a process that does not outlive the test."""
    with started("runs", *words) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def runs(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `windlass runs` in this process, while the runs belong to another one."""

    def start(*words: str) -> Ran:
        capfdbinary.readouterr()
        code = main(["runs", *words])
        out, error = capfdbinary.readouterr()
        return Ran(code, out.decode(), error.decode())

    return start


def listed(runs: Run) -> list[dict[str, Any]]:
    return json.loads(runs("list", "--json").out)


def read_lines_to(stream: Any, words: str) -> None:
    for line in stream:
        if words in line:
            return
    raise AssertionError(f"the stream ended without {words!r}")


def wait_for_tool(run_id: str, path: str = LOG) -> None:
    """Waits until the start of a tool is stored."""

    async def wait() -> None:
        log = SQLiteLog(path)
        async for event in log.follow(run_id):
            if isinstance(event, ToolRunStarted):
                break
        await log.aclose()

    asyncio.run(wait())


def test_a_run_is_followed_live_while_another_process_runs_it(
    upstream: Upstream, runs: Run
) -> None:
    gate = Gate()
    upstream(call("get_weather", city="Paris"), slow("One two three.", gate, after=1))
    with client() as (process, run_id), beginning("follow", run_id) as follower:
        assert follower.stdout is not None
        assert follower.stdout.read(4) == "One "
        gate.open()
        out, told = follower.communicate(timeout=120)
        assert process.wait(120) == 0
    assert (follower.returncode, out) == (0, "two three.\n")
    assert 'get_weather {"city":"Paris"} -> sunny in Paris (ok' in told
    late = runs("follow", run_id)
    assert (late.out, late.error) == ("One two three.\n", told)


def test_ctrl_c_in_follow_does_not_stop_the_run(upstream: Upstream, runs: Run) -> None:
    gate = Gate()
    upstream(slow("One two three.", gate, after=1))
    with client() as (process, run_id):
        with beginning("follow", run_id) as follower:
            assert follower.stdout is not None
            assert follower.stdout.read(4) == "One "
            follower.send_signal(signal.SIGINT)
            _, told = follower.communicate(timeout=120)
        assert follower.returncode == 130
        assert f"stopped following {run_id}" in told
        assert "Traceback" not in told
        gate.open()
        assert process.wait(120) == 0
    assert listed(runs)[0]["state"] == "answer"


def test_another_process_stops_a_run(upstream: Upstream, runs: Run) -> None:
    upstream(call("wait_for_ever"))
    with client() as (process, run_id):
        with beginning("follow", run_id) as follower:
            wait_for_tool(run_id)
            stopped = runs("stop", run_id)
            _, told = follower.communicate(timeout=120)
        process.communicate(timeout=120)
    assert (stopped.code, stopped.error) == (0, f"windlass: stopped {run_id}\n")
    assert follower.returncode == 3
    assert "wait_for_ever {} -> " in told
    assert "(stopped, may have had an effect" in told
    assert "no full answer: stopped: the run was stopped" in told


def test_a_killed_process_is_reported_and_its_run_resumes(upstream: Upstream, runs: Run) -> None:
    fake = upstream(call("wait_for_ever"), "All is well.")
    with client() as (process, run_id), beginning("follow", run_id) as follower:
        wait_for_tool(run_id)
        process.kill()
        read_lines_to(follower.stderr, f"`windlass runs resume {run_id}`")
        assert listed(runs)[0]["state"] == "interrupted"
        resumed = runs("resume", *TOOLS)
        out, told = follower.communicate(timeout=120)
    assert (resumed.code, resumed.out) == (0, "All is well.\n")
    assert "interrupted, may have had an effect" in resumed.error
    assert (follower.returncode, out) == (0, "All is well.\n")
    assert "Another process resumed the run." in told
    assert "interrupted, effect unknown" in fake.requests[1].body["messages"][-1]["content"]
    assert listed(runs)[0]["state"] == "answer"


def test_an_interrupted_resume_leaves_the_run_interrupted(upstream: Upstream, runs: Run) -> None:
    run_id = half_said()
    gate = Gate()
    upstream(slow("One two three.", gate, after=1), "All is well.")
    with beginning("resume", run_id) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "One "
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    gate.open()
    assert process.returncode == 130
    assert f"`windlass runs resume {run_id}` resumes it" in told
    assert "Traceback" not in told
    assert listed(runs)[0]["state"] == "interrupted"
    assert runs("resume").out == "All is well.\n"


def test_without_a_terminal_an_approval_waits_for_another_process(
    upstream: Upstream, runs: Run
) -> None:
    fake = upstream(call("pay", amount=5), "Done.")
    with client() as (process, run_id), beginning("follow", run_id) as follower:
        read_lines_to(follower.stderr, "needs approval: windlass runs approve")
        process.kill()
        process.wait(120)
        follower.kill()
        follower.communicate()
    assert runs("approve", run_id).code == 1
    with beginning("resume", *TOOLS) as resumed:
        read_lines_to(resumed.stderr, "Another process resumed the run.")
        approved = runs("approve", run_id)
        out, _ = resumed.communicate(timeout=120)
    assert approved.error == 'windlass: pay {"amount":5}: approved\n'
    assert (approved.code, resumed.returncode, out) == (0, 0, "Done.\n")
    assert fake.requests[1].body["messages"][-1]["content"] == "paid 5"


@contextmanager
def gateway(fake: FakeOpenAI) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A gateway that stores its runs, and its address."""
    Path("windlass.toml").write_text(
        f'[models.fast]\ntarget = "{MODEL}"\nbase_url = "{fake.base_url}"\n'
        'tools = ["wait_for_ever"]\n[tools]\nmodules = ["tools.py"]\n[runs]\npath = "kept.db"\n'
    )
    with started("serve", "--port", "0", "--log-format", "json") as process:
        try:
            assert process.stderr is not None
            lines = (line.split("listens on ") for line in process.stderr)
            yield process, next(parts[1].strip() for parts in lines if len(parts) == 2)
        finally:
            process.kill()


def test_a_gateways_run_resumes_with_its_configuration(upstream: Upstream, runs: Run) -> None:
    fake = upstream(call("wait_for_ever"), "All is well.")
    with gateway(fake) as (process, address):
        body = {"model": "fast", "messages": [{"role": "user", "content": "Wait."}]}
        request = urllib.request.Request(
            f"{address}/v1/runs", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            run_id = json.load(answer)["id"]
        wait_for_tool(run_id, "kept.db")
        assert [(each["id"], each["state"]) for each in listed(runs)] == [(run_id, "running")]
        process.kill()
        process.wait(120)
    Path("other.toml").write_text(Path("windlass.toml").read_text().replace("fast", "slow"))
    missing = runs("resume", "--config", "other.toml")
    assert missing.code == 2
    assert f"{run_id} is a gateway's run of the model 'fast', which other.toml" in missing.error
    resumed = runs("resume")
    assert (resumed.code, resumed.out) == (0, "All is well.\n")
    assert "(interrupted, " in resumed.error
    assert listed(runs)[0]["state"] == "answer"


def test_an_export_is_played_out_of_a_pipe(here: Path) -> None:
    run_id = keep([call("get_weather", city="Paris"), "It is sünny."])
    exported = windlass("runs", "export", run_id, input="").stdout
    played = windlass("runs", "replay", "-", "--speed", "0", input=exported)
    assert (played.returncode, played.stdout) == (0, "It is sünny.\n")


def test_a_terminal_gets_colours_and_no_control_sequences_of_the_model(here: Path) -> None:
    run_id = keep([call("get_weather", city="\x1b[7mParis"), "\x1b]0;title\x07Sunny."])
    for words in (["show", run_id], ["follow", run_id], ["list"]):
        process, terminal = on_a_terminal("runs", *words, stdout=None)
        with process, os.fdopen(terminal, "r+b", buffering=0) as screen:
            shown = read_to(screen, b"2 rounds" if words[0] == "follow" else b"Sunny." if
                            words[0] == "show" else b"Paris?")  # fmt: skip
            assert process.wait(timeout=120) == 0
        assert b"\x1b[1m" in shown or b"\x1b[2m" in shown
        assert b"\x1b[7m" not in shown
        assert b"\x1b]" not in shown
        assert b"\x07" not in shown


def test_a_disconnect_of_a_reader_is_no_error(here: Path) -> None:
    run_id = keep(["It is sunny."])
    with beginning("follow", run_id, "--events") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
