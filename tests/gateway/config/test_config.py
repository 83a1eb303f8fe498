"""Valid configurations: values, defaults and which source overrides which."""

import ast
import json
import logging
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.errors import ConfigError
from windlass.gateway.config import (
    GatewayConfig,
    KeyConfig,
    LimitsConfig,
    McpConfig,
    ModelConfig,
    RunsConfig,
    ServerConfig,
    WorkersConfig,
    check_config,
    find_config,
    load_config,
    values,
)
from windlass.gateway.config.sections import description
from windlass.gateway.config.values import ToolsSection

MODEL = '[models.fast]\ntarget = "openai/gpt-5-mini"\n'
HASH = "sha256:" + "0a" * 32
TOOLS = """
from windlass import tool

@tool
def get_weather(city: str) -> str:
    '''The weather.'''
    return city

@tool
def get_time() -> str:
    '''The time.'''
    return "now"
"""


def write(folder: Path, text: str, name: str = "windlass.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def load(folder: Path, text: str, environ: dict[str, str] | None = None) -> GatewayConfig:
    return load_config(write(folder, text), environ or {})


def test_a_model_with_its_target_is_a_complete_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, MODEL)
    assert config == GatewayConfig(
        server=ServerConfig(),
        models={"fast": ModelConfig(name="fast", target="openai/gpt-5-mini")},
        limits=LimitsConfig(),
        path=tmp_path / "windlass.toml",
    )
    assert not config.open_models


def test_every_section_and_every_setting_is_read(tmp_path: Path) -> None:
    write(tmp_path, TOOLS, "tools.py")
    text = f"""
    [server]
    host = "0.0.0.0"
    port = 0
    cors_origins = ["https://chat.example.com", "http://localhost:3000"]
    heartbeat = 5
    keep_alive_timeout = 75
    shutdown_timeout = 0
    console = false
    access_log = false
    log_content = true

    [models."gpt 5: großes"]
    target = "openai/org/model"
    base_url = "http://localhost:1234/v1"
    api_key_env = "MY_KEY"
    mode = "Emulated"
    function_calling = true
    tools = ["get_weather"]
    max_rounds = 0
    on_limit = "error"
    run_timeout = 60
    tool_timeout = 1.5
    approval_timeout = 10
    max_parallel = 1
    max_running = 3
    system = "Be brief."
    headers = {{ X-Team = "search" }}

    [tools]
    modules = ["tools.py"]

    [mcp.files]
    command = "npx some-mcp-server"
    env = {{ ROOT = "/data" }}

    [mcp.web]
    url = "https://mcp.example.com"

    [[keys]]
    name = "web"
    hash = "{HASH}"
    models = []
    requests_per_minute = 60
    max_running = 2

    [limits]
    max_body_bytes = 1
    max_header_bytes = 2
    header_timeout = 0.5
    max_connections_per_address = 8
    max_json_depth = 3
    max_tools = 4
    max_messages = 5
    max_running = 6
    max_queued = 0
    queue_timeout = 0
    run_timeout = 7
    keep_finished = 0
    max_kept_runs = 0
    """
    config = load(tmp_path, text, {"MY_KEY": "secret"})
    assert config.server == ServerConfig(
        host="0.0.0.0",
        port=0,
        cors_origins=("https://chat.example.com", "http://localhost:3000"),
        heartbeat=5.0,
        keep_alive_timeout=75.0,
        shutdown_timeout=0.0,
        console=False,
        access_log=False,
        log_content=True,
    )
    assert config.models == {
        "gpt 5: großes": ModelConfig(
            name="gpt 5: großes",
            target="openai/org/model",
            base_url="http://localhost:1234/v1",
            api_key_env="MY_KEY",
            mode="emulated",
            function_calling=True,
            tools=("get_weather",),
            max_rounds=0,
            on_limit="error",
            run_timeout=60.0,
            tool_timeout=1.5,
            approval_timeout=10.0,
            max_parallel=1,
            max_running=3,
            system="Be brief.",
            headers={"X-Team": "search"},
        )
    }
    assert config.tool_modules == ("tools.py",)
    assert config.mcp == {
        "files": McpConfig(name="files", command="npx some-mcp-server", env={"ROOT": "/data"}),
        "web": McpConfig(name="web", url="https://mcp.example.com"),
    }
    assert config.keys == (
        KeyConfig(name="web", hash=HASH, models=(), requests_per_minute=60, max_running=2),
    )
    assert config.limits == LimitsConfig(
        max_body_bytes=1,
        max_header_bytes=2,
        header_timeout=0.5,
        max_connections_per_address=8,
        max_json_depth=3,
        max_tools=4,
        max_messages=5,
        max_running=6,
        max_queued=0,
        queue_timeout=0.0,
        run_timeout=7.0,
        keep_finished=0.0,
        max_kept_runs=0,
    )


