"""Codex CLI, unchanged, does tasks over a gateway whose model has a server tool."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.codex import Codex
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.content import FunctionResponse
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.routes.sockets import ResponseSocket
from windlass.model import Model, ModelRequest
from windlass.testing import ScriptedModel, call, calls

pytestmark = [
    pytest.mark.timeout(700),
    pytest.mark.whole("tests/gateway/clients/test_openai_agents, with the same wire"),
]

KEY, HASH = new_key()
PATCH = "*** Begin Patch\n*** Update File: greeting.txt\n@@\n-hello\n+goodbye\n*** End Patch\n"
BY_SHELL = call("exec_command", cmd=f"apply_patch <<'EOF'\n{PATCH}EOF")
ASK = "Greet Paris by its weather in greeting.txt."


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class Setting:
    """Codex before a gateway, and the model behind it."""

    def __init__(self, codex: Codex, serving: Serving, model: Any) -> None:
        self.codex, self._serving, self._model = codex, serving, model
        self.file = codex.work / "greeting.txt"
        self.file.write_text("hello\n")

    @property
    def asked(self) -> list[ModelRequest]:
        return self._model.requests

    @property
    def results(self) -> list[str]:
        """The results that the model read in the last round."""
        parts = [part for message in self.asked[-1].messages for part in message.parts]
        return [part.text for part in parts if isinstance(part, FunctionResponse)]

    def requests(self) -> dict[str, int]:
        """How many requests of Codex had which answer."""
        with urllib.request.urlopen(f"{self._serving.root_url}/metrics", timeout=30) as response:
            lines = response.read().decode().splitlines()
        counted = [line.rpartition(" ") for line in lines if "windlass_requests_total{" in line]
        return {
            f"{_label(name, 'method')} {_label(name, 'route')} {_label(name, 'status')}": int(
                float(value)
            )
            for name, _, value in counted
            if _label(name, "route") != "/metrics"
        }


def _label(metric: str, name: str) -> str:
    return metric.partition(f'{name}="')[2].partition('"')[0]


SetUp = Callable[..., Setting]


@pytest.fixture
def codex_with(tmp_path: Path) -> Iterator[SetUp]:
    """Codex before a gateway with this model: `codex_with(model, name="fast")`."""
    with ExitStack() as stack:

        def start(model: Model, name: str = "fast", mode: Any = None, **fields: Any) -> Setting:
            config = config_of(
                ModelConfig(name=name, target="scripted/model", tools=("get_weather",), mode=mode),
                **fields,
            )
            serving = stack.enter_context(
                Serving(config, models={name: model}, tools=[get_weather])
            )
            key = KEY if "keys" in fields else None
            return Setting(Codex(tmp_path, serving.base_url, name, key=key), serving, model)

        yield start


def test_codex_answers(codex_with: SetUp) -> None:
    here = codex_with(ScriptedModel(["Hello from the gateway."]))
    done = here.codex.does("Say hello.")
    assert done.answers == ["Hello from the gateway."]
    assert here.requests() == {"POST /v1/responses 200": 1}


def test_codex_sends_the_key_that_its_variable_holds(codex_with: SetUp) -> None:
    here = codex_with(ScriptedModel(["Hello."]), keys=(KeyConfig(name="codex", hash=HASH),))
    assert here.codex.does("Say hello.").answers == ["Hello."]


def test_a_task_with_a_server_tool_a_command_and_a_patch(codex_with: SetUp) -> None:
    """Each tool runs once, where it belongs; Codex sends one request for each of its own."""
    script = [
        call("get_weather", city="Paris"),
        call("exec_command", cmd="cat greeting.txt"),
        calls(call("get_weather", city="Rome"), BY_SHELL, text="I change it. "),
        "The file says goodbye.",
    ]
    here = codex_with(ScriptedModel(script))
    done = here.codex.does(ASK)
    assert here.file.read_text() == "goodbye\n"
    assert done.answers == ["I change it. ", "The file says goodbye."]
    assert done.commands == [("hello\n", 0)]
    assert done.changes == [("greeting.txt", "update")]
    first, second, third, fourth = here.results
    assert (first, third) == ("sunny in Paris", "sunny in Rome")
    assert second.endswith("Output:\nhello\n")
    assert "M greeting.txt" in fourth
    assert len(here.asked) == 4
    assert here.requests() == {"POST /v1/responses 200": 3}
    # The rounds of all three requests, as the scripted model counts them.
    assert done.usage["input_tokens"] == 40


def test_a_task_over_one_websocket(codex_with: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[ResponseSocket] = []
    serve = ResponseSocket.serve

    async def counted(socket: ResponseSocket) -> None:
        opened.append(socket)
        await serve(socket)

    monkeypatch.setattr(ResponseSocket, "serve", counted)
    script = [
        call("get_weather", city="Paris"),
        call("exec_command", cmd="cat greeting.txt"),
        "The file says hello.",
    ]
    here = codex_with(ScriptedModel(script))
    done = here.codex.does(ASK, "-c", "model_providers.windlass.supports_websockets=true")
    assert done.answers == ["The file says hello."]
    assert done.commands == [("hello\n", 0)]
    assert here.results[0] == "sunny in Paris"
    assert len(here.asked) == 3
    assert len(opened) == 1
    # Each frame counts as a request; the first one, without a prompt, only warms up.
    assert here.requests() == {"POST /v1/responses 200": 3}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("gpt-5.5", call("apply_patch", input=PATCH)),
        (
            "gpt-6-sol",
            call("functions__exec", input=f"text(await tools.apply_patch({json.dumps(PATCH)}))"),
        ),
    ],
    ids=["a custom tool", "a custom tool in a namespace, added by the input"],
)
def test_codex_edits_with_the_tools_of_the_models_that_it_knows(
    codex_with: SetUp, name: str, edit: Any
) -> None:
    """Codex gives models of these names tools that take free text."""
    script = [call("get_weather", city="Paris"), edit, "Edited."]
    here = codex_with(ScriptedModel(script), name)
    done = here.codex.does(ASK)
    assert here.file.read_text() == "goodbye\n"
    assert done.answers == ["Edited."]
    assert done.changes == [("greeting.txt", "update")]
    assert here.results[0] == "sunny in Paris"
    assert here.requests() == {"POST /v1/responses 200": 2}


def test_a_model_that_only_writes_text_edits_a_file(codex_with: SetUp) -> None:
    """The emulated mode: calls and results are text, in both directions."""
    script = [
        _in_words("get_weather", city="Paris"),
        _in_words("exec_command", cmd="cat greeting.txt"),
        _in_words("exec_command", cmd=f"apply_patch <<'EOF'\n{PATCH}EOF"),
        "Edited.",
    ]
    here = codex_with(ScriptedModel(script), mode="emulated")
    done = here.codex.does(ASK)
    assert here.file.read_text() == "goodbye\n"
    assert done.answers == ["Edited."]
    assert done.commands == [("hello\n", 0)]
    assert done.changes == [("greeting.txt", "update")]
    assert [request.tools for request in here.asked] == [()] * 4
    read = "".join(message.text for message in here.asked[-1].messages)
    assert "sunny in Paris" in read
    assert "M greeting.txt" in read
    assert here.requests() == {"POST /v1/responses 200": 3}


def _in_words(name: str, **arguments: str) -> str:
    made = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{made}\n</tool_call>"
