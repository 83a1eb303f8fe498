"""The command line: `windlass COMMAND`. Each command has its own module, which is loaded on demand.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a run without a full answer, 130 Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from windlass import __version__
from windlass.errors import ConfigError, WindlassError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from windlass.cli.arguments import CommandParser


class CommandModule(Protocol):
    """The module of a command."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments of the command to the parser."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Executes the command; returns the exit code."""
        ...


COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("windlass.cli.run", "ask a model, execute its tools, and print the answer"),
    "chat": ("windlass.cli.chat", "chat with a model in the terminal"),
    "tools": ("windlass.cli.tools", "list tools, show their schemas, or call one"),
    "models": ("windlass.cli.models", "list models, and why some are not usable"),
    "demo": ("windlass.cli.demo", "serve a local model with a few tools, without a key"),
    "serve": ("windlass.cli.serve", "serve models and tools over HTTP"),
    "connect": ("windlass.cli.connect", "set up Codex and other clients for a gateway"),
    "runs": ("windlass.cli.runs", "list, follow, export and resume stored runs"),
    "worker": ("windlass.cli.worker", "offer tools to gateways on other machines, over NATS"),
    "mcp": ("windlass.cli.mcp", "offer tools to other programs as an MCP server"),
    "init": ("windlass.cli.init", "write a windlass.toml and example tools"),
    "check-config": ("windlass.cli.check_config", "check a windlass.toml for problems"),
    "doctor": ("windlass.cli.doctor", "check the installation and show how to fix problems"),
    "keys": ("windlass.cli.keys", "create a key for the gateway"),
    "parse": ("windlass.cli.parse", "read the tool calls in a model's text"),
    "completion": ("windlass.cli.completion", "print a completion script for your shell"),
}
"""The module and the help text of each command of Windlass."""

GROUP = "windlass.commands"
"""The group of entry points by which other packages add commands. Each is a module as
`CommandModule` describes it, with a help text `HELP`."""

EPILOG = """\
examples:
  windlass init && windlass run "What is the weather in Paris?"
  windlass chat --tools tools.py
  windlass serve
  windlass doctor

`windlass COMMAND --help` shows the options and examples of a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Executes the command; returns the exit code. Wrong usage exits with 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    wanted = next((word for word in given if not word.startswith("-")), None)
    try:
        parser, modules = _parser_with([wanted] if wanted else [])
    except ConfigError as error:  # a command of another package
        sys.stderr.write(f"windlass: {error}\n")
        return 2
    parser.check_options(given)
    options = parser.parse_words(given)
    if not modules:
        parser.print_help(sys.stderr)
        return 2
    try:
        code = modules[0].run(options)
        sys.stdout.flush()  # here, because BrokenPipeError is handled below
    except ConfigError as error:
        return _report(parser, error, 2)
    except WindlassError as error:
        return _report(parser, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of stdout is gone. Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def whole_parser() -> argparse.ArgumentParser:
    """The parser with the arguments of all commands."""
    return _parser_with([*COMMANDS, *_plug_ins()])[0]


def _plug_ins() -> "dict[str, EntryPoint]":
    """The commands of other packages; none can replace a command of Windlass."""
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if name not in COMMANDS}


def _parser_with(wanted: Collection[str]) -> "tuple[CommandParser, list[CommandModule]]":
    """The parser and the modules of the wanted commands; no other module is loaded."""
    from windlass.cli.arguments import CommandParser

    parser = CommandParser(
        prog="windlass",
        description="Automatic tool execution for any language model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"windlass {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    modules: list[CommandModule] = []
    for name, (place, text) in COMMANDS.items():
        command = commands.add_parser(
            name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in wanted:
            module = cast("CommandModule", cast("object", import_module(place)))
            module.configure(command)
            modules.append(module)
    # Reading entry points takes time, which the usual commands do not need.
    if not wanted or not set(wanted) <= COMMANDS.keys():
        modules += _add_plug_ins(commands, wanted)
    return parser, modules


def _add_plug_ins(commands: Any, wanted: Collection[str]) -> "list[CommandModule]":
    """Adds the commands of other packages; returns the modules of the wanted ones."""
    modules: list[CommandModule] = []
    for name, entry in _plug_ins().items():
        try:
            module = cast("CommandModule", entry.load())
        except Exception as error:
            if name in wanted:
                raise ConfigError(f"cannot load the command {name!r}: {error}") from error
            continue
        command = commands.add_parser(
            name,
            help=getattr(module, "HELP", f"a command of {entry.value}"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in wanted:
            module.configure(command)
            modules.append(module)
    return modules


def _report(parser: argparse.ArgumentParser, error: Exception, code: int) -> int:
    # The library's message names a parameter that the command line does not have.
    text = str(error).replace("pass api_key= or set ", "set ")
    sys.stderr.write(f"{parser.prog}: {text}\n")
    return code
