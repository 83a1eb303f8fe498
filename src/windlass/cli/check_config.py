"""`windlass check-config`: checks the configuration of a gateway."""

import argparse
import os
import sys
from pathlib import Path

from windlass.gateway.config import CONFIG_NAME, GatewayConfig, examine_config, find_config
from windlass.gateway.config.tool_loading import load_tools

DESCRIPTION = """\
Reads windlass.toml, loads its tool modules, and prints each problem on its own line:
  windlass.toml:12: models.fast.target: unknown provider 'gemeni' (did you mean 'gemini'?)
It also checks the environment. No model is called."""

EPILOG = """\
examples:
  windlass check-config
  windlass check-config /etc/windlass/windlass.toml

Without FILE, it checks windlass.toml in the current directory, or only the environment if there is
none. The exit code is 0 if the gateway can serve the configuration, 1 if not. Warnings do not
change it."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help=f"the file (default: {CONFIG_NAME})"
    )


def run(options: argparse.Namespace) -> int:
    config, problems = examine_config(options.file or find_config(Path()), os.environ)
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    if any(problem.severity == "error" for problem in problems):
        return 1
    sys.stdout.write(f"{_summary(config)}\n")
    return 0


def _summary(config: GatewayConfig) -> str:
    tools = load_tools(config.tool_modules, config.base)
    counts = ", ".join(
        (
            _counted(len(config.models), "model"),
            _counted(len(tools), "tool"),
            _counted(len(config.keys), "key"),
        )
    )
    if config.path is None:
        return f"no {CONFIG_NAME} here; the environment: {counts}; serves any provider/model"
    return f"{config.path}: {counts}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