def test_a_key_without_models_may_use_all_of_them(tmp_path: Path) -> None:
    config = load(tmp_path, f'{MODEL}[[keys]]\nname = "web"\nhash = "{HASH}"\n')
    assert config.keys[0].models is None


def test_a_file_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_bytes(b"\xef\xbb\xbf" + MODEL.replace("\n", "\r\n").encode())
    assert list(load_config(file, {}).models) == ["fast"]


def test_the_command_line_overrides_the_file_and_the_file_overrides_the_environment(
    tmp_path: Path,
) -> None:
    environ = {"WINDLASS_HOST": "127.0.0.2", "WINDLASS_PORT": "1"}
    with_both = write(tmp_path, f'{MODEL}[server]\nhost = "127.0.0.3"\nport = 2\n', "both.toml")
    with_none = write(tmp_path, MODEL, "none.toml")

    def chosen(path: Path | None, environ: dict[str, str], **said: Any) -> tuple[str, int]:
        server = load_config(path, environ, **said).server
        return server.host, server.port

    assert chosen(with_both, environ, host="::1", port=3) == ("::1", 3)
    assert chosen(with_both, environ, host=None, port=None) == ("127.0.0.3", 2)
    assert chosen(with_none, environ) == ("127.0.0.2", 1)
    assert chosen(None, environ) == ("127.0.0.2", 1)
    assert chosen(None, environ, port=3) == ("127.0.0.2", 3)
    assert chosen(with_none, {"WINDLASS_HOST": "", "WINDLASS_PORT": " "}) == ("127.0.0.1", 8080)


def test_an_unused_variable_is_not_checked(tmp_path: Path) -> None:
    text = f"{MODEL}[server]\nport = 2\n"
    assert load(tmp_path, text, {"WINDLASS_PORT": "many"}).server.port == 2


def test_without_a_file_any_model_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "this is no TOML")
    assert load_config(None, {}) == GatewayConfig(open_models=True)


def test_without_a_file_the_environment_names_models_and_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, TOOLS, "tools.py")
    write(tmp_path, "TOOLS = [dict(name='pay')]", "more.py")
    for separator in (",", " , ", ":"):
        environ = {
            "WINDLASS_MODEL": "openai/gpt-5-mini, fast=gemini/flash,gemini/x=y",
            "WINDLASS_TOOLS": f"tools.py{separator}more.py",
        }
        config = load_config(None, environ)
        tools = ("get_weather", "get_time", "pay")
        assert config.models == {
            name: ModelConfig(name=name, target=target, tools=tools)
            for name, target in {
                "openai/gpt-5-mini": "openai/gpt-5-mini",
                "fast": "gemini/flash",
                "gemini/x=y": "gemini/x=y",
            }.items()
        }
        assert config.tool_modules == ("tools.py", "more.py")
        assert config.base == Path()


def test_with_a_file_the_environment_names_no_models(tmp_path: Path) -> None:
    environ = {"WINDLASS_MODEL": "broken", "WINDLASS_TOOLS": "nowhere.py"}
    assert list(load(tmp_path, MODEL, environ).models) == ["fast"]


def test_the_file_is_found_in_the_directory_itself(tmp_path: Path) -> None:
    assert find_config(tmp_path) is None
    file = write(tmp_path, MODEL)
    assert find_config(tmp_path) == file
    below = tmp_path / "below"
    below.mkdir()
    assert find_config(below) is None


def test_paths_of_tool_modules_are_relative_to_the_file(tmp_path: Path) -> None:
    write(tmp_path, TOOLS, "tools.py")
    config = load(tmp_path, f'{MODEL}tools = ["get_time"]\n[tools]\nmodules = ["tools.py"]\n')
    assert config.base == tmp_path


