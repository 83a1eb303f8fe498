"""Gemini CLI, unchanged, from npm: it works with any model of a gateway, beside server tools."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.gateway.config import KeyConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.loop.policy import EMPTY_ANSWER
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, call, calls, cut, refuse, say, think

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("tests/gateway/routes/test_gemini_api.py and test_genai_sdk.py"),
]

PACKAGES = ("@google/gemini-cli@0.61.0",)
KEY, HASH = new_key()
SECONDS = 240


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


class Cli:
    """Runs Gemini CLI in its own folder, against a gateway with a scripted model."""

    def __init__(self, home: Path, work: Path) -> None:
        self.home, self.work = home, work
        self.requests: list[ModelRequest] = []
        settings = home / ".gemini" / "settings.json"
        settings.parent.mkdir()
        settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')

    def run(
        self, prompt: str, *steps: Step, flags: Sequence[str] = (), **model: Any
    ) -> subprocess.CompletedProcess[str]:
        """Its output. It is an error if it sends more requests than the script has steps."""
        # The name is the CLI's own; the model behind it is another.
        served = ModelConfig(
            name="any", target="scripted/any", aliases=("gemini-*",), tools=("lookup",), **model
        )
        config = config_of(
            served,
            keys=(KeyConfig(name="web", hash=HASH),),
            server=ServerConfig(heartbeat=0.05, access_log=False),
        )
        scripted = ScriptedModel(list(steps))
        package = installed("gemini-cli", PACKAGES) / "@google" / "gemini-cli"
        command = [str(NODE), str(package / "bundle" / "gemini.js")]
        with Serving(config, models={"any": scripted}, tools=[lookup]) as serving:
            done = subprocess.run(
                [*command, "-p", prompt, "-m", "gemini-2.5-flash", "--skip-trust", *flags],
                cwd=self.work,
                env={
                    "HOME": str(self.home),
                    "TMPDIR": str(self.home),
                    "PATH": f"{NODE.parent}:{os.environ['PATH']}",
                    "GEMINI_API_KEY": KEY,
                    "GOOGLE_GEMINI_BASE_URL": serving.root_url,
                    "GEMINI_TELEMETRY_ENABLED": "false",
                    "NO_COLOR": "1",
                },
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        self.requests = list(scripted.requests)
        return done


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    return Cli(home, work)


def test_it_reads_a_file_with_its_own_tool_while_a_server_tool_runs(cli: Cli) -> None:
    note = cli.work / "note.txt"
    note.write_text("The word is heron.\n")
    done = cli.run(
        "Which word is in note.txt, and how is the weather in Oslo and Rome?",
        call("lookup", city="Oslo"),
        think(
            "Both at once.",
            calls(call("lookup", city="Rome"), call("read_file", file_path=str(note))),
        ),
        say("It is heron, and sunny."),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "It is heron, and sunny."
    assert len(cli.requests) == 3  # it has not asked again
    hidden, results = cli.requests[-1].messages[-4:-2], cli.requests[-1].messages[-1]
    assert [message.role for message in hidden] == ["assistant", "tool"]
    assert results.responses[0].output == "sunny in Rome"
    assert "heron" in json.dumps(results.responses[1].response)
    offered = {getattr(each, "name", "") for each in cli.requests[0].tools}
    assert {"lookup", "read_file"} <= offered


def test_it_writes_a_file_with_its_own_tool(cli: Cli) -> None:
    note = cli.work / "note.txt"
    write = call("write_file", file_path=str(note), content="new words\n")
    done = cli.run("Write new words into note.txt.", write, "Written.", flags=["--yolo"])
    assert note.read_text() == "new words\n", done.stderr
    assert done.stdout.strip() == "Written."


def test_a_text_added_by_the_gateway_does_not_make_gemini_cli_ask_again(cli: Cli) -> None:
    done = cli.run("Hello", call("lookup", city="Rome"), say(""), max_rounds=1)
    assert done.stdout.strip() == EMPTY_ANSWER
    assert len(cli.requests) == 2


def test_gemini_cli_shows_the_error_of_the_gateway(cli: Cli) -> None:
    done = cli.run("Hello", refuse(400, "Not today."))
    assert done.returncode != 0
    assert "Not today." in done.stderr + done.stdout


def test_an_interrupted_stream_is_never_an_answer(cli: Cli) -> None:
    done = cli.run("Count.", *[cut("One two three four.", 2)] * 9)
    assert "four" not in done.stdout
    assert done.returncode != 0
