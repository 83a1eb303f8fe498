"""Helpers that write Markdown: tables, code and pages."""

import re
from collections.abc import Iterable

NOTE = "Generated from the code of Windlass {version}."


def cell(text: str) -> str:
    """The text of a table's cell: one line, with its bars escaped.

    The site shows a backslash in code, and does not take a bar in code for the end of the cell.
    """
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part[:1] == "`" else part.replace("|", "\\|") for part in parts)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def sentence(text: str) -> str:
    """Returns the text with a capital letter at the start."""
    return text[:1].upper() + text[1:]


def page(title: str, *parts: str) -> str:
    from windlass import __version__

    note = NOTE.format(version=__version__)
    return "\n".join([f"# {title}\n", f"<small>{note}</small>\n", *parts]).rstrip() + "\n"
