"""Other programs: their server in our loop, their inspector on our server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.toolsets.mcp.npm_packages import EVERYTHING, INSPECTOR, program

import windlass
from windlass import Approval, AsyncClient, FunctionCall, InlineData, ToolRunProgress
from windlass.testing import ScriptedModel, call, calls

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.process,
    pytest.mark.whole("test_mcp_client.py and test_mcp_server.py, with the official SDK"),
]

PREFIX = "everything__"


async def test_a_model_drives_the_everything_server(tmp_path: Path) -> None:
    asked: list[FunctionCall] = []

    def approve(question: FunctionCall) -> Approval:
        asked.append(question)
        return Approval(True, {"name": "Ada"})

    turns: list[Any] = [
        calls(
            call(f"{PREFIX}echo", message="hello"),
            call(f"{PREFIX}get-sum", a=2, b=3),
            call(f"{PREFIX}get-structured-content", location="Chicago"),
        ),
        call(f"{PREFIX}get-tiny-image"),
        call(f"{PREFIX}trigger-long-running-operation", duration=0.2, steps=2),
        call(f"{PREFIX}trigger-elicitation-request"),
        "all done",
    ]
    model = ScriptedModel(turns)
    toolset = windlass.mcp(program(EVERYTHING), name="everything", state_dir=tmp_path)
    client = AsyncClient(model, approve=approve)
    async with toolset, client, client.stream("Go.", tools=[toolset], max_rounds=9) as stream:
        progress = [event async for event in stream if isinstance(event, ToolRunProgress)]
    results = stream.reply.results
    assert stream.reply.text == "all done"
    assert [result.error for result in results] == [None] * 6
    assert results[0].output == "Echo: hello"
    assert "5" in str(results[1].output)
    assert results[2].output["conditions"]
    assert [type(part) for part in results[3].parts] == [InlineData]
    assert [event.progress for event in progress] == [0.5, 1.0]
    assert "Ada" in str(results[5].output)
    assert len(asked) == 1


TOOLS = """
import inspect
import tests.support.sample_tools as samples
TOOLS = [each for _, each in inspect.getmembers(samples, inspect.isfunction)
         if each.__module__ == samples.__name__]
"""


def test_the_inspector_finds_no_error_in_what_our_server_lists(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    here = f"PYTHONPATH={Path(__file__).parents[3]}"
    server = [sys.executable, "-m", "windlass", "mcp", "--tools", str(tools)]
    listing = [
        "--cli",
        "--connect-timeout",
        "110000",
        "-e",
        here,
        *server,
        "--method",
        "tools/list",
        "--strict",
    ]
    done = subprocess.run(
        [*program(INSPECTOR), *listing], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "0 errors" in done.stderr
    assert len(json.loads(done.stdout)["tools"]) > 25
