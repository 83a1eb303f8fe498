"""One table holds the exit code of each stop reason, for every command and for the docs."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.cli.keeping import keep
from tests.cli.running import Upstream, started, windlass

from windlass.cli import main
from windlass.cli.exit_codes import ENDINGS, ending_text, explanation
from windlass.events import StopReason
from windlass.testing import call, say

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \|", re.MULTILINE)


def test_every_stop_reason_has_an_exit_code() -> None:
    assert ENDINGS.keys() == set(get_args(StopReason))
    assert {reason for reason, ending in ENDINGS.items() if ending.code == 0} == {"answer"}
    assert {reason for reason, ending in ENDINGS.items() if ending.code == 1} == {"error"}
    assert {ending.code for ending in ENDINGS.values()} == {0, 1, 3}


def test_the_docs_list_the_exit_code_of_every_stop_reason() -> None:
    documented = {reason: int(code) for reason, code in ROW.findall(PAGE.read_text())}
    assert documented == {reason: ending.code for reason, ending in ENDINGS.items()}


def test_every_ending_except_an_answer_is_explained() -> None:
    assert ending_text("answer") == ""
    for reason in ENDINGS.keys() - {"answer"}:
        assert ENDINGS[reason].text in ending_text(reason)
    assert ending_text("error", "it broke") == "the run failed: it broke"


def test_an_option_is_named_only_by_commands_that_have_it() -> None:
    assert explanation("max_rounds", ["--max-rounds"]).endswith("; --max-rounds sets it")
    assert explanation("max_rounds") == "the round limit was reached"


def test_run_and_follow_return_the_same_code(
    upstream: Upstream, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = say("It is su", finish="length")
    upstream(turn)
    code = main(["run", "Weather?", "--model", "openai/gpt-test", "-q"])
    reported = capsys.readouterr().err
    followed = main(["runs", "follow", keep([turn]), "-q"])
    assert (code, reported) == (followed, capsys.readouterr().err)
    assert code == ENDINGS["length"].code


@pytest.mark.process
def test_a_stopped_run_has_one_exit_code_in_every_command(upstream: Upstream, here: Path) -> None:
    upstream(call("wait_for_ever"))
    (here / "windlass.toml").write_text(
        '[models.fast]\ntarget = "openai/gpt-test"\ntools = ["wait_for_ever"]\n'
        '[tools]\nmodules = ["tools.py"]\n[runs]\npath = "windlass.db"\n'
    )
    with started("run", "Wait.") as process:
        assert process.stderr is not None
        assert any("Executing wait_for_ever" in line for line in process.stderr)
        [run] = json.loads(windlass("runs", "list", "--json", input="").stdout)
        assert windlass("runs", "stop", run["id"], input="").returncode == 0
        process.communicate(timeout=120)
    followed = windlass("runs", "follow", run["id"], input="")
    assert process.returncode == followed.returncode == ENDINGS["stopped"].code
