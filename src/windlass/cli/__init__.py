"""The command line: `windlass COMMAND`. Each command is a file of its own, loaded when asked for.

Exit codes: 0 all is well, 1 something could not be done, 2 the command was given wrongly,
130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from windlass.errors import ConfigError, WindlassError

__all__ = ["COMMANDS", "main"]


class Command(Protocol):
    """A command's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Says what the command takes."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Does it; the exit code."""
        ...


COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("windlass.cli.serve", "serve models and tools behind the OpenAI wire"),
    "check-config": ("windlass.cli.check_config", "say what is wrong with a windlass.toml"),
    "keys": ("windlass.cli.keys", "make a key for the gateway"),
    "parse": ("windlass.cli.parse", "read the tool calls in a model's text"),
}
"""Each command's module and what its help says."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code. Wrong usage exits with 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser, module = _parser_for(given)
    options = parser.parse_args(given)
    if module is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return module.run(options)
    except ConfigError as error:
        return _complain(parser, error, 2)
    except WindlassError as error:
        return _complain(parser, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python must not fail again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser_for(given: list[str]) -> tuple[argparse.ArgumentParser, Command | None]:
    """The parser, and the module of the command that is asked for: the only one to be loaded."""
    parser = argparse.ArgumentParser(
        prog="windlass", description="Automatic tool execution for any language model."
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    wanted = next((word for word in given if not word.startswith("-")), None)
    module: Command | None = None
    for name, (place, said) in COMMANDS.items():
        command = commands.add_parser(
            name, help=said, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == wanted:
            module = cast("Command", cast("object", import_module(place)))
            module.configure(command)
    return parser, module


def _complain(parser: argparse.ArgumentParser, error: Exception, code: int) -> int:
    sys.stderr.write(f"{parser.prog}: {error}\n")
    return code
