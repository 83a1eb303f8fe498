"""The console's logic without a page: the tests in console/test, in Node.

A new file there runs automatically. The page's view of a run is compared with the library's, over
logs of real runs.
"""

import re
from pathlib import Path

import pytest
from scripts.console_project import PROJECT, node
from tests.console.real_logs import RealLog, cut_and_resumed, outcomes

from windlass.events import event_to_dict
from windlass.jsontext import encode_json
from windlass.runs.export import exported
from windlass.runs.records import RunRecord

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

RUNNER = Path("test", "run.mjs")
FILES = sorted(file.name for file in (PROJECT / "test").glob("*.test.ts"))
RECORD = RunRecord(id="run_1", model="scripted/model", created=100.0, title="Go.")


def test_the_logic_of_the_page_in_node() -> None:
    ended = node(RUNNER, *FILES)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    [passed] = re.findall(r"^\S+ pass (\d+)$", ended.stdout, re.MULTILINE)
    assert int(passed) >= len(FILES)


async def test_the_page_and_the_library_tell_a_run_in_the_same_way(tmp_path: Path) -> None:
    logs = [*await outcomes(), *await cut_and_resumed()]
    file = tmp_path / "logs.json"
    file.write_bytes(encode_json([_written(log) for log in logs]))
    ended = node(RUNNER, "reallogs.ts", "--", file)
    assert ended.returncode == 0, ended.stdout[-10_000:] + ended.stderr
    assert f"pass {len(logs)}" in ended.stdout


def _written(log: RealLog) -> dict[str, object]:
    return {
        "name": log.name,
        "events": [event_to_dict(event) for event in log.events],
        "rounds": exported(RECORD, log.events, ())["rounds"],
        "tools_off": log.tools_off,
    }
