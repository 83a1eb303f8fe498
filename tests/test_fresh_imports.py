"""Every module can be the first of the package that a process imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import windlass

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PACKAGE = Path(windlass.__file__).parent
HEAVY = (
    "aiohttp",
    "jsonschema_rs",
    "mcp",
    "nats",
    "opentelemetry.sdk.trace",
    "playwright.async_api",
    "prometheus_client",
    "prompt_toolkit",
    "pydantic",
    "rich.console",
    "starlette.applications",
    "uvicorn",
)
"""Other packages that many modules import: imported once, before the first fork, to save time."""


def failures(folder: Path, *others: str) -> str:
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "support" / "fresh_imports.py", folder, *others],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder.parent)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.whole("the layers of import-linter, in `make check`")
def test_every_module_can_be_imported_alone_in_a_fresh_interpreter() -> None:
    *broken, last = failures(PACKAGE, *HEAVY).splitlines()
    assert broken == []
    files = [path for path in PACKAGE.rglob("*.py") if path.stem != "__main__"]
    assert last == f"{len(files)} modules imported"


def test_a_circular_import_is_found_whichever_module_hides_it(tmp_path: Path) -> None:
    package = tmp_path / "round_trip"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("A = 1\nfrom round_trip.second import B\n")
    (package / "second.py").write_text("from round_trip.first import A\nB = 1\n")
    said = failures(package)
    assert "round_trip.second: Traceback" in said
    assert "partially initialized module" in said
    assert said.endswith("2 modules imported\n")
