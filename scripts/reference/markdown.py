"""Pieces of Markdown pages."""

from collections.abc import Iterable

NOTE = "Generated from the code of Windlass {version}."


def cell(text: str) -> str:
    """The text of a table's cell: one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def sentence(text: str) -> str:
    """The text with a capital letter at its start."""
    return text[:1].upper() + text[1:]


def page(title: str, *parts: str) -> str:
    from windlass import __version__

    note = NOTE.format(version=__version__)
    return "\n".join([f"# {title}\n", f"<small>{note}</small>\n", *parts]).rstrip() + "\n"
