"""Spans contain content only if it is configured."""

import json

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from tests.gateway.observe.traced import SECRET, Traces, attributes

from windlass import Message
from windlass.content import FunctionResponse, Part
from windlass.events import Outcome, RunEnded, RunStarted, ToolRunEnded
from windlass.testing import call, calls, refuse, say, think

SAID = [
    calls(call("scold", word=SECRET), call(SECRET), text=SECRET),
    calls(call(SECRET), call("double", number=SECRET)),
    think(SECRET, then=say(SECRET)),
]


@pytest.mark.parametrize("outcome", ["unknown_tool", "not_run"])
def test_the_name_of_a_tool_that_may_not_exist_is_content(outcome: Outcome) -> None:
    silent, open_ = Traces(), Traces(content=True)
    for traces in (silent, open_):
        response = FunctionResponse("made_up", {"error": "no"}, "a")
        traces.show(RunStarted("r", "m", ()), ToolRunEnded(response, outcome), RunEnded("answer"))
    assert "made_up" not in "".join(span.to_json() for span in silent.spans)
    assert attributes(open_.named("execute_tool made_up"))["gen_ai.tool.name"] == "made_up"


async def test_spans_contain_no_content() -> None:
    traces = Traces()
    spoken = await traces.observe([*SAID], system=SECRET)
    failed = await traces.observe([refuse(500, SECRET)])
    assert SECRET in repr(spoken)
    assert SECRET in repr(failed)
    assert SECRET not in "".join(span.to_json() for span in traces.spans)


async def test_with_content_the_spans_contain_messages() -> None:
    traces = Traces(content=True)
    turn = think("hm", then=call("double", id="a", number=4))
    await traces.observe([turn, say("It is 8.")], system="Be brief.")
    root, ran = traces.named("invoke_agent"), traces.named("execute_tool double")
    assert json.loads(attributes(root)["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "go"}]},
    ]
    assert json.loads(attributes(ran)["gen_ai.tool.call.arguments"]) == {"number": 4}
    assert attributes(ran)["gen_ai.tool.call.result"] == "8"
    first, last = (json.loads(attributes(span)["gen_ai.output.messages"]) for span in traces.rounds)
    wanted = {"type": "tool_call", "id": "a", "name": "double", "arguments": {"number": 4}}
    thought = {"type": "reasoning", "content": "hm"}
    assert first == [
        {"role": "assistant", "parts": [thought, wanted], "finish_reason": "tool_calls"}
    ]
    assert last[0]["parts"] == [{"type": "text", "content": "It is 8."}]


def test_with_content_the_bytes_of_media_are_left_out() -> None:
    traces = Traces(content=True)
    parts = (
        Part.from_bytes(SECRET.encode(), "image/png"),
        Part.from_uri("https://example.com/a.png", "image/png"),
    )
    history = (
        Message.user(*parts),
        Message.tool([FunctionResponse("double", {"output": 8}, "a")]),
    )
    traces.show(RunStarted("r", "m", history), RunEnded("answer"))
    user, answer = json.loads(attributes(traces.named("invoke_agent"))["gen_ai.input.messages"])
    assert user["parts"] == [
        {"type": "blob", "mime_type": "image/png", "size": len(SECRET)},
        {"type": "uri", "mime_type": "image/png", "uri": "https://example.com/a.png"},
    ]
    assert answer["parts"] == [{"type": "tool_call_response", "id": "a", "response": {"output": 8}}]


async def test_every_attribute_is_one_of_the_conventions_or_ours() -> None:
    known = {
        value
        for name, value in vars(gen_ai_attributes).items()
        if name.startswith("GEN_AI_") and isinstance(value, str)
    }
    traces = Traces(content=True)
    await traces.observe([*SAID], run={"key": "web"})
    used = {name for span in traces.spans for name in attributes(span)}
    assert len(used) > 15
    assert {name for name in used if not name.startswith("windlass.")} <= known | {"error.type"}
