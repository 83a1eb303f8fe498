"""`windlass mcp`: on stdin and stdout, and over HTTP, with access control."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from windlass import ToolRegistry
from windlass.cli import main
from windlass.cli.mcp_server import LocalTools, guarded_app
from windlass.gateway.config import KeyConfig
from windlass.gateway.config.keys import new_key
from windlass.toolsets.mcp.serving.server import ToolServer

TOOLS = '''
import windlass
print("a module that talks")

@windlass.tool
def greet(name: str) -> str:
    """Greets."""
    print("a tool that talks")
    return f"hello {name}"
'''
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tools") / "tools.py"
    file.write_text(TOOLS)
    return file


@pytest.fixture(scope="module")
def address(tools: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "windlass", "mcp", "--tools", str(tools)]
    process = subprocess.Popen(
        [*command, "--http", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        yield next(line.split()[-1] for line in process.stderr if "offers its tools at" in line)
    finally:
        process.terminate()
        process.communicate(timeout=20)


async def greeting(transport: Any, mode: str) -> str:
    async with Client(transport, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["greet"]
        result = await client.call_tool("greet", {"name": "Ada"})
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.process
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_serves_over_stdin_and_stdout(mode: str, tools: Path, tmp_path: Path) -> None:
    command = ["-m", "windlass", "mcp", "--tools", str(tools)]
    parameters = StdioServerParameters(command=sys.executable, args=command)
    with (tmp_path / "errors").open("w") as errors:
        assert await greeting(stdio_client(parameters, errlog=errors), mode) == "hello Ada"
    said = (tmp_path / "errors").read_text()
    assert "a module that talks" in said
    assert "a tool that talks" in said


@pytest.mark.process
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_it_listens(mode: str, address: str) -> None:
    assert await greeting(streamable_http_client(address), mode) == "hello Ada"


@pytest.mark.process
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_web_pages_of_other_origins_are_refused(
    address: str, headers: dict[str, str], status: int
) -> None:
    hello: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    answer = httpx2.post(address, json=body, headers={**ACCEPT, **headers}, trust_env=False)
    assert answer.status_code == status


@asynccontextmanager
async def guarded(keys: list[str], origins: list[str]) -> AsyncIterator[httpx2.AsyncClient]:
    server = ToolServer(LocalTools(ToolRegistry().list))
    ring = [KeyConfig(name=f"key {at}", hash=key) for at, key in enumerate(keys)]
    app = guarded_app(server, "0.0.0.0", ring, origins)
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://any") as client,
    ):
        yield client


async def test_other_hosts_need_a_key_and_may_name_web_pages() -> None:
    key, hashed = new_key()
    async with guarded([hashed], ["https://ours.example"]) as client:

        async def status(**headers: str) -> int:
            return (await client.post("/mcp", json=PING, headers={**ACCEPT, **headers})).status_code

        assert await status() == 401
        assert await status(Authorization="Bearer wrong") == 401
        allowed = await status(Authorization=f"Bearer {key}")
        assert allowed not in (401, 403)
        own = {"Authorization": f"Bearer {key}", "Origin": "https://ours.example"}
        assert await status(**own) == allowed
        assert await status(**{**own, "Origin": "https://evil.example"}) == 403


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http", "--host", "0.0.0.0"], "without --key, any client that reaches '0.0.0.0'"),
        (["--http", "--key", "secret"], "must be 'sha256:' and 64 hexadecimal digits"),
        (["--origin", "https://x.example"], "--origin needs --http"),
        (["--tools", "no_such_file.py"], "there is no file"),
    ],
)
def test_invalid_options_are_reported(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *arguments]) == 2
    words = capsys.readouterr().err
    assert said in words
    assert "secret" not in words
