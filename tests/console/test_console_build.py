"""The served page equals the build of its sources. It is small and loads nothing from other
hosts."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from scripts.console_project import PROJECT, node
from scripts.console_types import FILE, types

pytestmark = pytest.mark.process

STATIC = Path(str(resources.files("windlass.gateway"))) / "static"
MAX_BYTES = 250_000
NAMES = ("http://www.w3.org/", "https://github.com/markedjs/marked.")
"""Text that is never requested: XML namespaces, and an address in an error message of marked."""
ADDRESS = re.compile(r"(?:[a-z]+:)?//[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}[^\s\"'`]*")
LOCK = json.loads((PROJECT / "package-lock.json").read_text())["packages"]


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that the sources make."""
    folder = tmp_path_factory.mktemp("console")
    ended = node("build.mjs", folder)
    assert ended.returncode == 0, ended.stderr
    return files_of(folder)


def test_the_package_holds_what_the_sources_build_to(built: dict[str, bytes]) -> None:
    held = files_of(STATIC)
    assert held.keys() == built.keys()
    stale = [name for name, data in built.items() if held[name] != data]
    assert stale == [], "run `make console` and commit what it writes"


def test_the_whole_page_is_small(built: dict[str, bytes]) -> None:
    loaded = {name: len(data) for name, data in built.items() if name != "LICENSES.txt"}
    assert sum(loaded.values()) < MAX_BYTES, loaded


def test_the_page_names_no_other_origin(built: dict[str, bytes]) -> None:
    named = {
        address
        for name, data in built.items()
        if name != "LICENSES.txt"
        for address in ADDRESS.findall(data.decode())
    }
    assert {address for address in named if not address.startswith(NAMES)} == set()


def test_the_licences_name_every_package_whose_code_is_served(built: dict[str, bytes]) -> None:
    licences = built["LICENSES.txt"].decode()
    for name in LOCK[""]["dependencies"]:
        version = LOCK[f"node_modules/{name}"]["version"]
        assert re.search(rf"^{name} {version} \(.+\)$", licences, re.MULTILINE), name
    free = licences.count("Permission is hereby granted") + licences.count("CC0 1.0 Universal")
    assert free >= len(LOCK[""]["dependencies"])


def test_the_types_are_those_of_the_gateway() -> None:
    assert FILE.read_text() == types(), "run `make console` and commit what it writes"


def test_the_lock_names_no_registry() -> None:
    assert [name for name, package in LOCK.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in LOCK.items() if name)


def test_no_source_makes_markup_of_text() -> None:
    unsafe = (
        "innerHTML|outerHTML|insertAdjacentHTML|document.write|dangerouslySet|eval|new Function"
    )
    sources = (PROJECT / "src").rglob("*.ts*")
    assert [file.name for file in sources if re.search(rf"\b({unsafe})", file.read_text())] == []
