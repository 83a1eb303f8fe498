"""Every example runs unchanged, and prints its documented output on both wires."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parent.parent / "examples"
ANSWER = "In Paris it is sunny with 22 °C"
EXPECTED = {
    "blocking": ["openai/demo: " + ANSWER, "gemini/demo: " + ANSWER, "-> 42"],
    "streaming": ["openai/demo: Let me look that up.", "gemini/demo: Let me", ANSWER, "[Executing"],
    "async_streaming": ["openai/demo: Let me look that up. " + ANSWER, "gemini/demo: Let me"],
    "background_run": ["a second reader received", ANSWER],
    "approvals": ["outbox: ['ada: It works. Kind regards.']", "That is too many people."],
    "durable_run": [ANSWER, "get_weather started 1x, calculate started 1x, get_time started 2x"],
    "chat": ["openai/demo: " + ANSWER, "(7 messages so far)"],
    "custom_executor": ['audit: get_time {"city":"Tokyo"}', "The clock is closed today."],
    "registered_tools": ["openai/demo: " + ANSWER, "gemini/demo: " + ANSWER],
    "parallel_tools": ["['page one', 'page two', 'page three', 'page four']", "4 at the same time"],
    "testing_your_tools": ["passed: test_the_model_receives_an_error_for_an_unknown_city"],
    "extract_users": [
        "so far: [User(name='JASON', age=25)",
        "users: [User(name='JASON', age=25), User(name='SARAH', age=30)]",
    ],
    "support_agent": [
        "SupportOutput(support_advice='Your balance is $123.45.', block_card=False, risk=1)",
        "block_card=True, risk=8)",
    ],
    "gateway_client": [
        "complete: Let me look that up. " + ANSWER,
        "streamed: Let me look that up. " + ANSWER,
    ],
    "automatic_execution": ["[info] test_tool executed", "The tool returned: Hello Hello"],
    "mcp_server": ["the server offers: demo__get_weather", "It is sunny in Paris."],
    "manual_control": ["gemini/demo calls: get_weather, get_time, calculate", ANSWER],
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    """The output of each example. One process runs them all, each as a main program."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "run_all.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    _, *parts = re.split(r"^--- examples/(\w+)\.py\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_promises(outputs: dict[str, str], name: str) -> None:
    for line in EXPECTED[name]:
        assert line in outputs[name]


def test_every_example_is_shown_and_promises_something(outputs: dict[str, str]) -> None:
    helpers = {"demo_tools", "upstream", "run_all"}
    names = {path.stem for path in EXAMPLES.glob("*.py")} - helpers
    assert set(outputs) == set(EXPECTED) == names
