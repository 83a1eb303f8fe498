"""`windlass init`: writes a configuration and example tools."""

import argparse
import os
import shlex
import sys
from importlib.resources import files
from pathlib import Path

from windlass.cli.arguments import completes_folders
from windlass.cli.providers import SERVICES, default_target, remedies
from windlass.errors import ConfigError
from windlass.gateway.config import CONFIG_NAME, examine_config
from windlass.gateway.config.environment import MODEL
from windlass.models.local.weights import QWEN

DESCRIPTION = """\
Writes a windlass.toml with comments and a tools.py with working tools. The model is one that is
usable here: WINDLASS_MODEL, otherwise a provider whose key is set, otherwise the embedded one."""

EPILOG = """\
examples:
  windlass init
  windlass init my-assistant
  windlass init --force              # overwrite existing files

Existing files are overwritten only with --force."""

TOOLS_NAME = "tools.py"
FALLBACK = SERVICES[0].target

CONFIG = """\
# What `windlass run`, `windlass chat` and `windlass serve` use in this folder.
# `windlass check-config` shows every mistake with its line.

[models.assistant]                  # the name that clients use; the first model is the default
target = {target}
tools = ["get_weather", "get_time", "write_note"]   # from the modules below
max_rounds = 5                      # maximum number of rounds with tools for one answer
# system = "Answer in one sentence."
# mode = "auto"                     # auto, native or emulated function calling
# api_key_env = "MY_KEY"            # the variable that holds the key, never the key itself
# base_url = "http://localhost:8000/v1"   # your own server with OpenAI's API

{others}
[tools]
modules = ["tools.py"]              # files next to this one, or importable names

[runs]
path = "windlass.db"                # runs are stored in this file: windlass runs list

[server]                            # for `windlass serve`
host = "127.0.0.1"                  # other addresses need [[keys]]: windlass keys new
port = 8080
"""

OTHER = """\
# [models.{name}]
# target = {target}{room}# {needs}

"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    completes_folders(
        parser.add_argument(
            "folder",
            nargs="?",
            type=Path,
            default=Path(),
            metavar="DIR",
            help="the folder to write to; created if missing (default: this directory)",
        )
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for files that exist or cannot be written."""
    found = _available_target()
    written = {
        options.folder / CONFIG_NAME: _config(found or FALLBACK),
        options.folder / TOOLS_NAME: files("windlass.cli")
        .joinpath("starter_tools.py")
        .read_text("utf-8"),
    }
    if not options.force and (existing := [str(path) for path in written if path.exists()]):
        exist = "exist" if len(existing) > 1 else "exists"
        raise ConfigError(f"{' and '.join(existing)} {exist}; --force overwrites")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        for path, text in written.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write to {options.folder}: {error.strerror}") from error
    sys.stdout.write(f"Written: {', '.join(map(str, written))}\n{_next(options.folder, found)}")
    return 0


def _available_target() -> str | None:
    if os.environ.get(MODEL):
        models = examine_config(None, os.environ)[0].models
        return next((model.target for model in models.values()), None)
    default = default_target()
    return default[0] if default else None


def _config(target: str) -> str:
    needs = {service.target: f"needs {service.keys[0]}" for service in SERVICES}
    needs[f"local/{QWEN.name}"] = f"on this machine: {QWEN.command}"
    others = "".join(
        OTHER.format(
            name=other.partition("/")[0],
            target=_quoted(other),
            room=" " * max(1, 26 - len(_quoted(other))),
            needs=need,
        )
        for other, need in needs.items()
        if other != target
    )
    return CONFIG.format(target=_quoted(target), others=others.rstrip("\n") + "\n")


def _quoted(target: str) -> str:
    escaped = target.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _next(folder: Path, target: str | None) -> str:
    enter = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    commands = (
        f"{enter}windlass tools call get_weather --arg city=Paris",
        'windlass run "What is the weather in Paris?"',
        "windlass serve",
    )
    lines = "".join(f"  {command}\n" for command in commands)
    if target is not None:
        return f"The model is {target}. Next:\n{lines}"
    ways = "".join(f"  {way}\n" for way in remedies())
    return f"No model is usable yet. Do one of these:\n{ways}Next:\n{lines}"
