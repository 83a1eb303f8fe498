"""The AI SDK with its Google provider, unchanged, on Node, against a gateway on a real port."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.messages_gateway import calls_and_results, lookup
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of

from windlass.gateway.config import ModelConfig
from windlass.testing import ScriptedModel, Step, call, calls, refuse, think

pytestmark = [
    pytest.mark.process,
    pytest.mark.whole("tests/gateway/routes/test_genai_sdk.py, with Google's own SDK"),
    pytest.mark.timeout(700),
]
PACKAGES = ("@ai-sdk/google@4.0.117", "ai@7.0.169", "zod@4.6.7")
PROGRAM = Path(__file__).parent / "ai_sdk_tools.mjs"
SERVED = ModelConfig(name="m", target="scripted/model", tools=("lookup",), aliases=("gemini-*",))
SECONDS = 120

forms = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program, beside its packages."""
    (tmp_path / "node_modules").symlink_to(installed("google-ai-sdk", PACKAGES))
    return Path(shutil.copy(PROGRAM, tmp_path))


def run(
    program: Path, streamed: bool, *steps: Step
) -> tuple[subprocess.CompletedProcess[str], ScriptedModel]:
    """What the program prints while the model plays these steps."""
    model = ScriptedModel(list(steps))
    with Serving(config_of(SERVED), models={"m": model}, tools=[lookup]) as serving:
        words = ["google", f"{serving.root_url}/v1beta", str(streamed).lower(), "Ring."]
        done = subprocess.run(
            [str(NODE), str(program), *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    return done, model


def read(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@forms
def test_it_runs_its_own_tool_beside_a_server_tool(program: Path, streamed: bool) -> None:
    done, model = run(
        program,
        streamed,
        think("Hm.", calls(call("lookup", city="Rome"), call("ring", times=2), text="Ringing. ")),
        call("lookup", city="Oslo"),
        "It rang.",
    )
    assert read(done) == {
        "text": "Ringing. It rang." if streamed else "It rang.",
        "rang": [2],
        "steps": 2,
        "reason": "stop",
        "errors": [],
    }
    assert [request.live for request in model.requests] == [streamed] * 3
    assert calls_and_results(model.requests[-1].messages) == [
        ("lookup", "Rome"),
        ("ring", 2),
        ("->", "lookup", "sunny in Rome"),
        ("->", "ring", '{"name":"ring","content":"rang 2"}'),  # the SDK's own form of a result
        ("lookup", "Oslo"),
        ("->", "lookup", "sunny in Oslo"),
    ]


@forms
def test_it_answers_without_calls(program: Path, streamed: bool) -> None:
    done, model = run(program, streamed, "Hello.")
    seen = read(done)
    assert (seen["text"], seen["reason"], seen["steps"]) == ("Hello.", "stop", 1)
    assert len(model.requests) == 1


@forms
def test_it_raises_the_gateways_error(program: Path, streamed: bool) -> None:
    done, model = run(program, streamed, refuse(400, "The weather is bad."))
    [error] = read(done)["errors"]
    assert "The weather is bad." in error
    assert len(model.requests) == 1
