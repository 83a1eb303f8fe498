"""Runs the commands of `scripts/release.py` and `scripts/deploy_check.py`."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


class CommandFailed(Exception):
    """A command failed. The text has the command and the end of its output."""


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> str:
    """Runs a command and returns its output. Raises `CommandFailed`."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environ},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"{Path(command[0]).name}: {done.stdout.strip()[-2000:]}")
    return done.stdout
