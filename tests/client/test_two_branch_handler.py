"""A handler of two branches, `status` and `content`, works for every kind of run."""

from collections.abc import Sequence
from typing import Any, get_args

import httpx2
import msgspec
import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import asking, client_of, sent_events

from windlass import (
    AsyncClient,
    Client,
    InlineData,
    Opaque,
    Text,
    Thought,
    ToolContext,
    WindlassError,
    tool,
)
from windlass.events import (
    Event,
    EventType,
    RunEvent,
    ToolRunProgress,
    event_from_json,
    event_to_dict,
)
from windlass.gateway.config import ModelConfig
from windlass.testing import ScriptedModel, Turn, call, calls, cut, refuse, say

IMAGE = InlineData(b"\x89PNG", "image/png")
LIMIT = "Maximum tool execution rounds reached. Generating final response..."


@tool
def look(context: ToolContext) -> str:
    """Looks around."""
    context.progress(0.5)
    context.progress(message="half way")
    context.progress(data={"seen": 1})
    return "a house"


@tool
def fail() -> str:
    """Fails."""
    raise RuntimeError("broken")


SCRIPTS: dict[str, tuple[Sequence[Any], list[str]]] = {
    "thoughts": ([Turn(text="Hi.", thoughts="The person is here.")], ["Hi."]),
    "images": (
        [Turn(parts=(Text("Look: "), IMAGE, Text("nice.")))],
        ["Look: nice."],
    ),
    "a part of another kind": (
        [Turn(parts=(Opaque("gemini", {"executableCode": {"code": "1"}}), Text("Ran.")))],
        ["Ran."],
    ),
    "progress": ([call("look"), "A house."], ["Status: Executing look...", "A house."]),
    "a failing tool": ([call("fail"), "Sorry."], ["Status: Executing fail...", "Sorry."]),
    "an unknown tool": ([call("none"), "Sorry."], ["Status: Executing none...", "Sorry."]),
    "thoughts between tools": (
        [calls(call("look"), text="Wait. "), Turn(parts=(Thought("Hm."), Text("A house.")))],
        ["Wait. ", "Status: Executing look...", "A house."],
    ),
    "the limit": (
        [call("look"), call("look"), "Enough."],
        ["Status: Executing look...", "Status: Executing look...", f"Status: {LIMIT}", "Enough."],
    ),
    "an answer that is left empty": (
        [call("look"), call("look"), ""],
        [
            "Status: Executing look...",
            "Status: Executing look...",
            f"Status: {LIMIT}",
            "The tools were switched off before the model had an answer, and it gave none.",
        ],
    ),
    "a refusal of the service": ([refuse(400, "no such model")], []),
    "a cut stream": ([cut(say("Half an answer"), after=1)], ["Half "]),
}


class Printed:
    """The output of the handler, with consecutive texts joined."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._in_text = False

    def on_data(self, chunk: Any) -> None:
        if chunk.type == "status":
            self.lines.append(f"Status: {chunk.message}")
            self._in_text = False
        elif chunk.type == "content":
            if self._in_text:
                self.lines[-1] += chunk.text
            else:
                self.lines.append(chunk.text)
            self._in_text = True


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_handler_prints_the_answer_and_the_statuses(name: str) -> None:
    script, expected = SCRIPTS[name]
    printed = Printed()
    with Client(ScriptedModel(script), max_rounds=2) as client:
        try:
            with client.stream("?", tools=[look, fail]) as stream:
                for chunk in stream:
                    printed.on_data(chunk)
        except WindlassError:
            assert name in ("a refusal of the service", "a cut stream")
    assert printed.lines == expected


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_handler_is_the_same_for_async_code(name: str) -> None:
    script, expected = SCRIPTS[name]
    printed = Printed()
    async with AsyncClient(ScriptedModel(script), max_rounds=2) as client:
        run = await client.start("?", tools=[look, fail])
        async for chunk in client.subscribe(run.id):
            printed.on_data(chunk)
    assert printed.lines == expected


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_handler_is_the_same_over_http(name: str) -> None:
    script, expected = SCRIPTS[name]
    config = config_of(
        ModelConfig(name="m", target="scripted/model", tools=("look", "fail"), max_rounds=2)
    )
    printed = Printed()
    with (
        Serving(config, models={"m": ScriptedModel(script)}, tools=[look, fail]) as serving,
        client_of(serving, "") as client,
    ):
        run_id = client.post("/v1/runs", json=asking("?")).json()["id"]
        with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
            assert isinstance(response, httpx2.Response)
            for sent in sent_events(response):
                printed.on_data(Fields(sent.data))
    assert printed.lines == expected


class Fields:
    """A JSON object whose fields are attributes; a missing one is an error."""

    def __init__(self, fields: dict[str, Any]) -> None:
        vars(self).update(fields)


KINDS: tuple[type[Event], ...] = get_args(RunEvent)


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_of_the_type_content_has_text_and_of_status_a_message(
    kind: type[Event],
) -> None:
    hints = kind.__annotations__
    if kind.type == "content":
        assert hints["text"] is str
    if kind.type == "status":
        assert hints["message"] is str


def test_the_types_are_those_of_the_documentation() -> None:
    assert get_args(EventType) == (
        "content",
        "thought",
        "status",
        "progress",
        "tool_call",
        "tool_result",
        "control",
    )
    by_name = {kind.__name__: kind.type for kind in KINDS}
    assert [name for name, word in by_name.items() if word == "content"] == ["TextDelta"]
    assert [name for name, word in by_name.items() if word == "thought"] == ["ThoughtDelta"]
    assert [name for name, word in by_name.items() if word == "status"] == ["Status"]
    assert [name for name, word in by_name.items() if word == "progress"] == ["ToolRunProgress"]
    assert by_name["PartReceived"] == "control"


@pytest.mark.parametrize("word", ["status", "content", "anything"])
def test_an_event_with_the_type_of_an_older_version_is_read(word: str) -> None:
    fields = {"event": "tool_run_progress", "call_id": "a", "name": "f", "type": word, "seq": 3}
    event = event_from_json(msgspec.json.encode(fields))
    assert isinstance(event, ToolRunProgress)
    assert event_to_dict(event)["type"] == "progress"
