"""`EmulatedModel`: a model that only writes text, with tools."""

import logging
from typing import Any

import pytest
from tests.support.asking import (
    PARIS,
    TOOLS,
    asked,
    calls_of,
    emulated,
    end_of,
    events_of,
    names_of,
    text_of,
    written,
)

from windlass import AsyncClient, Client, GoogleSearch, Message, ModelError, tool
from windlass.content import FunctionCall, FunctionResponse, InlineData, Text, Usage
from windlass.emulation.model import EmulatedModel
from windlass.events import TextDelta, ThoughtDelta, ToolCallEnded, ToolCallStarted
from windlass.model import AUTO, Settings
from windlass.testing import ScriptedModel, call, calls, cut, refuse, say, think

ANSWERED = (
    Message.user("Weather in Paris?"),
    Message.assistant(FunctionCall("get_weather", '{"city":"Paris"}', "call_1")),
    Message.tool([FunctionResponse("get_weather", {"output": "sunny"}, "call_1")]),
)


async def test_a_call_in_the_text_is_a_call() -> None:
    model, inner = emulated([f"Let me look.\n{PARIS}"])
    events = await events_of(model, asked())
    assert [(c.name, c.arguments) for c in calls_of(events)] == [("get_weather", {"city": "Paris"})]
    assert text_of(events).strip() == "Let me look."
    assert end_of(events).finish == "tool_calls"
    assert end_of(events).message_extra == {"windlass": {"mode": "emulated"}}
    assert inner.requests[0].tools == ()
    assert inner.requests[0].tool_choice == AUTO


async def test_text_passes_as_it_arrives() -> None:
    model, _ = emulated([say("One two three.", pieces="words")])
    events = await events_of(model, asked())
    assert [e.text.strip() for e in events if isinstance(e, TextDelta)] == ["One", "two", "three."]
    assert text_of(events) == "One two three."
    assert end_of(events).finish == "stop"


async def test_a_request_without_tools_passes_unchanged() -> None:
    model, inner = emulated(["Hello <tool_call>"])
    request = asked("Hi", tools=())
    events = await events_of(model, request)
    assert text_of(events) == "Hello <tool_call>"
    assert end_of(events).message_extra is None
    assert inner.requests == [request]


async def test_the_whole_loop_runs_over_plain_text() -> None:
    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        return {"city": city, "sky": "clear"}

    inner = ScriptedModel([f"I look.\n{PARIS}", "It is clear."])
    async with AsyncClient(inner, mode="emulated") as client:
        reply = await client.generate("Weather in Paris?", tools=[get_weather], system="Be brief.")
    assert (reply.text, reply.mode) == ("It is clear.", "emulated")
    assert reply.results[0].output == {"city": "Paris", "sky": "clear"}
    system, user, assistant, result = inner.requests[1].messages
    assert [m.role for m in (system, user, assistant, result)] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert system.text.startswith("Be brief.\n\n# Tools")
    assert assistant.text.strip() == f"I look.\n{PARIS}"
    assert '{"tool":"get_weather","output":{"city":"Paris","sky":"clear"}}' in result.text


async def test_the_prompt_is_the_same_bytes_in_every_round() -> None:
    model, inner = emulated([PARIS, "done"])
    await events_of(model, asked())
    await events_of(model, asked(ANSWERED))
    first, second = (request.messages for request in inner.requests)
    assert second[: len(first)] == first


async def test_a_message_is_rendered_once() -> None:
    model, inner = emulated(["a", "b"])
    request = asked(ANSWERED)
    await events_of(model, request)
    await events_of(model, request)
    first, second = (request.messages for request in inner.requests)
    assert all(one is other for one, other in zip(first[1:], second[1:], strict=True))


async def test_undeclared_names_stay_text() -> None:
    text = written("rm_rf", '{"path": "/"}')
    model, _ = emulated([text])
    events = await events_of(model, asked())
    assert (names_of(events), text_of(events)) == ([], text)


async def test_thoughts_pass_and_are_not_repeated() -> None:
    model, inner = emulated([think("hm", f"{PARIS}"), "done"])
    events = await events_of(model, asked())
    assert [e.text for e in events if isinstance(e, ThoughtDelta)] == ["hm"]
    history = (
        Message.user("?"),
        Message.assistant(Text("So."), *calls_of(events)),
        Message.tool([FunctionResponse("get_weather", {"output": 1}, calls_of(events)[0].id)]),
    )
    thought = Message.assistant(think("secret", "x").content[0], Text("I see."))
    await events_of(model, asked((*history, thought, Message.user("And?"))))
    assert "secret" not in str([m.to_dict() for m in inner.requests[1].messages])


async def test_reasoning_written_into_the_text_becomes_thoughts() -> None:
    model, _ = emulated([f"<think>maybe</think>{PARIS}"])
    events = await events_of(model, asked())
    assert "".join(e.text for e in events if isinstance(e, ThoughtDelta)) == "maybe"
    assert names_of(events) == ["get_weather"]


async def test_calls_that_the_server_parsed_pass_and_are_numbered() -> None:
    turn = calls(call("get_time", id="native_1"), text=PARIS)
    model, _ = emulated([turn])
    events = await events_of(model, asked())
    ended = [(e.index, e.call.name) for e in events if isinstance(e, ToolCallEnded)]
    assert sorted(ended) == [(0, "get_weather"), (1, "get_time")]
    assert calls_of(events)[-1].id == "native_1"


