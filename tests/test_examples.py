"""Every example runs as it is, and says what it promises on both wires."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
ANSWER = "In Paris it is sunny with 22 °C"
SAYS = {
    "blocking": ["openai/demo: " + ANSWER, "gemini/demo: " + ANSWER, "-> 42"],
    "streaming": ["openai/demo: Let me look that up.", "gemini/demo: Let me", ANSWER, "[Executing"],
    "async_streaming": ["openai/demo: Let me look that up. " + ANSWER, "gemini/demo: Let me"],
    "background_run": ["a late reader had", ANSWER],
    "approvals": ["outbox: ['ada: It works. Kind regards.']", "That is too many people."],
    "chat": ["openai/demo: " + ANSWER, "(7 messages so far)"],
    "custom_executor": ['audit: get_time {"city":"Tokyo"}', "The clock is closed today."],
    "parallel_tools": ["['page one', 'page two', 'page three', 'page four']", "4 at once"],
    "testing_your_tools": ["passed: test_an_unknown_city_is_explained_to_the_model"],
    "gateway_client": ["whole: " + ANSWER, "streamed: Let me look that up. " + ANSWER],
    "manual_control": ["gemini/demo asks for: get_weather, get_time, calculate", ANSWER],
}


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_as_it_is(name: str) -> None:
    output = run(name)
    for line in SAYS[name]:
        assert line in output


def test_make_examples_shows_every_example() -> None:
    output = run("run_all")
    helpers = {"demo_tools", "upstream", "run_all"}
    names = {path.stem for path in EXAMPLES.glob("*.py")} - helpers
    assert names == set(SAYS)
    assert all(f"--- examples/{name}.py" in output for name in names)
