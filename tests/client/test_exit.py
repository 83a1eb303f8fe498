"""A script that leaves clients open exits at once and prints nothing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.thoroughness import WHOLE
from tests.support.unclosed_clients import SCRIPTS

from windlass.testing import FakeOpenAI, Gate, Step, call, slow

pytestmark = pytest.mark.process

AT_ONCE = 3 if WHOLE else 1
"""How often each script runs in parallel: processes that disturb each other vary the timing."""


def answered(body: dict[str, Any]) -> Step:
    match body["messages"][-1]["content"]:
        case "slow":
            return slow("One two three.", Gate(), after=1)
        case "wait_for_ever" | "sleep_for_ever" | "large" as name:
            return call(name)
        case _:
            return "Hello."


@pytest.mark.parametrize("script", [script.__name__ for script in SCRIPTS])
def test_a_script_that_leaves_its_clients_open_ends_silently(script: str, tmp_path: Path) -> None:
    program = str(Path(__file__).parents[1] / "support" / "unclosed_clients.py")
    with FakeOpenAI(answered) as fake:
        processes: list[subprocess.Popen[str]] = []
        for number in range(AT_ONCE):
            folder = tmp_path / str(number)
            folder.mkdir()
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "default", program, script, fake.base_url],
                    cwd=folder,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            said = [process.communicate(timeout=60)[1] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert said == [""] * AT_ONCE
    assert [process.returncode for process in processes] == [0] * AT_ONCE