async def test_a_truncated_call_is_marked_by_its_finish() -> None:
    model, _ = emulated(
        [say('<tool_call>\n{"name": "get_weather", "arguments": {"ci', finish="length")]
    )
    events = await events_of(model, asked())
    assert end_of(events).finish == "length"
    assert not any(c.error is None for c in calls_of(events))


@pytest.mark.parametrize(
    "invented",
    [
        '<tool_response>\n{"output": "snow"}\n</tool_response>\nIt snows.',
        "<tool_result>snow</tool_result>",
        "Observation: snow\nIt snows.",
    ],
)
@pytest.mark.parametrize("pieces", ["whole", 1])
async def test_a_result_that_the_model_invents_ends_its_turn(invented: str, pieces: Any) -> None:
    model, _ = emulated([say(f"{PARIS}\n{invented}\n{written('get_time')}", pieces=pieces)])
    events = await events_of(model, asked())
    assert names_of(events) == ["get_weather"]
    assert text_of(events).strip() == ""
    assert end_of(events).finish == "tool_calls"


async def test_text_after_a_call_that_only_looks_like_a_result_stays() -> None:
    model, _ = emulated([say(f"{PARIS}\nI wait for <tool_, Observation: none.", pieces=1)])
    assert "I wait for <tool_, Observation: none." in text_of(await events_of(model, asked()))


async def test_the_server_is_asked_to_stop_at_a_result() -> None:
    model, inner = emulated(["a", "b", "c"])
    await events_of(model, asked(settings=Settings(stop=("END",))))
    await events_of(model, asked(settings=Settings(stop=("1", "2", "3", "4"))))
    await events_of(model, asked(ANSWERED, choice="none"))
    stops = [request.settings.stop for request in inner.requests]
    assert stops == [("END", "<tool_response"), ("1", "2", "3", "4"), None]


async def test_a_server_without_stop_sequences_does_not_get_any() -> None:
    refusal = "Unsupported parameter: 'stop' is not supported with this model."
    model, inner = emulated([refuse(400, refusal), PARIS, PARIS])
    for _ in range(2):
        assert names_of(await events_of(model, asked())) == ["get_weather"]
    assert [request.settings.stop for request in inner.requests] == [
        ("<tool_response",),
        None,
        None,
    ]


async def test_other_refusals_are_raised() -> None:
    model, inner = emulated([refuse(400, "nonsense")])
    with pytest.raises(ModelError, match="nonsense"):
        await events_of(model, asked())
    assert len(inner.requests) == 1


async def test_an_interrupted_stream_is_not_retried() -> None:
    model, inner = emulated([cut("Some words here", after=2)])
    with pytest.raises(ModelError):
        await events_of(model, asked())
    assert len(inner.requests) == 1


async def test_only_one_call_where_parallel_calls_are_off() -> None:
    model, inner = emulated([f"{PARIS}\n{written('get_time')}"])
    events = await events_of(model, asked(parallel_tool_calls=False))
    assert names_of(events) == ["get_weather"]
    assert "at most one function at a time" in inner.requests[0].messages[0].text
    assert inner.requests[0].parallel_tool_calls is None


async def test_several_calls_where_they_are_on() -> None:
    model, _ = emulated([f"{PARIS}\n{written('get_time')}"])
    events = await events_of(model, asked())
    assert names_of(events) == ["get_weather", "get_time"]
    assert [e.index for e in events if isinstance(e, ToolCallStarted)] == [0, 1]


async def test_images_of_the_user_stay_where_they_are() -> None:
    picture = InlineData(b"png", "image/png")
    model, inner = emulated(["A cat."])
    await events_of(model, asked((Message.user("What is this?", picture),)))
    assert picture in inner.requests[0].messages[1].parts


async def test_media_of_a_result_follow_it() -> None:
    picture = InlineData(b"png", "image/png")
    response = FunctionResponse("get_weather", {"output": "see"}, "call_1", (picture,))
    model, inner = emulated(["A map."])
    await events_of(model, asked((*ANSWERED[:2], Message.tool([response]))))
    assert inner.requests[0].messages[-1].parts[-1] is picture


async def test_a_providers_own_search_stays_in_the_request() -> None:
    model, inner = emulated(["Found."])
    await events_of(model, asked(tools=(*TOOLS, GoogleSearch())))
    assert inner.requests[0].tools == (GoogleSearch(),)


async def test_usage_is_the_servers() -> None:
    model, _ = emulated([say(PARIS, usage=Usage(7, 3, 10))])
    assert end_of(await events_of(model, asked())).usage == Usage(7, 3, 10)


async def test_a_turn_in_one_body_reads_the_same() -> None:
    model, inner = emulated([f"Look.\n{PARIS}\n<tool_response>x"])
    events = await events_of(model, asked(live=False))
    assert names_of(events) == ["get_weather"]
    assert end_of(events).usage.total_tokens == 15
    assert inner.requests[0].live is False


async def test_content_reaches_the_log_only_where_debug_logs_are_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await events_of(EmulatedModel(ScriptedModel(["private words"])), asked("private question"))
    assert "private" not in caplog.text
    await events_of(
        EmulatedModel(ScriptedModel(["private words"]), debug=True), asked("private question")
    )
    assert "private question" in caplog.text
    assert "words" in caplog.text
    assert all(r.levelno <= logging.INFO for r in caplog.records if "private" in r.getMessage())


def test_a_client_accepts_the_emulated_mode() -> None:
    inner = ScriptedModel(["Hi."])
    assert repr(EmulatedModel(inner)).startswith("EmulatedModel(")
    with Client(inner, mode="emulated") as client:
        assert client.generate("Hi").text == "Hi."
