"""MCP clients of others, unchanged, at the gateway's `/mcp` with a key."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.anthropic_clients import claude_code, client_environment
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of
from tests.toolsets.mcp.npm_packages import INSPECTOR
from tests.toolsets.mcp.npm_packages import program as npm_program

from windlass import ToolContext, tool
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp.serving.calls import ServedCall

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("tests/gateway/routes/test_mcp_endpoint.py holds the same with the SDK"),
    pytest.mark.timeout(900),
]
KEY, HASH = new_key()
SECONDS = 240
GEMINI = ("@google/gemini-cli@0.61.0",)
FASTMCP = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

url, key = sys.argv[1:]
transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {key}"})

async def main():
    heard = []
    async def progress(done, total, message):
        heard.append([done, message])
    async with Client(transport) as client:
        names = sorted(tool.name for tool in await client.list_tools())
        result = await client.call_tool("add", {"a": 2, "b": 3}, progress_handler=progress)
        try:
            await client.call_tool("secret", {})
            refused = False
        except Exception as error:
            refused = str(error)
        waiting = asyncio.create_task(client.call_tool("waits", {}))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
    print(json.dumps([names, result.structured_content, heard, refused]))

asyncio.run(main())
"""

begun: list[str] = []
cancelled: list[str] = []
added: list[int] = []
told: list[str] = []
progress: list[tuple[float, str | None]] = []
"""The progress that was sent to a client that asked for it."""


@tool
def add(a: int, b: int, context: ToolContext) -> int:
    """Adds two numbers."""
    context.progress(0.5, "half")
    added.append(a + b)
    return a + b


@tool
def secret() -> str:
    """A tool of another key."""
    told.append("42")
    return "42"


@tool
async def waits(context: ToolContext) -> str:
    """Waits until it is cancelled."""
    begun.append(context.run_id)
    context.progress(0.5, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.append(context.run_id)
    return "never"


TASKS: dict[str, dict[str, Any]] = {"add": {"a": 2, "b": 3}, "waits": {}, "secret": {}}


def calls_the_named_tool(request: ModelRequest) -> Any:
    """Calls the tool that the user's text names, then repeats its result.

    Programs have their own names for MCP tools: `mcp__gw__add`, `mcp_gw_add`.
    """
    last = request.messages[-1]
    if last.role == "tool":
        return f"It returned: {json.dumps(last.responses[-1].response)}"
    names = [getattr(each, "name", "") for each in request.tools]
    known = next((name for name in names if re.fullmatch(r"mcp_.*gw_+add", name)), None)
    asked = " ".join(message.text for message in request.messages if message.role == "user")
    task = next((name for name in TASKS if f"Call {name}." in asked), None)
    if known is None or task is None:
        return "no such tool"
    return call(f"{known.removesuffix('add')}{task}", **TASKS[task])


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    models = (
        ModelConfig(name="m", target="scripted/model", tools=("add", "waits")),
        ModelConfig(name="chat", target="scripted/model", aliases=("claude-*", "gemini-*")),
        ModelConfig(name="other", target="scripted/model", tools=("secret",)),
    )
    config = config_of(*models, keys=(KeyConfig(name="web", hash=HASH, models=("m", "chat")),))
    scripted = {model.name: ScriptedModel(calls_the_named_tool, strict=False) for model in models}
    for noted in (added, begun, cancelled, told, progress):
        noted.clear()
    sends = ServedCall.report

    def report(call: ServedCall, fraction: Any, message: Any, data: Any) -> None:
        if (call.context.meta or {}).get("progress_token") is not None:
            progress.append((fraction, message))
        sends(call, fraction, message, data)

    monkeypatch.setattr(ServedCall, "report", report)
    with Serving(config, models=scripted, tools=[add, secret, waits]) as gateway:
        yield gateway


class Program:
    """A program that uses the gateway both for its model and for its tools."""

    reads_keys = False
    """Whether it reads Ctrl+C as a key, instead of getting a signal."""

    def __init__(self, gateway: Serving, home: Path) -> None:
        self.root_url, self.home = gateway.root_url, home
        self.server = {
            "url": f"{gateway.root_url}/mcp",
            "headers": {"Authorization": f"Bearer {KEY}"},
        }

    def started(self, prompt: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        command, env = self.command(prompt)
        return subprocess.Popen(
            command,
            env={**client_environment(self.root_url, self.home), **env},
            cwd=self.home,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # the command starts Node as another process
        )

    def says(self, prompt: str) -> str:
        with self.started(prompt) as program:
            return program.communicate(timeout=SECONDS)[0]

    def interrupted(self, prompt: str) -> None:
        """Presses Ctrl+C in its terminal when `waits` is running."""
        keyboard, terminal = os.openpty()
        with self.started(prompt, terminal) as program:
            happens(lambda: bool(begun))
            if self.reads_keys:
                os.write(keyboard, b"\x03")
            else:
                os.killpg(program.pid, signal.SIGINT)
            happens(lambda: bool(cancelled))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
            program.communicate(timeout=SECONDS)
        os.close(keyboard)
        os.close(terminal)

    def command(self, prompt: str) -> tuple[list[str], dict[str, str]]:
        """The command, and variables of its environment."""
        raise NotImplementedError


def happens(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


class ClaudeCode(Program):
    def command(self, prompt: str) -> tuple[list[str], dict[str, str]]:
        config = self.home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"gw": {"type": "http", **self.server}}}))
        command = [*claude_code(), "-p", prompt, "--mcp-config", str(config)]
        command += ["--strict-mcp-config", "--allowedTools", "mcp__gw"]
        return command, {
            "ANTHROPIC_API_KEY": KEY,
            "ENABLE_TOOL_SEARCH": "false",  # otherwise the model has to search for MCP tools first
            "MCP_CONNECTION_NONBLOCKING": "false",
        }


