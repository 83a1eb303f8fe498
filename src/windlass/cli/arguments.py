"""The arguments of commands: a parser that suggests corrections, shared options and value types."""

import argparse
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

MIN_LIKENESS = 0.6
"""How much a name must be like another to be suggested; 1 is equal."""


class CommandParser(argparse.ArgumentParser):
    """An `ArgumentParser` that suggests a correction for a mistyped command or option."""

    def check_options(self, words: Sequence[str]) -> None:
        """Exits with a message if the command does not have one of the options.

        argparse would report it last, without a suggestion, and with the usage of `windlass`.
        """
        parsers = self._parsers_for(words)
        if parsers is None:
            return  # argparse reports a missing or unknown command
        options = (option for parser in parsers for option in parser._option_string_actions)
        known = list(dict.fromkeys(options))
        for word in words:
            name = word.partition("=")[0]
            if word == "--":
                return
            if not name.startswith("--") or " " in name:
                continue
            if not any(option.startswith(name) for option in known):
                parsers[-1].error(f"unknown option {name!r}{suggestion(name, known)}")

    def parse_words(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses the arguments. Exits with a message of the command that has one too many."""
        options, unknown = self.parse_known_args(words)
        if unknown:
            parsers = self._parsers_for(words) or [self]
            parsers[-1].error(f"unexpected argument {unknown[0]!r}")
        return options

    def _parsers_for(self, words: Sequence[str]) -> "list[CommandParser] | None":
        """The parser and its selected sub-parsers; None if a command is missing or unknown."""
        found: list[CommandParser] = [self]
        plain = [word for word in words if not word.startswith("-")]
        if not plain:
            return found
        rest = iter(plain)
        while choices := found[-1]._commands():
            name = next(rest, "")
            if name not in choices:
                return None
            found.append(choices[name])
        return found

    def _commands(self) -> "dict[str, CommandParser]":
        groups = [action.choices for action in self._actions if action.nargs == argparse.PARSER]
        return cast("dict[str, CommandParser]", groups[0]) if groups else {}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        hint = suggestion(str(value), names) or f" (choose from {', '.join(names)})"
        if action.nargs == argparse.PARSER:
            what = str(action.metavar or "command").lower()
            raise argparse.ArgumentError(None, f"unknown {what} {value!r}{hint}")
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a hint with the names that are most like this one; an empty text if none is.

    Dashes at the start do not count, since every option has them.
    """
    likeness = {each: _likeness(name.lstrip("-"), each.lstrip("-")) for each in known}
    best = max(likeness.values(), default=0.0)
    near = sorted(likeness, key=lambda each: -likeness[each])[:2]
    alike = [each for each in near if likeness[each] > max(best - 0.1, MIN_LIKENESS)]
    return f" (did you mean {' or '.join(map(repr, alike))}?)" if alike else ""


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()


def add_action(actions: Any, name: str, help: str, epilog: str) -> argparse.ArgumentParser:
    """Adds a sub-command, such as `list` in `windlass runs list`."""
    return actions.add_parser(
        name, help=help, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_tools_option(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Adds `--tools FILE`. `default` says which tools are used without it."""
    text = "a file (tools.py) or module (acme.tools) with tools; can be repeated"
    completes_files(
        parser.add_argument(
            "--tools",
            action="append",
            default=[],
            metavar="FILE",
            help=f"{text} (default: {default})" if default else text,
        )
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, `--events` and `--quiet`."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object at the end")
    form.add_argument("--events", action="store_true", help="print each event as a line of JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors to stderr")


def completes_files(action: argparse.Action) -> None:
    """Completes the value of the argument as a file name. The attribute is shtab's."""
    vars(action)["complete"] = "file"


def completes_folders(action: argparse.Action) -> None:
    """Completes the value of the argument as a folder name."""
    vars(action)["complete"] = "directory"


def whole_number(minimum: int = 0, maximum: int | None = None) -> Any:
    """A value type: whole numbers from `minimum` to `maximum`."""
    if maximum is None:
        expected = f"a whole number, {minimum} or more"
    else:
        expected = f"from {minimum} to {maximum}"

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < minimum or (maximum is not None and number > maximum):
            raise argparse.ArgumentTypeError(f"must be {expected}, not {text!r}")
        return number

    return read


port_number = whole_number(0, 65535)

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def seconds(text: str) -> float:
    number = _finite(text)
    if number is None or number <= 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return number


def non_negative(text: str) -> float:
    number = _finite(text)
    if number is None or number < 0:
        raise argparse.ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return number


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def age(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text, re.IGNORECASE | re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be like 90s, 15m, 12h or 30d, not {text!r}")
    return float(found[1]) * _SECONDS[found[2].lower()]


def size(text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([kmg]?)b?", text, re.IGNORECASE | re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be like 4096, 500k, 20M or 1G, not {text!r}")
    return int(found[1]) * _BYTES[found[2].lower()]


def json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise argparse.ArgumentTypeError(f"must be a JSON object: {error}") from error
