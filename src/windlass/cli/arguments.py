"""The parser of the command line: argparse, with a suggestion for a mistyped command or option."""

import argparse
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec


class Parser(argparse.ArgumentParser):
    """Its sub-parsers are of the same class."""

    def check_options(self, words: Sequence[str]) -> None:
        """Exits with a message if an option is not known where it stands.

        argparse reports this last, without a suggestion, and with the usage of all of `windlass`.
        """
        parsers = self._parsers_for(words)
        if parsers is None:
            return  # argparse reports the command that is missing or unknown
        known = [option for parser in parsers for option in parser._option_string_actions]
        for word in words:
            name = word.partition("=")[0]
            if word == "--":
                return
            if not name.startswith("--") or " " in name:
                continue
            if not any(option.startswith(name) for option in known):
                parsers[-1].error(f"unknown option {name!r}{_suggestion(name, known)}")

    def _parsers_for(self, words: Sequence[str]) -> "list[Parser] | None":
        """The parsers that the words lead to; None if a command is missing or unknown."""
        found: list[Parser] = [self]
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

    def _commands(self) -> "dict[str, Parser]":
        groups = [action.choices for action in self._actions if action.nargs == argparse.PARSER]
        return cast("dict[str, Parser]", groups[0]) if groups else {}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        hint = _suggestion(str(value), names) or f" (choose from {', '.join(names)})"
        if action.nargs == argparse.PARSER:
            what = str(action.metavar or "command").lower()
            raise argparse.ArgumentError(None, f"unknown {what} {value!r}{hint}")
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")


def whole_number(least: int = 0, most: int | None = None) -> Any:
    """A type for options: whole numbers from `least` to `most`."""
    said = f"a whole number, {least} or more" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be {said}, not {text!r}")
        return number

    return read


port_number = whole_number(0, 65535)


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2)
    alike = [each for each in near if _likeness(name, near[0]) - _likeness(name, each) < 0.1]
    return f" (did you mean {' or '.join(map(repr, alike))}?)" if near else ""


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()


def completes_files(action: argparse.Action) -> None:
    """The value of this argument is completed as a file's name. The attribute is shtab's."""
    vars(action)["complete"] = "file"


def completes_folders(action: argparse.Action) -> None:
    """The value of this argument is completed as a folder's name."""
    vars(action)["complete"] = "directory"


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return number


def non_negative(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise argparse.ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return amount


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
