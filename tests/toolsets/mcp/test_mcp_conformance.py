"""The official MCP conformance suite against our server and our client, in both eras.

What a revision of the protocol requires must pass. What the suite runs without scoring it is
listed here where it fails: extensions that we do not claim.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.toolsets.mcp.conformance_client import forwarding_command
from tests.toolsets.mcp.npm_packages import CONFORMANCE, program
from tests.toolsets.mcp.serving import appearing

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:Omitting `issuer`"),
]

ERAS = ["2025-11-25", "2026-07-28"]

TASKS = {
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
}
"""The extension for long-running tasks: the SDK does not have it, and we do not claim it."""

AUTHORIZATION = {
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
    "auth/enterprise-managed-authorization",
}
"""Extensions of OAuth. Users who need one pass an `auth` to `windlass.mcp`."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our own server, with the tools that the suite calls."""
    file = tmp_path_factory.mktemp("conformance") / "address"
    command = [sys.executable, "-m", "tests.toolsets.mcp.conformance_server", str(file)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3])
    try:
        yield appearing(file)
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("era", ERAS)
def test_our_server_conforms(era: str, address: str, tmp_path: Path) -> None:
    said = _judged("server", era, tmp_path, "--url", address)
    assert _failing(said) == (TASKS if era == "2026-07-28" else set())


@pytest.mark.parametrize("era", ERAS)
def test_our_client_conforms(era: str, tmp_path: Path) -> None:
    with forwarding_command(tmp_path) as command:
        said = _judged("client", era, tmp_path, "--command", command)
    assert _failing(said) == AUTHORIZATION


def _judged(role: str, era: str, directory: Path, *options: str) -> str:
    """The output of the suite. Only scored scenarios decide its exit code."""
    command = [*program(CONFORMANCE), role, *options, "--requirements", era]
    command += ["--timeout", "500000", "--output-dir", str(directory / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    summary = done.stdout.partition("SUMMARY ===")[2]
    assert summary, done.stderr[-3000:]
    assert done.returncode == 0, summary
    return summary


def _failing(summary: str) -> set[str]:
    return set(re.findall(r"^✗ (\S+):", summary, re.MULTILINE))
