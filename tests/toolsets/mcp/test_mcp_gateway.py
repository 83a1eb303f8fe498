"""MCP servers in windlass.toml and on the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.serving import Serving
from tests.toolsets.mcp.serving import configured, starts, tiny

from windlass.cli.model_selection import servers_from
from windlass.errors import ConfigError
from windlass.gateway.config import McpConfig, check_config, load_config
from windlass.gateway.config.tool_loading import load_tools, named_tools
from windlass.testing import FakeOpenAI, ScriptedModel, call


def problems(directory: Path, tools: list[str], more: str = "") -> list[str]:
    return [str(each) for each in check_config(configured(directory, tools, more), {})]


def names_of(file: Path) -> list[str]:
    """The tools that the model gets."""
    config = load_config(file, {})
    tools = load_tools(config.tool_modules, config.base)
    return list(named_tools(config.models["m"].tools, tools))


@pytest.mark.process
def test_the_tools_of_a_server_are_named_one_by_one_or_as_a_whole(tmp_path: Path) -> None:
    assert names_of(configured(tmp_path, ["tiny__add"])) == ["tiny__add"]
    names = ["add", "dies", "waits", "ticks", "garbles", "long", "hangs"]
    whole = [f"tiny__{name}" for name in names]
    assert names_of(configured(tmp_path, ["tiny__*"])) == whole
    assert len(starts(tmp_path)) == 1


def test_a_server_whose_tools_nobody_names_is_not_started(tmp_path: Path) -> None:
    assert problems(tmp_path, []) == []
    assert not (tmp_path / "starts").exists()


@pytest.mark.process
def test_an_unknown_tool_of_a_server_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, ["tiny__ad"])
    assert "models.m.tools[0]: unknown tool 'tiny__ad'" in said
    assert "'tiny__add'" in said


@pytest.mark.process
def test_a_server_that_cannot_start_is_a_problem_of_its_section(tmp_path: Path) -> None:
    more = '[mcp.gone]\ncommand = "no-such-command"\n'
    (said,) = problems(tmp_path, ["gone__x"], more)
    assert "mcp.gone: the MCP server 'gone' cannot be started" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[mcp."a b"]\nurl = "http://x"\n', "a name must be a letter, then"),
        ('[mcp.x]\ncommand = "x"\nheaders = { A = "b" }\n', "mcp.x.headers: works only with url"),
        ('[mcp.x]\nurl = "http://x"\nenv = { A = "b" }\n', "mcp.x.env: works only with command"),
        ('[mcp.x]\ncommand = "x"\napprove = "all"\n', "must be true, false or a list of strings"),
        ('[mcp.x]\ncommand = "x"\non_change = "ask"\n', "'approve', 'refuse' or 'allow'"),
        ('[mcp.x]\nurl = "http://x"\ntoken_env = "NOT_SET"\n', "NOT_SET"),
    ],
)
def test_a_mistake_is_said_in_words(tmp_path: Path, more: str, said: str) -> None:
    (problem,) = problems(tmp_path, [], more)
    assert said in problem


@pytest.mark.process
def test_a_gateway_runs_the_tools_of_a_server(tmp_path: Path) -> None:
    config = load_config(configured(tmp_path, ["tiny__*"]), {"OPENAI_API_KEY": "x"})
    model = ScriptedModel([call("tiny__add", a=1, b=2), "It is 3."])
    with Serving(config, models={"m": model}, tools=None) as gateway:
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "1+2?"}]}
        answer = httpx2.post(f"{gateway.base_url}/chat/completions", json=body, trust_env=False)
    assert answer.json()["choices"][0]["message"]["content"] == "It is 3."
    assert model.requests[1].messages[-1].responses[0].output == "3"


@pytest.mark.parametrize(
    ("given", "server"),
    [
        ("npx 'some server'", McpConfig(name="", command="npx 'some server'")),
        ("files=npx server", McpConfig(name="files", command="npx server")),
        ("https://x.example/mcp?a=b", McpConfig(name="", url="https://x.example/mcp?a=b")),
        ("web=https://x.example", McpConfig(name="web", url="https://x.example")),
    ],
)
def test_a_server_on_the_command_line_may_have_a_name(given: str, server: McpConfig) -> None:
    assert servers_from([given]) == [server]


def test_a_server_on_the_command_line_that_is_none_is_said() -> None:
    with pytest.raises(ConfigError, match="no server: pass a command"):
        servers_from(["files="])


@pytest.mark.process
def test_windlass_run_uses_a_servers_tools(tmp_path: Path) -> None:
    asked = ["run", "1+2?", "--model", "openai/x", "--json"]
    server = ["--mcp", f"calc={' '.join(tiny(tmp_path))}"]
    with FakeOpenAI([call("calc__add", a=1, b=2), "It is 3."]) as upstream:
        done = subprocess.run(
            [sys.executable, "-m", "windlass", *asked, *server],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=tmp_path,
            env={
                "OPENAI_BASE_URL": upstream.base_url,
                "OPENAI_API_KEY": "x",
                "WINDLASS_STATE_DIR": str(tmp_path),
            },
        )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["text"] == "It is 3."
    assert "tools: calc__add" in done.stderr
    (pid,) = starts(tmp_path)
    assert not Path(f"/proc/{pid}").exists()
