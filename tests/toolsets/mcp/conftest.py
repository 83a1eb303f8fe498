"""Servers that the tests of a file share: each costs a second to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.toolsets.mcp.serving import command, over_http

import windlass
from windlass.toolsets.mcp.toolset import McpToolset

WAYS = ["stdio 2026-07-28", "stdio 2025-11-25", "http 2026-07-28", "http 2025-11-25"]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the sample server records its events."""
    return tmp_path_factory.mktemp("sample")


@pytest.fixture(scope="module")
def address(directory: Path) -> Iterator[str]:
    with over_http(directory) as address:
        yield address


@pytest.fixture(scope="module", params=WAYS)
def sample(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[McpToolset]:
    """The sample server's tools, over each transport and in each era."""
    transport, protocol = request.param.split()
    directory: Path = request.getfixturevalue("directory")
    target = request.getfixturevalue("address") if transport == "http" else command(directory)
    state = tmp_path_factory.mktemp("state")
    with windlass.mcp(target, protocol=protocol, state_dir=state) as toolset:
        yield toolset
