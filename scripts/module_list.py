"""Writes docs/internals/modules.md: every module, with its responsibility in one sentence.

The sentence is the first of the module's docstring. `--check` only compares.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "windlass"
PAGE = ROOT / "docs" / "internals" / "modules.md"
HEAD = (
    "# Modules\n\n"
    "Every module of `src/windlass`, with its responsibility in one sentence."
    " `python scripts/module_list.py` writes this page from the docstrings, and a test compares it."
    "\n"
)


def sentence_of(path: Path) -> str:
    """Returns the first sentence of the module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    first, dot, _ = paragraph.partition(". ")
    return first + "." if dot else paragraph


def module_list() -> str:
    """Returns the text of the page."""
    lines = [HEAD]
    package = None
    for path in sorted(SOURCE.rglob("*.py"), key=lambda path: (path.parent, path.name)):
        name = path.relative_to(SOURCE)
        if name.parent != package:
            package = name.parent
            title = "windlass" if package == Path() else f"windlass/{package}"
            lines.append(f"\n## {title}\n\n| Module | Responsibility |\n|---|---|")
        lines.append(f"| `{name.name}` | {sentence_of(path).replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = module_list()
    if "--check" in sys.argv:
        sys.exit("docs/internals/modules.md is not current" if PAGE.read_text() != page else 0)
    PAGE.write_text(page)
