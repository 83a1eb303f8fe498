"""Vercel's AI SDK, unchanged, on Node: both of its providers for the Responses API."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.npm_packages import NODE, installed
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.content import FunctionResponse
from windlass.gateway.config import ModelConfig
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, call, calls
from windlass.testing.script import Stepper

pytestmark = [pytest.mark.timeout(700), pytest.mark.process]

PACKAGES = (
    "@ai-sdk/open-responses@2.0.36",
    "@ai-sdk/openai@4.0.114",
    "ai@7.0.169",
    "zod@4.6.7",
)
PROGRAM = Path(__file__).parent / "ai_sdk.mjs"


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


class Stage:
    """A gateway whose model plays the script of a test, and the folder of the Node program."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / PROGRAM.name
        shutil.copy(PROGRAM, self._program)
        (folder / "node_modules").symlink_to(installed("ai-sdk", PACKAGES))
        self.model = ScriptedModel(lambda request: self._stepper.next(request))
        config = config_of(ModelConfig(name="m", target="scripted/model", tools=("count_letters",)))
        self.serving = Serving(config, models={"m": self.model}, tools=[count_letters])

    def does(self, provider: str, task: str, *steps: Step) -> dict[str, Any]:
        """What the program reports after the model has played these steps."""
        self._stepper: Stepper[ModelRequest] = Stepper(steps)
        self.model.requests.clear()
        words = [str(NODE), str(self._program), provider, task, self.serving.base_url, "m"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert done.stderr == ""
        return json.loads(done.stdout)

    @property
    def results(self) -> list[str]:
        """The results that the model read in the last round."""
        parts = [part for message in self.model.requests[-1].messages for part in message.parts]
        return [part.text for part in parts if isinstance(part, FunctionResponse)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("node"))
    with stage.serving:
        yield stage


ELSEWHERE = pytest.mark.whole("the test below with one of them, test_openai_agents")
FORMS = [("openai", "generate"), ("open-responses", "generate"), ("open-responses", "stream")]


@ELSEWHERE
@pytest.mark.parametrize(("provider", "task"), [("openai", "stream"), *FORMS])
def test_its_answer_arrives(stage: Stage, provider: str, task: str) -> None:
    done = stage.does(provider, task, "Paris is warmer.")
    assert (done["text"], done["reason"]) == ("Paris is warmer.", "stop")
    assert done["usage"]["inputTokens"] == 10
    assert done["usage"]["outputTokens"] == 5
    assert done.get("pieces", 3) == 3


@pytest.mark.parametrize(
    ("provider", "task"),
    [("openai", "stream"), *(pytest.param(*form, marks=ELSEWHERE) for form in FORMS)],
)
def test_its_own_tool_and_a_server_tool_run_in_one_run(
    stage: Stage, provider: str, task: str
) -> None:
    done = stage.does(
        provider,
        task,
        call("count_letters", word="Roma"),
        calls(
            call("get_weather", city="Paris"),
            call("count_letters", word="Paris"),
            call("get_weather", city="Rome"),
        ),
        "Paris is warmer; its name has 5 letters.",
    )
    assert done["text"] == "Paris is warmer; its name has 5 letters."
    assert sorted(done["ran"]) == ["Paris", "Rome"]
    assert stage.results == ["4", "21", "5", "18"]
    assert len(stage.model.requests) == 3
    assert done["usage"]["inputTokens"] == 30
