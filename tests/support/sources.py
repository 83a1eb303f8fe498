"""The package's source files as syntax trees, for tests that search them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import windlass

PACKAGE = Path(windlass.__file__).parent


def trees(pattern: str) -> Iterator[tuple[str, ast.Module]]:
    """Returns the files whose text matches, by path. Parsing all files would take seconds."""
    wanted = re.compile(pattern)
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        if wanted.search(text):
            yield str(path.relative_to(PACKAGE)), ast.parse(text)
