"""Claude Code and the AI SDK from npm's registry, and the Claude Agent SDK from PyPI."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.support.npm_packages import NODE, installed

PACKAGES = (
    "@anthropic-ai/claude-code@2.1.325",
    "@ai-sdk/anthropic@4.0.102",
    "ai@7.0.169",
    "zod@4.6.7",
)
AGENT_SDK = "claude-agent-sdk==0.2.182"


def claude_code() -> list[str]:
    """The command `claude`."""
    return [str(NODE), str(node_modules() / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs")]


def node_modules() -> Path:
    return installed("anthropic-clients", PACKAGES)


def agent_sdk() -> Path:
    """A folder for `PYTHONPATH` with the Claude Agent SDK, which brings Claude Code itself."""
    place = Path(sys.prefix) / "anthropic-clients" / AGENT_SDK.replace("==", "-")
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (place / "installed").exists():
            uv = Path(sys.prefix).parent / ".venv-tools" / "bin" / "uv"
            command = [str(uv), "pip", "install", "--python", sys.executable, "--no-deps"]
            subprocess.run([*command, "--target", str(place), AGENT_SDK], check=True, timeout=600)
            (place / "installed").touch()
    return place


def client_environment(root_url: str, home: Path) -> dict[str, str]:
    """The variables that point Anthropic's clients at a gateway, and away from the user's files."""
    return {
        **os.environ,
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": root_url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
