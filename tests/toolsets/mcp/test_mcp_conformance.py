"""The official MCP conformance suite against our server and our client, in both eras.

What a revision of the protocol requires must pass. What the suite runs without scoring it is
listed here where it fails: extensions that we do not claim.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.toolsets.mcp.conformance_client import forwarding_command
from tests.toolsets.mcp.npm_packages import CONFORMANCE, program

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("test_mcp_server.py and test_mcp_client.py, in both eras"),
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


TOOLS = Path(__file__).parent / "conformance_tools.py"
FORMS = ["windlass mcp", "gateway"]


@pytest.fixture(scope="module", params=FORMS)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The shipped server, with the tools, prompts and resources that the suite uses."""
    directory = tmp_path_factory.mktemp("conformance")
    options = ["mcp", "--http", "--port", "0", "--tools", str(TOOLS)]
    if request.param == "gateway":
        options = ["serve", "--port", "0", "--config", str(_configured(directory))]
    errors = (directory / "errors").open("w")
    command = [sys.executable, "-m", "windlass", *options]
    env = {**os.environ, "OPENAI_API_KEY": "unused"}
    process = subprocess.Popen(command, cwd=directory, env=env, stdout=errors, stderr=errors)
    try:
        yield f"{_address(directory / 'errors')}/mcp"
    finally:
        process.terminate()
        process.wait()
        errors.close()


def _configured(directory: Path) -> Path:
    offered = subprocess.run(
        [sys.executable, "-m", "windlass", "tools", "list", "--json", "--tools", str(TOOLS)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [each["name"] for each in json.loads(offered.stdout)]
    file = directory / "windlass.toml"
    file.write_text(f"""
[models.m]
target = "openai/x"
tools = {json.dumps(names)}

[tools]
modules = [{json.dumps(str(TOOLS))}]
""")
    return file


def _address(file: Path, seconds: float = 60) -> str:
    """The address that a server reports when it listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := re.search(r"http://127\.0\.0\.1:\d+", file.read_text()):
            return found[0]
        time.sleep(0.05)
    raise AssertionError(file.read_text())


@pytest.mark.parametrize("era", ERAS)
def test_the_shipped_server_conforms(
    era: str, address: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said = _judged("server", era, tmp_path, "--url", address)
    request.node.user_properties.append(("conformance", _score(said)))
    assert _failing(said) == (TASKS if era == "2026-07-28" else set())


def _score(summary: str) -> str:
    passed, failed = (len(re.findall(rf"^{mark} ", summary, re.MULTILINE)) for mark in "✓✗")
    return f"{passed} scenarios pass, {failed} of extensions that are not claimed fail"


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
