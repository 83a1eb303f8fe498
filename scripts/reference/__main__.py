"""Writes the reference pages to `docs/reference`, which git ignores.

python -m scripts.reference           writes the pages that have changed
python -m scripts.reference --list    prints their names
"""

import sys
from collections.abc import Callable
from pathlib import Path

from scripts.reference import command_line, environment, http_api, python_api, toml_keys, wire_types

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "api": python_api.api_page,
    "events": python_api.events_page,
    "errors": python_api.errors_page,
    "options": python_api.options_page,
    "testing": python_api.testing_page,
    "cli": command_line.page,
    "windlass-toml": toml_keys.page,
    "environment": environment.page,
    "http": http_api.page,
    "wire-types": wire_types.page,
}
FILES: dict[str, Callable[[], str]] = {"openapi.json": http_api.document}


def main() -> int:
    files = {**{f"{name}.md": page for name, page in PAGES.items()}, **FILES}
    if "--list" in sys.argv:
        print("\n".join(files))
        return 0
    FOLDER.mkdir(exist_ok=True)
    for name, text in files.items():
        path, content = FOLDER / name, text()
        # A server that watches the folder rebuilds the site for every file that is written.
        if not path.exists() or path.read_text() != content:
            path.write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
