"""MCP clients of others, unchanged, at the gateway's `/mcp` with a key."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.anthropic_clients import claude_code, client_environment
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of
from tests.toolsets.mcp.npm_packages import INSPECTOR, program

from windlass import ToolContext, tool
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.key_hashes import new_key
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, call

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("tests/gateway/routes/test_mcp_endpoint.py holds the same with the SDK"),
    pytest.mark.timeout(900),
]
KEY, HASH = new_key()
SECONDS = 300
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

cancelled: list[str] = []
added: list[int] = []


@tool
def add(a: int, b: int, context: ToolContext) -> int:
    """Adds two numbers."""
    context.progress(0.5, "half")
    added.append(a + b)
    return a + b


@tool
def secret() -> str:
    """A tool of another key."""
    return "42"


@tool
async def waits(context: ToolContext) -> str:
    """Waits until it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.append(context.run_id)
    return "never"


def calls_add(request: ModelRequest) -> Any:
    """Calls the MCP tool by the name that the client gave it, then tells its result."""
    answers = [message for message in request.messages if message.role == "tool"]
    if answers:
        return "done"
    names = [getattr(each, "name", "") for each in request.tools]
    found = [name for name in names if name.endswith("add") and name != "add"]
    return call(found[0], a=2, b=3) if found else "no such tool"


@pytest.fixture
def gateway() -> Iterator[Serving]:
    models = (
        ModelConfig(name="m", target="scripted/model", tools=("add", "waits")),
        ModelConfig(name="chat", target="scripted/model", aliases=("claude-*", "gemini-*")),
        ModelConfig(name="other", target="scripted/model", tools=("secret",)),
    )
    config = config_of(*models, keys=(KeyConfig(name="web", hash=HASH, models=("m", "chat")),))
    scripted = {model.name: ScriptedModel(calls_add, strict=False) for model in models}
    added.clear()
    with Serving(config, models=scripted, tools=[add, secret, waits]) as gateway:
        yield gateway


def test_the_inspector_lists_and_calls(gateway: Serving) -> None:
    base = [*program(INSPECTOR), "--cli", f"{gateway.root_url}/mcp", "--transport", "http"]
    base += ["--header", f"Authorization: Bearer {KEY}"]

    def inspected(*options: str) -> Any:
        return subprocess.run(
            [*base, *options], capture_output=True, text=True, check=False, timeout=SECONDS
        )

    listed = inspected("--method", "tools/list")
    assert listed.returncode == 0, listed.stderr
    assert {each["name"] for each in json.loads(listed.stdout)["tools"]} == {"add", "waits"}
    options = ["--method", "tools/call", "--tool-name"]
    called = inspected(*options, "add", "--tool-arg", "a=2", "--tool-arg", "b=3")
    assert json.loads(called.stdout)["structuredContent"] == {"result": 5}
    refused = inspected(*options, "secret")
    assert "Unknown tool" in refused.stdout + refused.stderr or refused.returncode != 0


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


def test_claude_code_calls_a_tool_of_the_gateway(gateway: Serving, tmp_path: Path) -> None:
    server = {
        "type": "http",
        "url": f"{gateway.root_url}/mcp",
        "headers": {"Authorization": f"Bearer {KEY}"},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"gw": server}}))
    env = {
        **client_environment(gateway.root_url, tmp_path),
        "ANTHROPIC_API_KEY": KEY,
        "ENABLE_TOOL_SEARCH": "false",  # otherwise the model has to search for MCP tools first
        "MCP_CONNECTION_NONBLOCKING": "false",
    }
    command = [*claude_code(), "-p", "Add 2 and 3.", "--mcp-config", str(config)]
    command += ["--strict-mcp-config", "--allowedTools", "mcp__gw__add"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert "done" in done.stdout, done.stdout + done.stderr
    assert added == [5]


def test_gemini_cli_calls_a_tool_of_the_gateway(gateway: Serving, tmp_path: Path) -> None:
    server = {
        "httpUrl": f"{gateway.root_url}/mcp",
        "headers": {"Authorization": f"Bearer {KEY}"},
        "trust": True,
    }
    auth = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    settings = tmp_path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"security": auth, "mcpServers": {"gw": server}}))
    package = installed("gemini-cli", GEMINI) / "@google" / "gemini-cli"
    env = {
        **client_environment(gateway.root_url, tmp_path),
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": gateway.root_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    command = [str(NODE), str(package / "bundle" / "gemini.js"), "--approval-mode", "yolo"]
    done = subprocess.run(
        [*command, "-p", "Add 2 and 3."],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert added == [5], done.stdout + done.stderr
