"""`docs/architecture.md` names modules that exist, and keeps each way short."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MODULES = ROOT / "docs" / "internals" / "modules.md"
WAYS = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MAX_HOPS = 8
NAMED = re.compile(r"`((?:[a-z_]+\.)+[a-z_]+)`")


def test_the_page_has_five_diagrams() -> None:
    assert len(WAYS) == 5


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.split()[0])
def test_a_diagram_has_few_steps_in_modules_that_exist(way: str) -> None:
    steps = [line.split()[0] for line in way.splitlines()]
    assert len(steps) <= MAX_HOPS
    for module in steps:
        assert importlib.util.find_spec(f"windlass.{module}"), module


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.split()[0])
def test_modules_and_classes_named_beside_a_step_exist(way: str) -> None:
    for line in way.splitlines():
        module, _, said = line.partition(" ")
        source = importlib.util.find_spec(f"windlass.{module}")
        assert source is not None
        assert source.origin is not None
        for name in re.findall(r"^\s*([A-Z]\w+)(?:\.\w+)?:", said):
            assert f"class {name}" in Path(source.origin).read_text(), f"{name} is not in {module}"
        for name in re.findall(r"\b(?:[a-z_]+\.)+[a-z_]+\b", said):
            assert importlib.util.find_spec(f"windlass.{name}"), name


CALLS = {"client.generate", "client.stream"}


@pytest.mark.parametrize("name", sorted(set(NAMED.findall(PAGE)) - CALLS))
def test_a_module_named_in_the_text_exists(name: str) -> None:
    assert importlib.util.find_spec(f"windlass.{name}")


@pytest.mark.process
def test_the_list_of_modules_is_current() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/module_list.py", "--check"], cwd=ROOT, capture_output=True
    )
    assert made.returncode == 0, made.stderr.decode()


def test_every_module_has_a_docstring() -> None:
    rows = re.findall(r"^\| `[^`]+` \|(.*)\|$", MODULES.read_text(), re.MULTILINE)
    assert len(rows) > 200
    assert all(row.strip() for row in rows)