class GeminiCli(Program):
    reads_keys = True

    def command(self, prompt: str) -> tuple[list[str], dict[str, str]]:
        settings = self.home / ".gemini" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        server = {"httpUrl": self.server["url"], "headers": self.server["headers"], "trust": True}
        security = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
        settings.write_text(json.dumps({"security": security, "mcpServers": {"gw": server}}))
        package = installed("gemini-cli", GEMINI) / "@google" / "gemini-cli"
        command = [str(NODE), str(package / "bundle" / "gemini.js"), "--approval-mode", "yolo"]
        # Without a model, it first asks one to choose a model, and repeats that for a minute.
        return [*command, "-m", "gemini-2.5-flash", "-p", prompt], {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.root_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }


class Inspector(Program):
    """It has no model: the prompt is the method and its options."""

    def command(self, prompt: str) -> tuple[list[str], dict[str, str]]:
        base = [*npm_program(INSPECTOR), "--cli", self.server["url"], "--transport", "http"]
        base += ["--header", f"Authorization: Bearer {KEY}"]
        return [*base, "--method", *prompt.split()], {}


PROGRAMS = [ClaudeCode, GeminiCli]


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, gateway: Serving, tmp_path: Path) -> Program:
    return request.param(gateway, tmp_path)


def test_a_program_calls_a_tool_and_gets_its_progress(program: Program) -> None:
    said = program.says("Call add.")
    assert added == [5], said
    assert "It returned:" in said
    assert "5" in said.partition("It returned:")[2]
    assert progress == [(0.5, "half")]


def test_a_program_cancels_a_call(program: Program) -> None:
    program.interrupted("Call waits.")
    assert cancelled == begun
    assert progress == [(0.5, "waiting")]


def test_a_program_is_refused_what_its_key_does_not_allow(program: Program) -> None:
    said = program.says("Call secret.")
    assert told == [], said
    assert "42" not in said


def test_the_inspector_lists_calls_cancels_and_is_refused(gateway: Serving, tmp_path: Path) -> None:
    inspector = Inspector(gateway, tmp_path)
    listed = json.loads(inspector.says("tools/list"))
    assert {each["name"] for each in listed["tools"]} == {"add", "waits"}
    add_two = "tools/call --tool-name add --tool-arg a=2 --tool-arg b=3"
    said = inspector.says(f"{add_two} --tool-metadata progressToken=p1")
    assert json.loads(said)["structuredContent"] == {"result": 5}
    assert progress == [(0.5, "half")]
    assert "42" not in inspector.says("tools/call --tool-name secret")
    assert told == []
    inspector.interrupted("tools/call --tool-name waits")
    assert cancelled == begun


def test_fastmcp_sees_progress_cancels_and_is_refused(gateway: Serving, tmp_path: Path) -> None:
    uv = Path(sys.prefix).parent / ".venv-tools" / "bin" / "uv"
    script = tmp_path / "client.py"
    script.write_text(FASTMCP)
    command = [str(uv), "run", "--no-project", "--with", "fastmcp", "python", str(script)]
    cancelled.clear()
    done = subprocess.run(
        [*command, f"{gateway.root_url}/mcp", KEY],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    names, data, heard, refused = json.loads(done.stdout.strip().splitlines()[-1])
    assert names == ["add", "waits"]
    assert data == {"result": 5}
    assert heard == [[0.5, "half"]]
    assert "Unknown tool" in refused
    assert len(cancelled) == 1
