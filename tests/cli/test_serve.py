"""`windlass serve` as a process: it listens, and exits on a signal."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.support.commands import finished

from windlass.cli import main
from windlass.cli.serve import console_address
from windlass.testing import FakeOpenAI, Gate, call, slow

CONFIG = """\
[models.fast]
target = "openai/gpt-test"
base_url = "{base_url}"
api_key_env = "SERVE_TEST_KEY"
tools = ["get_weather"]

[tools]
modules = ["tools.py"]
"""
TOOLS = '''
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


TOOLS = [get_weather]
'''
KEY = "sk-of-the-operator"
MODEL = '[models.fast]\ntarget = "openai/gpt-test"\napi_key_env = "KEY"\n'
QUESTION = {"model": "fast", "messages": [{"role": "user", "content": "Weather?"}]}


class Process:
    """The command, in a directory with a configuration."""

    def __init__(self, home: Path) -> None:
        self.log = ""
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "windlass", "serve", "--port", "0"],
            cwd=home,
            env={"SERVE_TEST_KEY": KEY, "PATH": ""},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_to(self, marker: str) -> str:
        """Reads the log up to the line with the marker, and returns that line."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log += line
            if marker in line:
                return line
        raise AssertionError(f"no {marker!r} in:\n{self.log}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """The exit code, when it has ended."""
        out, rest = self._process.communicate(timeout=120)
        assert out == ""
        self.log += rest
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def serving(home: Path, fake: FakeOpenAI) -> Iterator[tuple[Process, httpx2.Client]]:
    (home / "windlass.toml").write_text(CONFIG.format(base_url=fake.base_url))
    (home / "tools.py").write_text(TOOLS)
    process = Process(home)
    try:
        address = process.read_to("Windlass listens on ").split()[-1]
        with httpx2.Client(base_url=address, timeout=120, verify=False, trust_env=False) as client:
            yield process, client
    finally:
        process.kill()


@pytest.mark.process
def test_a_process_answers_and_a_termination_during_a_stream_ends_it_in_order(
    tmp_path: Path,
) -> None:
    gate = Gate()
    script = [call("get_weather", city="Rome"), "Sunny.", slow("One two three.", gate, after=1)]
    with FakeOpenAI(script, api_key=KEY) as fake, serving(tmp_path, fake) as (process, client):
        answer = client.post("/v1/chat/completions", json=QUESTION).json()
        assert answer["choices"][0]["message"]["content"] == "Sunny."
        assert fake.requests[1].body["messages"][-1]["content"] == "sunny in Rome"
        body = {**QUESTION, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()
            begun = next(line for line in lines if "One " in line)
            process.signal(signal.SIGTERM)
            process.read_to("Waiting for runs to end")
            gate.open()
            came = [begun, *(line for line in lines if line)]
        assert process.end() == 0
    text = [json.loads(line.removeprefix("data: ")) for line in came[:-1]]
    said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in text)
    assert said == "One two three."
    assert came[-1] == "data: [DONE]"
    logged = [json.loads(line) for line in process.log.splitlines()[1:]]
    statuses = [line["status"] for line in logged if line["logger"] == "windlass.gateway.access"]
    assert statuses == [200, 200]
    assert KEY not in process.log


@pytest.mark.process
def test_an_interruption_ends_a_process_that_has_nothing_to_do(tmp_path: Path) -> None:
    with FakeOpenAI() as fake, serving(tmp_path, fake) as (process, client):
        assert client.get("/health").json() == {"status": "ok"}
        assert f"The console is at {client.base_url}/. Windlass listens on" in process.log
        process.signal(signal.SIGINT)
        assert process.end() == 130
    assert "Traceback" not in process.log


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("WINDLASS_HOST", "WINDLASS_PORT", "WINDLASS_MODEL", "WINDLASS_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    # The command configures logging for its whole process, which is pytest's here.
    monkeypatch.setattr("windlass.cli.serve.configure_logging", lambda *_: None)
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command prints if it cannot serve."""
    assert main(["serve", *arguments]) == 2
    out, error = capsys.readouterr()
    [line] = error.splitlines()
    assert out == ""
    assert line.startswith("windlass: ")
    return line.removeprefix("windlass: ")


@pytest.mark.usefixtures("here")
def test_a_port_that_is_taken_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = complaint(capsys, "--port", str(port))
    assert said == f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.usefixtures("here")
def test_a_host_that_is_not_ours_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "--host", "no-such-host.invalid", "--port", "0")
    assert "no-such-host.invalid" in said


def test_a_wrong_configuration_is_named_with_its_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "windlass.toml").write_text('[models.fast]\ntarget = "opnai/gpt"\n')
    said = complaint(capsys)
    assert said.startswith("windlass.toml:2: models.fast.target: ")
    assert "did you mean 'openai'?" in said


@pytest.mark.usefixtures("here")
def test_a_missing_configuration_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.toml" in complaint(capsys, "--config", "absent.toml")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_gateway_without_keys_is_not_opened_to_others(
    capsys: pytest.CaptureFixture[str], host: str
) -> None:
    said = complaint(capsys, "--host", host)
    assert "--host" in said
    assert "windlass keys new" in said


@pytest.mark.usefixtures("here")
def test_an_invalid_port_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--port" in complaint(capsys, "--port", "70000")


def failed(home: Path, *words: str) -> str:
    """The one message of a process that exits with code 2."""
    done = finished(*words, cwd=home, env={"PATH": "", "KEY": KEY})
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("windlass: ")
    return line.removeprefix("windlass: ")


@pytest.mark.process
def test_a_taken_nats_port_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "windlass.toml").write_text(f"{MODEL}[workers]\nport = {port}\n")
        said = failed(tmp_path, "serve", "--workers", "--port", "0")
    assert said == (
        f"cannot start a NATS server on 127.0.0.1:{port}: the port is in use; in [workers], set"
        " port to a free one, or nats to the address of a NATS server that is running"
    )


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("http://0.0.0.0:8080", "http://localhost:8080/"),
        ("http://[::]:8080", "http://localhost:8080/"),
        ("http://[::1]:8080", "http://[::1]:8080/"),
    ],
)
def test_the_console_is_named_by_an_address_that_a_browser_opens(address: str, shown: str) -> None:
    assert console_address(address) == shown
