"""`windlass tools`: the list, the declarations for a model, and one manual call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import windlass

from windlass.cli import main
from windlass.cli.output import table

TOOLS = '''
from typing import Literal
from windlass import ToolError, tool


@tool
def get_weather(city: str, unit: Literal["c", "f"] = "c") -> dict:
    """The weather of a city.

    Args:
        city: Its name.
    """
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return {"city": city, "unit": unit}


@tool(approve=True)
def add(numbers: list[int], note: str | None = None) -> str:
    """Adds numbers."""
    return f"the sum is {sum(numbers)}"


@tool
def crash() -> str:
    """Breaks."""
    raise RuntimeError("the secret is 1234")


@tool(timeout=0.01)
async def dawdle() -> str:
    """Takes too long."""
    import asyncio

    await asyncio.Event().wait()
    return "no"
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with tools, and an environment without settings."""
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_TOOLS", raising=False)
    monkeypatch.delenv("WINDLASS_MODEL", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


class Tools:
    """Runs `windlass tools`."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *words: str) -> str:
        """The stdout of a command that succeeds."""
        code, out, error = self.outcome(*words)
        assert (code, error) == (0, "")
        return out

    def outcome(self, *words: str) -> tuple[int, str, str]:
        code = main(["tools", *words])
        out, error = self._capfd.readouterr()
        return code, out, error


@pytest.fixture
def tools(capfd: pytest.CaptureFixture[str]) -> Tools:
    return Tools(capfd)


def test_the_list_is_a_table_of_names_descriptions_and_parameters(tools: Tools) -> None:
    head, weather, add, *_ = tools("list", "tools.py").splitlines()
    assert head.split() == ["NAME", "DESCRIPTION", "PARAMETERS"]
    assert weather.split("  ")[0] == "get_weather"
    assert "The weather of a city." in weather
    assert "city: string, unit?: c|f" in weather
    assert "numbers: integer[], note?: string|null" in add


def test_the_list_is_json_for_programs(tools: Tools) -> None:
    listed = json.loads(tools("list", "tools.py", "--json"))
    assert [each["name"] for each in listed] == ["get_weather", "add", "crash", "dawdle"]
    assert listed[0]["parameters"]["required"] == ["city"]


def test_without_a_file_the_tools_are_those_of_the_configuration(tools: Tools, here: Path) -> None:
    (here / "windlass.toml").write_text(
        '[models.fast]\ntarget = "openai/gpt-test"\n[tools]\nmodules = ["tools.py"]\n'
    )
    assert "get_weather" in tools("list")


def test_without_a_file_the_environment_may_name_them(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOOLS", "tools.py")
    assert "get_weather" in tools("list")


def test_without_any_tools_the_error_names_the_remedy(tools: Tools) -> None:
    code, out, error = tools.outcome("list")
    assert (code, out) == (2, "")
    assert "no tools: there is no windlass.toml" in error
    assert "name a file, such as tools.py" in error


def test_a_schema_is_that_of_the_parameters(tools: Tools) -> None:
    schema = json.loads(tools("schema", "get_weather", "--tools", "tools.py"))
    assert schema["properties"]["city"] == {"type": "string", "description": "Its name."}


def test_a_schema_can_be_printed_in_the_form_of_openai(tools: Tools) -> None:
    made = json.loads(tools("schema", "get_weather", "--tools", "tools.py", "--format", "openai"))
    assert made["type"] == "function"
    assert made["function"]["name"] == "get_weather"
    assert made["function"]["parameters"]["required"] == ["city"]


def test_a_schema_can_be_printed_in_the_form_of_gemini(tools: Tools) -> None:
    made = json.loads(tools("schema", "get_weather", "--tools", "tools.py", "--format", "gemini"))
    assert made["name"] == "get_weather"
    assert made["parametersJsonSchema"]["required"] == ["city"]


def test_the_schemas_of_all_are_a_list(tools: Tools) -> None:
    made = json.loads(tools("schema", "--tools", "tools.py", "--format", "openai"))
    assert len(made) == 4


@pytest.mark.parametrize(
    "words",
    [
        ['{"city": "Paris", "unit": "f"}'],
        ["--arg", "city=Paris", "--arg", "unit=f"],
        ['{"city": "Rome", "unit": "f"}', "--arg", "city=Paris"],
    ],
)
def test_a_call_takes_json_and_pairs(tools: Tools, words: list[str]) -> None:
    out = tools("call", "get_weather", *words, "--tools", "tools.py")
    assert json.loads(out) == {"city": "Paris", "unit": "f"}


def test_a_value_is_a_text_where_the_tool_takes_one_and_json_elsewhere(tools: Tools) -> None:
    out = tools("call", "get_weather", "--arg", "city=1e3", "--tools", "tools.py")
    assert json.loads(out)["city"] == "1e3"
    out = tools("call", "add", "--arg", "numbers=[1, 2]", "--arg", "note=a b", "--tools=tools.py")
    assert out == "the sum is 3\n"


def test_a_text_is_written_as_it_is_and_as_json_if_asked(tools: Tools) -> None:
    words = ("call", "add", '{"numbers": [1, 2]}', "--tools", "tools.py")
    assert tools(*words) == "the sum is 3\n"
    assert tools(*words, "--json") == '"the sum is 3"\n'


def test_an_error_of_the_tool_keeps_its_message(tools: Tools) -> None:
    code, out, error = tools.outcome(
        "call", "get_weather", "--arg=city=Atlantis", "--tools=tools.py"
    )
    assert (code, out) == (1, "")
    assert error == "windlass: get_weather: there is no such city\n"


def test_output_of_modules_and_tools_is_not_part_of_the_result(tools: Tools, here: Path) -> None:
    (here / "loud.py").write_text(
        'print("loading")\n\ndef shout() -> str:\n    """Shouts."""\n    print("shouting")\n'
        '    return "done"\n\nTOOLS = [shout]\n'
    )
    assert tools.outcome("call", "shout", "--tools", "loud.py") == (
        0,
        "done\n",
        "loading\nshouting\n",
    )


@pytest.mark.process
@pytest.mark.parametrize("words", [["tools", "list", "tools.py"], ["parse", "--list-formats"]])
def test_a_disconnected_reader_is_no_error(words: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "windlass", *words],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            timeout=120,
        )
    assert done.stderr == b""


def test_arguments_are_checked_as_a_models_are(tools: Tools) -> None:
    code, out, error = tools.outcome("call", "get_weather", '{"unit": "x"}', "--tools", "tools.py")
    assert (code, out) == (1, "")
    assert "city" in error
    assert "unit" in error


def test_the_timeout_of_the_tool_applies(tools: Tools) -> None:
    code, _, error = tools.outcome("call", "dawdle", "--tools", "tools.py")
    assert (code, "dawdle: " in error) == (1, True)


@pytest.mark.process
def test_a_tool_that_crashes_is_an_error(tools: Tools) -> None:
    code, out, error = tools.outcome("call", "crash", "--tools", "tools.py")
    assert (code, out) == (1, "")
    said = "windlass: crash: crash failed with an internal error. See the traceback above.\n"
    assert error.endswith(said)
    ran = windlass("tools", "call", "crash", "--tools", "tools.py", input="")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Tool failed\nTraceback ")
    assert ran.stderr.endswith(f"RuntimeError: the secret is 1234\n{said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "get_wether"], "unknown tool 'get_wether' (did you mean 'get_weather'?)"),
        (["schema", "nothing"], "unknown tool 'nothing' (known: add, crash"),
        (["call", "add", "--arg", "numbers"], "--arg must be name=value, such as city=Paris"),
        (["call", "add", "[1]", "--arg", "a=1"], "with --arg, the arguments must be a JSON"),
    ],
)
def test_a_call_that_is_not_possible_exits_with_2(
    tools: Tools, words: list[str], said: str
) -> None:
    code, out, error = tools.outcome(*words, "--tools", "tools.py")
    assert (code, out) == (2, "")
    assert error.startswith(f"windlass: {said}")


def test_a_tool_that_is_only_declared_cannot_be_called(tools: Tools, here: Path) -> None:
    (here / "declared.py").write_text('TOOLS = [{"name": "theirs"}]\n')
    code, _, error = tools.outcome("call", "theirs", "--tools", "declared.py")
    assert (code, error) == (
        2,
        "windlass: theirs is only declared: there is no function to call\n",
    )


def test_a_table_wraps_at_the_width_of_the_terminal() -> None:
    text = table(("NAME", "WHAT"), [("a", "one two three four five six seven")], width=24)
    assert text == "NAME  WHAT\na     one two three four\n      five six seven\n"
