"""Claude Code and Gemini CLI, unchanged, with what `windlass connect NAME --write` makes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.cli import main
from windlass.content import FunctionResponse
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import ScriptedModel, call

pytestmark = [
    pytest.mark.timeout(700),
    pytest.mark.whole("tests/cli/test_connect, without the programs themselves"),
]

CLAUDE_CODE = ("@anthropic-ai/claude-code@2.1.325",)
GEMINI_CLI = ("@google/gemini-cli@0.61.0",)
KEY, HASH = new_key()
TASK = "What does greeting.txt say?"


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class Connected:
    """A gateway, and a program whose home is in a scratch directory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
        self.folder, self._key = folder, key
        (folder / "greeting.txt").write_text("hello\n")
        (folder / "home").mkdir()
        for name in ("HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"):
            monkeypatch.setenv(name, str(folder / "home"))
        monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        monkeypatch.delenv("WINDLASS_API_KEY", raising=False)
        if key:
            monkeypatch.setenv("WINDLASS_API_KEY", key)

    def asks(self, client: str, model: ScriptedModel, options: str, packages: Any) -> Any:
        """Starts the program as the command says, and returns the JSON that it prints."""
        config = config_of(
            ModelConfig(name="fast", target="scripted/model", tools=("get_weather",)),
            keys=(KeyConfig(name="web", hash=HASH),) if self._key else (),
        )
        programs = installed(client, packages) / ".bin"
        path = os.pathsep.join((str(programs), str(NODE.parent), os.environ["PATH"]))
        with Serving(config, models={"fast": model}, tools=[get_weather]) as serving:
            done = subprocess.run(
                ["sh", "-c", f"{self._start(client, serving.base_url)} -p '{TASK}' {options}"],
                cwd=self.folder,
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout[done.stdout.index("{") :])

    def _start(self, client: str, url: str) -> str:
        """The command that starts the program, as `windlass connect` prints it."""
        words = ["connect", client, "--write", "--no-check", "--url", url, "--model", "fast"]
        with pytest.MonkeyPatch.context() as patch:
            lines: list[str] = []
            patch.setattr("windlass.cli.connect._report", lines.append)
            assert main(words) == 0
        return lines[-1].partition(" with: ")[2]


def results_of(model: ScriptedModel) -> list[str]:
    """The results that the model read in the last round."""
    parts = [part for message in model.requests[-1].messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, FunctionResponse)]


@pytest.fixture(params=[KEY, None], ids=["with a key", "without a key"])
def connected(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Connected:
    return Connected(tmp_path, monkeypatch, request.param)


def test_claude_code_runs_its_own_tool_and_a_server_tool_runs(connected: Connected) -> None:
    read = call("Bash", command="cat greeting.txt", description="Reads the file")
    model = ScriptedModel([call("get_weather", city="Paris"), read, "It says hello."])
    options = "--output-format json --allowedTools Bash"
    done = connected.asks("claude", model, options, CLAUDE_CODE)
    assert done["result"] == "It says hello."
    assert results_of(model) == ["sunny in Paris", "hello"]
    assert len(model.requests) == 3


def test_gemini_cli_runs_its_own_tool_and_a_server_tool_runs(connected: Connected) -> None:
    read = call("read_file", file_path="greeting.txt")
    model = ScriptedModel([call("get_weather", city="Paris"), read, "It says hello."])
    done = connected.asks("gemini", model, "--skip-trust -o json", GEMINI_CLI)
    assert done["response"] == "It says hello."
    assert results_of(model) == ["sunny in Paris", "hello\n"]
    assert len(model.requests) == 3
