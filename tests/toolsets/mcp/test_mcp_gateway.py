"""MCP servers in windlass.toml and on the command line."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.asgi import post
from tests.support.serving import Serving
from tests.toolsets.mcp.serving import TINY, configured, starts, tiny

from windlass import FunctionDeclaration, Tool
from windlass.cli import main
from windlass.cli.model_selection import servers_from
from windlass.errors import ConfigError
from windlass.events import ApprovalRequested
from windlass.gateway import create_app
from windlass.gateway.config import McpConfig, check_config, load_config
from windlass.gateway.config.tool_loading import load_tools, named_tools
from windlass.model import ModelRequest
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


def named_command(words: list[str]) -> str:
    return f"command = {json.dumps(words)}"


@pytest.mark.process
def test_a_command_can_be_a_list_of_words_and_run_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    program = (
        "import os, sys; sys.argv = ['', os.getcwd()]; exec(open(os.environ['SERVER']).read())"
    )
    words = [sys.executable, "-I", "-S", "-c", program]
    more = f"""
[mcp.listed]
{named_command(words)}
cwd = "home"
env = {{ SERVER = {json.dumps(str(TINY))} }}
protocol = "2025-11-25"
max_result_bytes = 1000
state_dir = {json.dumps(str(tmp_path))}
"""
    assert names_of(configured(tmp_path, ["listed__add"], more)) == ["listed__add"]
    assert len(starts(tmp_path / "home")) == 1


@pytest.mark.process
async def test_the_tools_of_an_optional_server_appear_when_it_answers(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    words = [sys.executable, "-I", "-S", str(program), str(tmp_path)]
    more = f"""
[mcp.late]
{named_command(words)}
optional = true
state_dir = {json.dumps(str(tmp_path))}
"""
    file = configured(tmp_path, ["late__add", "tiny__add"], more)
    (said,) = [str(each) for each in check_config(file, {})]
    assert "optional and will be tried again" in said
    with Serving(load_config(file, {}), models={"m": ScriptedModel([])}, tools=None) as gateway:
        assert await offered(gateway) == {"tiny__add"}
        program.write_text(TINY.read_text())
        while await offered(gateway) != {"tiny__add", "late__add"}:
            await asyncio.sleep(0.05)


async def offered(gateway: Serving) -> set[str]:
    async with httpx2.AsyncClient() as http:
        listed = (await http.get(f"{gateway.base_url}/tools")).json()
    return {each["name"] for each in listed["data"]}


@pytest.mark.process
def test_servers_start_at_the_same_time(tmp_path: Path) -> None:
    """Each answers only when both are there."""
    program = f"""
import sys, time
from pathlib import Path
mine, other = Path(sys.argv[1]), Path(sys.argv[2])
(mine / "here").touch()
while not (other / "here").exists():
    time.sleep(0.01)
sys.argv = ["", str(mine)]
exec(Path({str(TINY)!r}).read_text())
"""
    more = ""
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / name).mkdir()
        words = [sys.executable, "-I", "-S", "-c", program]
        words += [str(tmp_path / name), str(tmp_path / other)]
        more += f"[mcp.{name}]\n{named_command(words)}\nstart_timeout = 20\n"
        more += f"state_dir = {json.dumps(str(tmp_path))}\n"
    assert problems(tmp_path, ["one__add", "two__add"], more) == []


@pytest.mark.process
def test_a_changed_description_is_accepted_by_trust(tmp_path: Path, capsys: Any) -> None:
    file = configured(tmp_path, ["tiny__add"], 'env = { SAYS = "First." }\n')
    assert names_of(file) == ["tiny__add"]
    file = configured(tmp_path, ["tiny__add"], 'env = { SAYS = "Second." }\n')
    tools = load_tools(load_config(file, {}).tool_modules, tmp_path)
    assert described(tools["tiny__add"]) == "First."
    assert main(["mcp", "trust", "tiny", "--config", str(file)]) == 0
    assert "accepted the new description of tiny__add" in capsys.readouterr().out
    tools = load_tools(load_config(file, {}).tool_modules, tmp_path)
    assert described(tools["tiny__add"]) == "Second."
    assert main(["mcp", "trust", "tiny", "--config", str(file)]) == 0
    assert "no description of tiny has changed" in capsys.readouterr().out


def described(tool: Tool) -> str:
    assert isinstance(tool.declaration, FunctionDeclaration)
    return tool.declaration.description


def test_a_server_whose_tools_are_not_used_is_not_started(tmp_path: Path) -> None:
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
def test_a_mistake_is_reported_with_a_message(tmp_path: Path, more: str, said: str) -> None:
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


def test_an_invalid_server_on_the_command_line_is_reported() -> None:
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


@pytest.mark.process
@pytest.mark.parametrize("wanted", [True, False])
async def test_the_model_reads_a_server_s_instructions_if_the_configuration_wants_it(
    tmp_path: Path, wanted: bool
) -> None:
    server = Path(__file__).parent / "asking_server.py"
    command = [sys.executable, "-I", "-S", str(server), str(tmp_path)]
    file = tmp_path / "windlass.toml"
    file.write_text(f"""
[models.m]
target = "openai/x"
system = "Be brief."
tools = ["asking__*"]

[models.without]
target = "openai/x"

[mcp.asking]
command = {json.dumps(command)}
state_dir = {json.dumps(str(tmp_path))}
{"instructions = true" if wanted else ""}
""")
    models = {name: ScriptedModel(["Hello.", "Hello again."]) for name in ("m", "without")}
    app = create_app(load_config(file, {"OPENAI_API_KEY": "x"}), models=models)
    said: dict[str, list[str]] = {}
    for name, model in models.items():
        for _ in range(2):
            ask = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
            assert (await post(app, ask)).status == 200
        system = [each for each in model.requests[-1].messages if each.role == "system"]
        said[name] = [message.text for message in system]
    await app.gateway.aclose()
    instructions = ["Instructions of the tools asking__*:\nAsk politely."] if wanted else []
    assert said == {"m": ["Be brief.", *instructions], "without": []}


@pytest.mark.process
async def test_a_model_of_the_gateway_answers_a_server_after_an_approval(tmp_path: Path) -> None:
    server = Path(__file__).parent / "asking_server.py"
    command = [sys.executable, "-I", "-S", str(server), str(tmp_path)]
    file = tmp_path / "windlass.toml"
    file.write_text(f"""
[models.m]
target = "openai/x"
tools = ["asking__*"]

[mcp.asking]
command = {json.dumps(command)}
state_dir = {json.dumps(str(tmp_path))}
sampling = "m"
""")
    for step in ("ask", "end"):
        (tmp_path / f"{step}-sample").touch()

    def script(request: ModelRequest) -> Any:
        if request.messages[-1].text == "sample?":
            return "The model's answer."
        return "Done." if request.messages[-1].responses else call("asking__ask", name="sample")

    app = create_app(
        load_config(file, {"OPENAI_API_KEY": "x"}), models={"m": ScriptedModel(script)}
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
    await post(app, body, "/v1/runs")
    [run] = app.gateway.runs.running()
    async for event in run.events():
        if isinstance(event, ApprovalRequested):
            assert event.call.name == "asking__ask:sampling"
            assert run.approve(event.call.id)
    assert "The model's answer." in str((await run.result()).results[0].output)
    await app.gateway.aclose()
