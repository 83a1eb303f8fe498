"""The public package: its names, its import cost, and the texts of the project."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import windlass
from windlass.cli import COMMANDS
from windlass.client.options import RunOptions
from windlass.loop.policy import Policy
from windlass.model import Settings

ROOT = Path(__file__).parent.parent


def test_every_public_name_is_there_and_listed_once() -> None:
    assert len(windlass.__all__) == len(set(windlass.__all__))
    for name in windlass.__all__:
        assert getattr(windlass, name) is not None


def test_the_names_of_the_specification_exist() -> None:
    fixed = (
        "tool Client AsyncClient WindlassError ModelError StreamCut RoundLimitExceeded ToolError"
        " ConfigError"
    )
    assert set(fixed.split()) <= set(windlass.__all__)
    verbs = "generate stream start subscribe stop runs chat execute"
    for client in (windlass.Client, windlass.AsyncClient):
        assert all(hasattr(client, verb) for verb in verbs.split())


@pytest.mark.process
@pytest.mark.parametrize(
    "heavy",
    [
        "aiohttp",
        "pydantic",
        "jsonschema_rs",
        "mcp",
        "nats",
        "windlass.testing",
        "windlass.emulation.parser",
    ],
)
def test_importing_windlass_and_creating_tools_loads_no_large_module(heavy: str) -> None:
    program = f"""
import sys, windlass
@windlass.tool(cache=1)
def f(x: int) -> int: "doc"; return x
sys.exit({heavy!r} in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, f"{heavy} is imported"


def test_every_limit_and_setting_is_an_option_of_every_verb() -> None:
    policy = {"prices" if name == "price" else name for name in Policy.__struct_fields__}
    known = policy | set(Settings.__struct_fields__)
    assert set(RunOptions.__annotations__) == known | {
        *("system", "mode", "approve", "extra"),
        *("output_method", "output_retries"),
    }


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "loop.md").read_text()
    missing = [name for name in RunOptions.__annotations__ if f"`{name}`" not in page]
    assert missing == []


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    missing = [name for name in COMMANDS if not re.search(rf"^\| .*`{name}\b", page, re.MULTILINE)]
    assert missing == []


def test_every_error_is_in_the_tree() -> None:
    import windlass.errors

    assert windlass.errors.__doc__
    for name in windlass.errors.__all__:
        assert re.search(rf"\b{name}\b", windlass.errors.__doc__)
