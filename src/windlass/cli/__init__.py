"""The command line: `windlass COMMAND`. Each command is a file of its own, loaded when asked for.

Exit codes: 0 all is well, 1 something could not be done, 2 the command was given wrongly,
130 interrupted. `windlass run` knows one more: 3, a run without a full answer.
"""

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from windlass import __version__
from windlass.errors import ConfigError, WindlassError

if TYPE_CHECKING:
    from windlass.cli.arguments import Parser


class Command(Protocol):
    """A command's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Says what the command takes."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Does it; the exit code."""
        ...


COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("windlass.cli.run", "ask a model, with tools, and write its answer"),
    "chat": ("windlass.cli.chat", "talk with a model in the terminal"),
    "tools": ("windlass.cli.tools", "list tools, show their schemas, call one by hand"),
    "models": ("windlass.cli.models", "say which models can be used"),
    "demo": ("windlass.cli.demo", "serve a model of this machine with a few tools: no key needed"),
    "serve": ("windlass.cli.serve", "serve models and tools behind the OpenAI wire"),
    "runs": ("windlass.cli.runs", "list, follow, export and go on with runs that are kept"),
    "worker": ("windlass.cli.worker", "offer tools to gateways on other machines, over NATS"),
    "mcp": ("windlass.cli.mcp", "offer tools to other programs as an MCP server"),
    "init": ("windlass.cli.init", "write a windlass.toml and tools to begin with"),
    "check-config": ("windlass.cli.check_config", "say what is wrong with a windlass.toml"),
    "doctor": ("windlass.cli.doctor", "say what is here, what is missing, and how to get it"),
    "keys": ("windlass.cli.keys", "make a key for the gateway"),
    "aistudio": ("windlass.cli.aistudio", "sign in to AI Studio's page, or check its selectors"),
    "parse": ("windlass.cli.parse", "read the tool calls in a model's text"),
    "completion": ("windlass.cli.completion", "write a script for your shell's completion"),
}
"""Each command's module and what its help says."""

EPILOG = """\
examples:
  windlass init && windlass run "What is the weather in Paris?"
  windlass chat --tools tools.py
  windlass serve
  windlass doctor

`windlass COMMAND --help` has more, with examples."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code. Wrong usage exits with 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    wanted = next((word for word in given if not word.startswith("-")), None)
    parser, modules = _parser_with([wanted] if wanted else [])
    parser.check_options(given)
    options = parser.parse_args(given)
    if not modules:
        parser.print_help(sys.stderr)
        return 2
    try:
        code = modules[0].run(options)
        sys.stdout.flush()  # here, where a broken pipe is caught
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
    return code


def whole_parser() -> argparse.ArgumentParser:
    """The parser with what every command takes."""
    return _parser_with(COMMANDS)[0]


def _parser_with(wanted: Collection[str]) -> "tuple[Parser, list[Command]]":
    """The parser, and the modules of those commands: no others are loaded."""
    from windlass.cli.arguments import Parser

    parser = Parser(
        prog="windlass",
        description="Automatic tool execution for any language model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"windlass {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    modules: list[Command] = []
    for name, (place, said) in COMMANDS.items():
        command = commands.add_parser(
            name, help=said, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in wanted:
            module = cast("Command", cast("object", import_module(place)))
            module.configure(command)
            modules.append(module)
    return parser, modules


def _complain(parser: argparse.ArgumentParser, error: Exception, code: int) -> int:
    # The library's advice names a parameter, which the command line does not have.
    said = str(error).replace("pass api_key= or set ", "set ")
    sys.stderr.write(f"{parser.prog}: {said}\n")
    return code
