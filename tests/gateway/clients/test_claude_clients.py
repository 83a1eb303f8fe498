"""Claude Code, the Claude Agent SDK and the AI SDK, unchanged, against a gateway on a real port.

The model is scripted, so that the number of requests shows whether a client has thrown a stream
away and asked again.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.anthropic_clients import (
    NODE,
    agent_sdk,
    claude_code,
    client_environment,
    node_modules,
)
from tests.support.messages_gateway import calls_and_results, lookup
from tests.support.serving import Serving, config_of

from windlass.gateway.config import ModelConfig
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, call, calls, refuse, think
from windlass.testing.script import Stepper

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("test_anthropic_sdk.py holds the same with the SDK"),
    pytest.mark.timeout(900),
]
HERE = Path(__file__).parent
SECONDS = 240
SERVED = ModelConfig(name="m", target="scripted/model", tools=("lookup",), aliases=("claude-*",))
Body = dict[str, Any]


class Stage:
    """A gateway, a folder for the client, and the requests of its conversation."""

    def __init__(self, folder: Path) -> None:
        self.work, self._home = folder / "work", folder / "home"
        self.work.mkdir()
        self._home.mkdir()
        self.requests: list[ModelRequest] = []
        self._stepper: Stepper[ModelRequest] = Stepper(())
        self.model = ScriptedModel(self._step)
        self.serving = Serving(config_of(SERVED), models={"m": self.model}, tools=[lookup])

    def plays(self, *steps: Step) -> None:
        self._stepper = Stepper(steps)

    def _step(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        return self._stepper.next(request)

    def run(self, *command: str, **variables: str) -> str:
        """The output of a client that succeeds."""
        environment = client_environment(self.serving.root_url, self._home) | variables
        done = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def claude(self, prompt: str, *options: str, **variables: str) -> list[Body]:
        """The messages that Claude Code prints."""
        form = ("--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits")
        printed = self.run(*claude_code(), "-p", prompt, *form, *options, **variables)
        return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    with stage.serving:
        yield stage


# Claude Code.


def test_claude_code_edits_a_file_while_server_tools_run(stage: Stage) -> None:
    notes = stage.work / "notes.txt"
    notes.write_text("The sky over Rome is TODO.\n")
    edit = {"file_path": str(notes), "old_string": "TODO", "new_string": "sunny"}
    stage.plays(
        calls(call("lookup", city="Rome"), call("Read", file_path=str(notes)), text="Reading."),
        call("lookup", city="Oslo"),
        calls(call("Edit", edit), call("lookup", city="Kyiv"), thoughts="Edit it."),
        "All done.",
    )
    *_, result = stage.claude("Complete notes.txt.")
    assert notes.read_text() == "The sky over Rome is sunny.\n"
    assert (result["subtype"], result["result"]) == ("success", "All done.")
    assert all(request.live for request in stage.requests), "a client fell back to one body"
    assert len(stage.requests) == 4
    facts = calls_and_results(stage.requests[-1].messages)
    names = [fact[1] if fact[0] == "->" else fact[0] for fact in facts]
    assert names == [
        *("lookup", "Read", "lookup", "Read"),
        *("lookup", "lookup"),
        *("Edit", "lookup", "Edit", "lookup"),
    ]
    assert facts[2] == ("->", "lookup", "sunny in Rome")
    assert "has been updated" in facts[8][2]


def test_claude_code_sees_server_tools_as_blocks_of_the_connector(stage: Stage) -> None:
    stage.plays(
        calls(call("lookup", city="Rome"), call("lookup", city="Atlantis"), text="Looking."),
        "Sunny.",
    )
    beta = {"ANTHROPIC_BETAS": "mcp-client-2025-11-20"}
    *messages, result = stage.claude("How is Rome?", **beta)
    assert (result["subtype"], result["result"]) == ("success", "Sunny.")
    assert [request.live for request in stage.requests] == [True, True]
    turns = [each["message"]["content"] for each in messages if each["type"] == "assistant"]
    kinds = [block["type"] for turn in turns for block in turn]
    assert kinds == ["text", *["mcp_tool_use"] * 2, *["mcp_tool_result"] * 2, "text"]


def test_claude_code_reads_thoughts_and_parallel_calls(stage: Stage) -> None:
    for name in ("a", "b"):
        (stage.work / f"{name}.txt").write_text(f"I am {name}.")
    read = [call("Read", file_path=str(stage.work / f"{name}.txt")) for name in ("a", "b")]
    stage.plays(calls(*read, thoughts="Both."), think("Now I know.", "They are a and b."))
    *_, result = stage.claude("Read both.")
    assert (result["result"], len(stage.requests)) == ("They are a and b.", 2)
    facts = calls_and_results(stage.requests[-1].messages)
    assert [fact[0] for fact in facts] == ["Read", "Read", "->", "->"]
    assert "I am a." in facts[2][2]
    assert "I am b." in facts[3][2]


def test_claude_code_compacts_a_conversation_that_is_too_long(stage: Stage) -> None:
    notes = stage.work / "notes.txt"
    notes.write_text("hello " * 2000)
    read = call("Read", file_path=str(notes))
    said = "This model's maximum context length is 8192 tokens; your messages resulted in 9000."
    stage.plays(
        *[read] * 3,
        refuse(400, said, code="context_length_exceeded"),
        "<summary>The notes say hello.</summary>",
        "All done.",
    )
    *messages, result = stage.claude("Read notes.txt three times.")
    assert (result["subtype"], result["result"]) == ("success", "All done.")
    assert "compact_boundary" in [each.get("subtype") for each in messages]
    assert all(request.live for request in stage.requests), "a client fell back to one body"
    assert len(stage.requests) == 6
    texts = [message.text for message in stage.requests[-1].messages]
    assert any("The notes say hello." in text for text in texts)


# The Claude Agent SDK and the AI SDK.


def test_the_agent_sdk_runs_its_own_tool_beside_a_server_tool(stage: Stage) -> None:
    stage.plays(
        call("ToolSearch", query="select:mcp__bell__ring", max_results=3),
        calls(call("lookup", city="Rome"), call("mcp__bell__ring", times=2), text="Ringing."),
        "It rang.",
    )
    program = str(HERE / "agent_sdk.py")
    printed = stage.run(
        sys.executable, program, "Ring.", str(stage.work), PYTHONPATH=str(agent_sdk())
    )
    seen = json.loads(printed)
    assert seen == {
        "texts": ["Ringing.", "It rang."],
        "rang": [2],
        "result": "It rang.",
        "failed": False,
    }
    assert [request.live for request in stage.requests] == [True] * 3
    assert ("->", "lookup", "sunny in Rome") in calls_and_results(stage.requests[-1].messages)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_ai_sdk_runs_its_own_tool_beside_a_server_tool(stage: Stage, streamed: bool) -> None:
    stage.plays(
        think("Hm.", calls(call("lookup", city="Rome"), call("ring", times=2), text="Ringing. ")),
        call("lookup", city="Oslo"),
        "It rang.",
    )
    # Node looks for packages beside the program.
    program = node_modules().parent / "ai_sdk_tools.mjs"
    program.write_text((HERE / "ai_sdk_tools.mjs").read_text())
    words = ("anthropic", f"{stage.serving.root_url}/v1", str(streamed).lower(), "Ring.")
    printed = stage.run(str(NODE), str(program), *words)
    seen = json.loads(printed)
    assert seen == {
        "text": "Ringing. It rang." if streamed else "It rang.",
        "rang": [2],
        "steps": 2,
        "reason": "stop",
        "errors": [],
    }
    assert [request.live for request in stage.requests] == [streamed] * 3
    assert calls_and_results(stage.requests[-1].messages) == [
        ("lookup", "Rome"),
        ("ring", 2),
        ("->", "lookup", "sunny in Rome"),
        ("->", "ring", "rang 2"),
        ("lookup", "Oslo"),
        ("->", "lookup", "sunny in Oslo"),
    ]
