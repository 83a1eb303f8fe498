"""Runs Node in the console's project. Installs the packages of the project first, once.

`python scripts/console_project.py` installs; with arguments it then runs node with them, in the
project's folder.
"""

import fcntl
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "console"
_SCRIPTS = Path(sysconfig.get_path("scripts"))
NODE = _SCRIPTS / "node"
NPM = _SCRIPTS / "npm"


def install() -> None:
    """Installs the packages of the lock file if any is missing. Only one process installs them."""
    with Path(_SCRIPTS.parent, "console.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not _is_installed():
            command = [NPM, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=PROJECT, check=True, timeout=600)


def node(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs node in the project's folder, and returns its output and exit code."""
    install()
    command = [str(part) for part in (NODE, *arguments)]
    return subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=timeout, check=False
    )


def _is_installed() -> bool:
    """Whether all packages of the lock file for this system are installed."""
    installed = _versions(PROJECT / "node_modules" / ".package-lock.json")
    wanted = _versions(PROJECT / "package-lock.json", optional=False)
    return wanted.items() <= installed.items()


def _versions(lock: Path, *, optional: bool = True) -> dict[str, str]:
    if not lock.exists():
        return {}
    packages = json.loads(lock.read_text())["packages"]
    return {
        name: package["version"]
        for name, package in packages.items()
        if name and (optional or not package.get("optional"))
    }


if __name__ == "__main__":
    ended = node(*sys.argv[1:]) if sys.argv[1:] else install()
    if ended is not None:
        sys.stdout.write(ended.stdout)
        sys.stderr.write(ended.stderr)
        sys.exit(ended.returncode)
