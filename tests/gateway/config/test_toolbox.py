"""The tools that a module offers, and the errors if it offers none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import registry
from windlass.errors import ConfigError, DuplicateTool
from windlass.gateway.config.tool_loading import load_tools

WEATHER = """
from windlass import tool

@tool
def get_weather(city: str) -> str:
    '''The weather.'''
    return f"sunny in {city}"
"""


class Folder:
    """A folder of Python files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, source: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)

    def names(self, *modules: str) -> list[str]:
        return list(load_tools(modules, self.path))

    def refusal(self, *modules: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_tools(modules, self.path)
        return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """What its files import and register is forgotten after the test."""
    monkeypatch.setattr(registry, "_own", {})
    yield Folder(tmp_path)
    for name in [name for name in sys.modules if name.startswith("toolbox_")]:
        del sys.modules[name]


def test_tools_of_a_file_are_loaded_and_run(folder: Folder) -> None:
    folder.write("tools.py", WEATHER)
    tools = load_tools(["tools.py"], folder.path)
    assert list(tools) == ["get_weather"]
    assert tools["get_weather"]("Paris") == "sunny in Paris"


def test_a_tool_file_is_found_whatever_the_working_directory_is(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("deep/tools.py", WEATHER)
    assert folder.names("deep/tools.py") == ["get_weather"]
    assert load_tools([str(folder.path / "deep" / "tools.py")], Path("/nowhere"))
    monkeypatch.setenv("HOME", str(folder.path))
    assert load_tools(["~/deep/tools.py"], Path("/nowhere"))


def test_imported_tools_count_and_private_names_and_plain_functions_do_not(folder: Folder) -> None:
    folder.write("toolbox_neighbour.py", WEATHER)
    folder.write(
        "tools.py",
        """
from toolbox_neighbour import get_weather
from windlass import tool

alias = get_weather

@tool
def _hidden() -> None: ...

def helper() -> None: ...
""",
    )
    assert folder.names("tools.py") == ["get_weather"]


def test_the_TOOLS_list_is_exactly_what_is_offered(folder: Folder) -> None:
    folder.write(
        "tools.py",
        f"""{WEATHER}
import windlass

@tool
def unlisted() -> None: ...

def plain() -> None: ...

def registered() -> None: ...

windlass.registry.register(registered)
TOOLS = [plain, get_weather, {{"name": "declared", "parameters": {{"type": "object"}}}}]
""",
    )
    assert folder.names("tools.py") == ["plain", "get_weather", "declared"]


def test_an_empty_list_of_tools_is_allowed(folder: Folder) -> None:
    folder.write("tools.py", f"{WEATHER}\nTOOLS = []\n")
    assert folder.names("tools.py") == []


def test_a_registration_counts_once_and_for_its_module(folder: Folder) -> None:
    folder.write(
        "one.py",
        """
import windlass

@windlass.registry.register()
def first() -> None: ...

def second() -> None: ...

windlass.registry.register(second)
""",
    )
    folder.write("two.py", WEATHER)
    registry.register(Path.cwd, replace=True)
    assert folder.names("one.py", "two.py") == ["first", "second", "get_weather"]
    assert folder.names("two.py", "one.py") == ["get_weather", "first", "second"]


def test_a_file_is_run_once_in_a_process(folder: Folder) -> None:
    folder.write("tools.py", f"{WEATHER}\nimport os\nos.mkdir(__file__ + '.once')\n")
    first, second = (load_tools(["tools.py"], folder.path) for _ in range(2))
    assert first["get_weather"] is second["get_weather"]


def test_a_file_that_failed_is_run_again(folder: Folder) -> None:
    folder.write("tools.py", "raise RuntimeError")
    assert folder.refusal("tools.py") == "'tools.py', line 1: RuntimeError"
    folder.write("tools.py", f"{WEATHER}\n# longer than it was")
    assert folder.names("tools.py") == ["get_weather"]


def test_files_of_the_same_name_are_separate_modules(folder: Folder) -> None:
    folder.write("a/tools.py", WEATHER)
    folder.write("b/tools.py", WEATHER.replace("get_weather", "get_time"))
    assert folder.names("a/tools.py", "b/tools.py") == ["get_weather", "get_time"]
    assert "tools" not in sys.modules


def test_a_tool_file_may_define_its_own_types(folder: Folder) -> None:
    folder.write(
        "tools.py",
        """
from __future__ import annotations
from dataclasses import dataclass
from windlass import tool

@dataclass
class Place:
    city: str

@tool
def get_weather(place: Place) -> str:
    return place.city
""",
    )
    tool = load_tools(["tools.py"], folder.path)["get_weather"]
    assert tool(**tool.validate('{"place": {"city": "Oslo"}}')) == "Oslo"


def test_neighbours_can_be_imported_and_the_path_stays_as_it_was(folder: Folder) -> None:
    before = list(sys.path)
    folder.write("deep/toolbox_helper.py", "WORD = 'sunny'")
    folder.write("deep/tools.py", f"from toolbox_helper import WORD\n{WEATHER}")
    assert folder.names("deep/tools.py") == ["get_weather"]
    folder.write("deep/broken.py", "import toolbox_nothing_here")
    folder.refusal("deep/broken.py")
    assert sys.path == before


def test_a_dotted_name_is_imported_from_a_package_or_next_to_the_file(folder: Folder) -> None:
    folder.write("toolbox_acme/__init__.py", "")
    folder.write("toolbox_acme/weather.py", WEATHER)
    assert folder.names("toolbox_acme.weather") == ["get_weather"]
    assert sys.modules["toolbox_acme.weather"].__name__ == "toolbox_acme.weather"


def test_a_tool_that_two_modules_share_is_one_tool(folder: Folder) -> None:
    folder.write("toolbox_shared.py", WEATHER)
    folder.write("tools.py", "from toolbox_shared import get_weather")
    assert folder.names("toolbox_shared", "tools.py") == ["get_weather"]


def test_two_tools_of_one_name_are_refused_with_both_modules(folder: Folder) -> None:
    folder.write("one.py", WEATHER)
    folder.write("two.py", WEATHER)
    said = "two modules have a tool named 'get_weather': 'one.py' and 'two.py'"
    assert folder.refusal("one.py", "two.py") == said
    with pytest.raises(DuplicateTool):
        load_tools(["one.py", "two.py"], folder.path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n\nraise ValueError('no luck')", ", line 3: ValueError: no luck"),
        ("x = (\n", ", line 1: SyntaxError: '(' was never closed"),
        ("import json\n\n\njson.loads('')", ", line 4: JSONDecodeError: Expecting value"),
        ("import sys\nsys.exit('bye')", ", line 2: SystemExit: bye"),
        ("import toolbox_nothing", ", line 1: ModuleNotFoundError: No module named"),
        ("\nimport toolbox_bad", ", line 2: SyntaxError: invalid syntax (toolbox_bad.py, line 1)"),
        ("from windlass import tool\ntool(print, name='a b')", ", line 2: ConfigError: "),
        ("x = 1", " has no tools: decorate functions with @windlass.tool or list them in TOOLS"),
        ("TOOLS = 3", ": tools must be a list"),
        ("TOOLS = [3]", ": not a tool: 3"),
        ("def f(): ...\nTOOLS = [f, f]", ": two tools are named 'f'"),
        (
            "import socket\ndef f(x: socket.socket): ...\nTOOLS = [f]",
            ": f: the parameter 'x' has no JSON Schema: ",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_with_its_error(
    folder: Folder, source: str, said: str
) -> None:
    folder.write("toolbox_bad.py", "a b")
    folder.write("tools.py", source)
    assert folder.refusal("tools.py").startswith(f"'tools.py'{said}")


def test_a_dotted_module_that_fails_is_refused_with_its_line(folder: Folder) -> None:
    folder.write("toolbox_broken/__init__.py", "x = 1\n1 / 0")
    folder.write("toolbox_half/__init__.py", "")
    folder.write("toolbox_half/tools.py", "import toolbox_nothing")
    said = "'toolbox_broken', line 2: ZeroDivisionError: division by zero"
    assert folder.refusal("toolbox_broken") == said
    assert folder.refusal("toolbox_half.tools").startswith("'toolbox_half.tools', line 1: Module")


def test_a_missing_module_is_refused(folder: Folder) -> None:
    assert folder.refusal("nowhere.py").startswith("'nowhere.py': there is no file ")
    assert folder.refusal("toolbox_nowhere") == "there is no module 'toolbox_nowhere'"
    assert folder.refusal("toolbox_no.where") == "there is no module 'toolbox_no.where'"
    for entry in ("tools/", "a b", "./tools", ""):
        assert "is neither a Python file" in folder.refusal(entry)
