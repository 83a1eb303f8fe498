"""`--forks`, with which `make test` runs its tests: nothing that a worker reports is lost."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SHARED = """
import os, pathlib, warnings, pytest

HERE = pathlib.Path(__file__).parent

def note(event):
    with (HERE / "fixtures").open("a") as file:
        file.write(f"{event} {os.getpid()}\\n")

@pytest.fixture(scope="session")
def shared():
    note("opened")
    yield os.getpid()
    note("closed")
"""

FILES = {
    "conftest.py": SHARED,
    "test_a.py": """
import os, warnings
def test_first(shared, tmp_path): assert shared == os.getpid()
def test_second(shared): warnings.warn("a sign of age", UserWarning)
""",
    "test_b.py": """
import os
def test_fails(shared):
    print("what the test printed")
    assert 1 + 1 == 3
""",
    "test_c.py": """
import os, signal
def test_before(shared): pass
def test_dies(shared): os.kill(os.getpid(), signal.SIGKILL)
def test_after(shared): pass
""",
}

KINDS = ("opened", "closed")


def run(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in (FILES | files).items():
        (folder / name).write_text(text)
    words = ["-p", "tests.support.forking", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), *words]
    return subprocess.run(
        [*command, "--forks", "2", *options, str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # their imports take a second
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_report_of_a_test_worker_arrives(tmp_path: Path) -> None:
    done = run(tmp_path, "-v")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "2 failed, 4 passed, 1 warning" in done.stdout
    outcomes = dict(re.findall(r"::(test_\w+) (PASSED|FAILED)", done.stdout))
    assert outcomes["test_after"] == "PASSED"
    assert "what the test printed" in done.stdout
    assert "assert (1 + 1) == 3" in done.stdout
    assert "a sign of age" in done.stdout
    assert "a worker exited with -9" in done.stdout
    # Each worker that opened the fixture closed it once, except the one that was killed. How many
    # workers ran a test is a matter of timing.
    notes = (tmp_path / "fixtures").read_text().splitlines()
    opened, closed = ([note.split()[1] for note in notes if kind in note] for kind in KINDS)
    assert len(opened) == len(set(opened))
    assert len(closed) == len(set(closed)) == len(opened) - 1
    assert set(closed) < set(opened)


def test_a_run_stops_at_the_first_failure(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(2000))\ndef test_many(n): assert n"
    done = run(tmp_path, "-x", "-q", **{"test_a.py": many, "test_c.py": "def test_last(): pass"})
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "stopping after" in done.stdout
    assert "1999 passed" not in done.stdout