def test_one_error_has_a_line_for_every_problem(tmp_path: Path) -> None:
    text = '[models.fast]\ntarget = "x"\n\n[server]\nport = -1\n'
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {"FC_DEBUG_LOGS": "perhaps"}, heartbeat=0.0)
    assert str(caught.value).splitlines() == [
        (
            f"{file}:2: models.fast.target: must be provider/model, such as 'openai/gpt-5-mini',"
            " not 'x'"
        ),
        f"{file}:5: server.port: must be a whole number from 0 to 65535, not -1",
        "--heartbeat: must be a number of seconds above 0, at most one year, not 0.0",
        "environment: FC_DEBUG_LOGS must be true or false, not 'perhaps'",
    ]


def test_a_warning_is_logged_and_does_not_fail(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "windlass.gateway"):
        load(tmp_path, f'{MODEL}api_key_env = "NOT_SET"\n')
    (said,) = caplog.messages
    assert "windlass.toml:3: warning: models.fast.api_key_env" in said
    assert "NOT_SET" in said


def test_no_secret_is_in_the_text_of_a_configuration(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [models.fast]
        target = "openai/x"
        base_url = "https://me:SECRET@example.com/v1"
        headers = { Authorization = "Bearer SECRET" }
        [mcp.files]
        command = "run --token SECRET"
        env = { TOKEN = "SECRET" }
        """,
    )
    assert "SECRET" not in repr(config)
    assert "fast" in repr(config)
    assert "files" in repr(config)


def test_a_configuration_does_not_change() -> None:
    for kind in (GatewayConfig, KeyConfig, LimitsConfig, McpConfig, ModelConfig, ServerConfig):
        assert kind.__struct_config__.frozen
    with pytest.raises(AttributeError):
        ServerConfig().port = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert msgspec.structs.replace(ServerConfig(), port=1).port == 1


PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
DOCUMENTED = {
    "[server]": ServerConfig,
    "[models.NAME]": ModelConfig,
    "[tools]": ToolsSection,
    "[mcp.NAME]": McpConfig,
    "[[keys]]": KeyConfig,
    "[limits]": LimitsConfig,
    "[runs]": RunsConfig,
    "[workers]": WorkersConfig,
}


def test_every_example_of_the_page_can_be_served(tmp_path: Path) -> None:
    (tools,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    write(tmp_path, tools, "tools.py")
    examples = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for text in examples:
        assert check_config(write(tmp_path, text), {"GEMINI_API_KEY": "x"}) == []


@pytest.mark.parametrize("section", DOCUMENTED)
def test_the_page_has_the_values_and_the_meaning_of_every_setting(section: str) -> None:
    kind, documented = DOCUMENTED[section], documented_rows(section)
    meanings = attribute_docstrings(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in documented:
            value, meaning = documented[field.name]
            assert (value, f"{meaning}.") == (
                description(field.type).translate({ord("'"): '"'}),
                meanings[field.name],
            )


def documented_rows(section: str) -> dict[str, tuple[str, str]]:
    """The value and the meaning of each setting, without the links."""
    _, _, rest = PAGE.partition(f"### `{section}`\n")
    row = re.compile(r"^\| `(\w+)` \| .+? \| (.+?) \| (.+) \|$", re.MULTILINE)
    rows = row.findall(rest.partition("\n##")[0])
    return {
        name: (value.replace("`", ""), re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning))
        for name, value, meaning in rows
    }


def attribute_docstrings(kind: type) -> dict[str, str]:
    """The docstring below each field of a class."""
    (body,) = (
        node.body
        for node in ast.parse(Path(values.__file__).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    return {
        field.target.id: " ".join(str(text).split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if (text := below.value.value)
    }


@pytest.mark.parametrize("section", DOCUMENTED)
def test_the_page_has_every_setting_with_its_default(section: str) -> None:
    _, _, rest = PAGE.partition(f"### `{section}`\n")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", rest.partition("\n##")[0], re.MULTILINE)
    assert {name: default.strip("`") for name, default in rows} == {
        field.name: _default_in_words(field)
        for field in msgspec.structs.fields(DOCUMENTED[section])
        if not (field.name == "name" and "NAME" in section)
    }


def _default_in_words(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "needed"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "none" if value is None else json.dumps(value)
