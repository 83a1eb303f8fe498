"""A gateway with several processes: one port, one set of limits and runs, and no lost run."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.several_processes import (
    KEY,
    QUESTION,
    Gateway,
    eventually,
    fresh_client,
    get,
    post,
    several_processes,
    write_config,
)

from windlass.testing import FakeOpenAI, Gate, slow

pytestmark = pytest.mark.process

CHAT = "/v1/chat/completions"
LIMITED = f"""
[[keys]]
name = "web"
hash = "sha256:{hashlib.sha256(b"sk-web").hexdigest()}"
requests_per_minute = 2

[[keys]]
name = "app"
hash = "sha256:{hashlib.sha256(b"sk-app").hexdigest()}"
max_running = 2

[[keys]]
name = "batch"
hash = "sha256:{hashlib.sha256(b"sk-batch").hexdigest()}"

[limits]
max_running = 3
max_queued = 2
"""


def test_processes_share_a_port_their_runs_and_their_metrics(tmp_path: Path) -> None:
    with (
        FakeOpenAI(lambda _: "Hi.", api_key=KEY) as fake,
        several_processes(tmp_path, fake.base_url) as (gateway, address),
    ):
        assert len(gateway.children) == 2
        answers = [post(address, CHAT, QUESTION) for _ in range(12)]
        assert {answer.status_code for answer in answers} == {200}
        ids = [answer.headers["x-windlass-run-id"] for answer in answers]
        for run_id in ids:
            # Each on a new connection: several times, so that both processes are asked.
            found = [get(address, f"/v1/runs/{run_id}").json() for _ in range(3)]
            assert [run["id"] for run in found] == [run_id] * 3
            assert found[0]["status"] == "ended"
        for _ in range(3):
            listed = get(address, "/v1/runs").json()["data"]
            assert [run["id"] for run in listed] == ids[::-1]
        with fresh_client(address) as client:
            assert client.delete(f"/v1/runs/{ids[0]}").status_code == 200
        gone = [get(address, f"/v1/runs/{ids[0]}").status_code for _ in range(6)]
        assert gone == [404] * 6
        counted = {
            'windlass_runs_total{model="fast",stop_reason="answer"} 12.0',
            "windlass_running_runs 0.0",
        }
        eventually(
            lambda: counted <= set(get(address, "/metrics").text.splitlines()), "all are counted"
        )
        assert gateway.end() == 0
    assert not [line for line in gateway.lines if "rror" in line]


def test_rates_and_limits_on_runs_are_exact_over_processes(tmp_path: Path) -> None:
    gate = Gate()
    with (
        FakeOpenAI(lambda _: slow("Hi.", gate), api_key=KEY) as fake,
        several_processes(tmp_path, fake.base_url, more=LIMITED) as (_, address),
        ThreadPoolExecutor(20) as pool,
    ):

        def ask(key: str) -> int:
            return post(address, CHAT, QUESTION, key).status_code

        app = [pool.submit(ask, "sk-app") for _ in range(5)]
        eventually(lambda: sum(each.done() for each in app) == 3, "three are refused")
        assert Counter(each.result() for each in app if each.done()) == {429: 3}
        batch = [pool.submit(ask, "sk-batch") for _ in range(6)]
        eventually(lambda: sum(each.done() for each in batch) == 3, "the queue is full")
        assert Counter(each.result() for each in batch if each.done()) == {503: 3}
        gate.open()
        assert Counter(each.result() for each in app) == {200: 2, 429: 3}
        assert Counter(each.result() for each in batch) == {200: 3, 503: 3}
        web = Counter(pool.map(ask, ["sk-web"] * 12))
        # One more may start every 30 seconds.
        assert web[200] in (2, 3)
        assert web[429] == 12 - web[200]


def test_a_killed_process_is_replaced_and_its_background_runs_end_elsewhere(tmp_path: Path) -> None:
    gate = Gate()
    with (
        FakeOpenAI(lambda _: slow("Done.", gate, after=1), api_key=KEY) as fake,
        several_processes(tmp_path, fake.base_url) as (gateway, address),
    ):
        runs = [post(address, "/v1/runs", QUESTION).json()["id"] for _ in range(8)]
        eventually(lambda: len(fake.requests) >= 8, "all runs are at the model")
        for times, killed in enumerate(gateway.children, start=1):
            os.kill(killed, signal.SIGKILL)
            gateway.wait_for("A gateway process exited; starting another", times)
            eventually(lambda: len(gateway.children) == 2, "the process is replaced")
            assert killed not in gateway.children
            get(address, "/health")
        # Each run had a process that was killed, so each asks the model again.
        eventually(lambda: len(fake.requests) >= 16, "all runs are resumed")
        gate.open()

        def ended() -> bool:
            found = [get(address, f"/v1/runs/{run_id}").json() for run_id in runs]
            return all(run["status"] == "ended" for run in found)

        eventually(ended, "all runs end")
        assert gateway.end() == 0


def test_a_reload_serves_the_new_configuration_and_drops_no_stream(tmp_path: Path) -> None:
    gate = Gate()
    with (
        FakeOpenAI(lambda _: slow("One two three.", gate, after=1), api_key=KEY) as fake,
        several_processes(tmp_path, fake.base_url) as (gateway, address),
        fresh_client(address) as client,
    ):
        body = {**QUESTION, "stream": True}
        with client.stream("POST", CHAT, json=body) as response:
            run_id = response.headers["x-windlass-run-id"]
            lines = response.iter_lines()
            begun = next(line for line in lines if "One" in line)
            old = gateway.children
            write_config(tmp_path, fake.base_url, "[models.other]\ntarget = 1\n")
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for("Cannot reload")
            assert names(address) == ["fast"]
            more = f'[models.new]\ntarget = "openai/x"\nbase_url = "{fake.base_url}"\n'
            write_config(tmp_path, fake.base_url, more)
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for("Reloaded")
            eventually(
                lambda: [names(address) for _ in range(6)] == [["fast", "new"]] * 6,
                "the old processes accept no connection",
            )
            assert set(old) & set(gateway.children), "the process of the stream waits for it"
            gate.open()
            came = [begun, *(line for line in lines if line)]
        assert came[-1] == "data: [DONE]"
        eventually(lambda: not set(old) & set(gateway.children), "the old processes exit")
        assert len(gateway.children) == 2
        assert get(address, f"/v1/runs/{run_id}").json()["status"] == "ended"
        assert gateway.end(signal.SIGINT) == 130


def test_every_process_follows_and_stops_the_stream_of_another(tmp_path: Path) -> None:
    gate = Gate()
    with (
        FakeOpenAI(lambda _: slow("One two three.", gate, after=1), api_key=KEY) as fake,
        several_processes(tmp_path, fake.base_url) as (gateway, address),
        fresh_client(address) as client,
    ):
        with client.stream("POST", CHAT, json={**QUESTION, "stream": True}) as response:
            run = f"/v1/runs/{response.headers['x-windlass-run-id']}"
            lines = response.iter_lines()
            next(line for line in lines if "One" in line)
            # Each on a new connection: several times, so that both processes are asked.
            for _ in range(4):
                assert get(address, run).json()["status"] == "running"
                with fresh_client(address) as other, other.stream("GET", f"{run}/events") as events:
                    assert any("One" in line for line in events.iter_lines())
            assert post(address, f"{run}/stop", {}).status_code in (200, 202)
            assert not [line for line in lines if "two" in line]
        assert get(address, run).json()["stop_reason"] == "stopped"
        assert gateway.end() == 0


def names(address: str) -> list[str]:
    models: list[dict[str, Any]] = get(address, "/v1/models").json()["data"]
    return sorted(model["id"] for model in models)


def test_processes_exit_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with several_processes(tmp_path, "http://127.0.0.1:1/v1") as (gateway, _):
        children = gateway.children
        gateway.process.kill()
        eventually(lambda: not any(map(is_running, children)), "the processes exit")


def test_a_process_exits_when_its_supervisor_is_killed_while_it_starts(tmp_path: Path) -> None:
    write_config(tmp_path, "http://127.0.0.1:1/v1")
    gateway = Gateway(tmp_path, 2)
    eventually(lambda: bool(gateway.children), "the first process starts")
    [child] = gateway.children
    gateway.process.kill()
    try:
        eventually(lambda: not is_running(child), "the process exits")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        gateway.kill()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_wrong_configuration_is_reported_once(tmp_path: Path) -> None:
    tool = '[tools]\nmodules = ["missing.py"]\n'
    write_config(tmp_path, "http://127.0.0.1:1/v1", tool)
    command = [sys.executable, "-m", "windlass", "serve", "--port", "0", "--processes"]
    given = {"cwd": tmp_path, "env": {"PATH": ""}, "capture_output": True, "text": True}
    done = subprocess.run([*command, "3"], **given)
    assert (done.returncode, done.stderr.count("windlass: ")) == (2, 1)
    assert "missing.py" in done.stderr
    wrong = subprocess.run([*command, "none"], **given)
    assert wrong.returncode == 2
    assert "--processes: must be a whole number from 1 to 1024, or" in wrong.stderr
