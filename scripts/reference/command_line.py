"""Writes the page about the commands, from their parsers."""

import argparse
import os
from collections.abc import Iterator

from scripts.reference import markdown
from scripts.reference.markdown import code, sentence, table


def page_parts(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    commands = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if level > 1:
        yield f"{'#' * level} `{parser.prog}`\n"
        if parser.description:
            yield f"{parser.description}\n"
        yield code(parser.format_usage().removeprefix("usage: "), "text")
    rows = list(_arguments(parser))
    if rows:
        yield table(("Argument", "Meaning"), rows)
        yield ""
    if parser.epilog and level > 1:
        yield code(parser.epilog, "text")
    for action in commands:
        for choice in dict.fromkeys(action.choices.values()):
            yield from page_parts(choice, min(level + 1, 4))


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        if "--help" in action.option_strings:
            continue
        names = action.option_strings or [str(action.metavar or action.dest)]
        value = ""
        if action.option_strings and action.nargs != 0:
            shown = action.metavar or (
                "{" + ",".join(map(str, action.choices)) + "}"
                if action.choices
                else action.dest.upper()
            )
            value = f" {shown if isinstance(shown, str) else ' '.join(shown)}"
        text = (action.help or "").replace("%%", "%")
        if "%(default)s" in text:
            text = text.replace("%(default)s", str(action.default))
        yield f"`{', '.join(names)}{value}`", sentence(text)


def page() -> str:
    from windlass.cli import COMMANDS, whole_parser

    os.environ["COLUMNS"] = "88"  # the width of the usage lines
    return markdown.page(
        "Commands",
        "[The command line](../command-line.md) explains the commands with examples, and has the "
        "exit codes.\n",
        table(
            ("Command", "Purpose"),
            (
                (f"[`windlass {name}`](#windlass-{name})", sentence(text))
                for name, (_, text) in COMMANDS.items()
            ),
        ),
        "",
        *page_parts(whole_parser(), 1),
    )
