"""Tools over the OpenAI wire, row by row: requests, answers and modes."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.wire_helpers import (
    WIRES,
    Body,
    Stage,
    Upstream,
    asked,
    blocking,
    declared_names,
    function,
    reassembled,
    streamed,
    tool_message,
    user,
)

from windlass.gateway.config import ServerConfig
from windlass.testing import call, calls, raw_call, refuse, tool_results

WEATHER = function("get_weather", city={"type": "string"})
CLOCK = function("get_time", city={"type": "string"})
NAMED = {"type": "function", "function": {"name": "get_weather"}}
QUIET = ServerConfig(access_log=False)

IN_WORDS = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
UNSUPPORTED = refuse(400, "This model does not support tools.")
TWO_CALLS = calls(call("get_weather", city="Paris"), call("get_time", city="Rome"))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(server=QUIET) as stage:
        yield stage


@pytest.fixture(params=WIRES)
def upstream(stage: Stage, request: pytest.FixtureRequest) -> Upstream:
    chosen = stage.upstreams[request.param]
    chosen.plays()
    return chosen


async def answered(stage: Stage, model: str, *, streams: bool, **fields: Any) -> Body:
    """The message of an answer, streamed or not, in one form."""
    if streams:
        return reassembled(await streamed(stage, model, **fields))
    [choice] = (await blocking(stage, model, **fields))["choices"]
    message = choice["message"]
    made = [{"id": one["id"], **one["function"]} for one in message.get("tool_calls") or []]
    return {**message, "tool_calls": made, "finish_reason": choice["finish_reason"]}


either_way = pytest.mark.parametrize("streams", [False, True], ids=["blocking", "streamed"])


# The request, field by field.


async def test_tools_are_declared_to_the_model(stage: Stage, upstream: Upstream):
    upstream.plays("Fine.")
    await blocking(stage, upstream.model, tools=[WEATHER, CLOCK])
    [body] = upstream.bodies
    assert declared_names(body) == ["get_weather", "get_time"]
    said = json.dumps(body["tools"])
    assert WEATHER["function"]["description"] in said
    assert json.dumps(WEATHER["function"]["parameters"]) in said


async def test_fields_that_gemini_does_not_know_are_left_out(stage: Stage):
    upstream = stage.upstreams["gemini"]
    upstream.plays("Fine.")
    strict = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    await blocking(stage, upstream.model, tools=[strict])
    [declared] = upstream.bodies[0]["tools"][0]["functionDeclarations"]
    assert declared.keys() == {"name", "description", "parametersJsonSchema"}


def choice_sent(body: Body) -> Any:
    """The `tool_choice` that a service received, in its own terms; None if it received none."""
    if "toolConfig" in body:
        return body["toolConfig"]["functionCallingConfig"]
    return body.get("tool_choice")


SENT: dict[str, dict[str, Any]] = {
    "auto": {"openai": None, "gemini": None},
    "required": {"openai": "required", "gemini": {"mode": "ANY"}},
    "named": {
        "openai": NAMED,
        "gemini": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]},
    },
}


@pytest.mark.parametrize("choice", SENT)
async def test_tool_choice_has_the_form_of_each_service(
    stage: Stage, upstream: Upstream, choice: str
):
    upstream.plays(call("get_weather", city="Paris"))
    asked_for: Any = NAMED if choice == "named" else choice
    await blocking(stage, upstream.model, tools=[WEATHER, CLOCK], tool_choice=asked_for)
    assert choice_sent(upstream.bodies[0]) == SENT[choice][upstream.wire]


@either_way
async def test_tool_choice_auto_lets_the_model_decide(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays("I know it.", call("get_weather", city="Paris"))
    asked_for: Any = {"tools": [WEATHER], "tool_choice": "auto", "streams": streams}
    spoken = await answered(stage, upstream.model, **asked_for)
    assert (spoken["content"], spoken["tool_calls"]) == ("I know it.", [])
    called = await answered(stage, upstream.model, **asked_for)
    assert [made["name"] for made in called["tool_calls"]] == ["get_weather"]


@either_way
async def test_tool_choice_none_declares_nothing_and_hands_no_call_back(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(call("get_weather", city="Paris"), "Then without.")
    message = await answered(
        stage, upstream.model, streams=streams, tools=[WEATHER], tool_choice="none"
    )
    assert (message["content"], message["tool_calls"]) == ("Then without.", [])
    assert message["finish_reason"] == "stop"
    assert [declared_names(body) for body in upstream.bodies] == [[], []]


@either_way
async def test_tool_choice_required_gets_a_call_from_a_model_that_answers_with_text(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays("I would rather talk.", IN_WORDS)
    message = await answered(
        stage, upstream.model, streams=streams, tools=[WEATHER], tool_choice="required"
    )
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]
    assert "rather" not in (message["content"] or "")


@either_way
async def test_a_named_tool_choice_gets_its_call_from_a_model_that_answers_with_text(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays("I would rather talk.", IN_WORDS)
    message = await answered(
        stage, upstream.model, streams=streams, tools=[CLOCK, WEATHER], tool_choice=NAMED
    )
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]


@either_way
async def test_a_named_tool_choice_hands_back_no_call_of_another_tool(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(call("get_time", city="Rome"), IN_WORDS)
    message = await answered(
        stage, upstream.model, streams=streams, tools=[CLOCK, WEATHER], tool_choice=NAMED
    )
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]


@pytest.mark.parametrize(
    "choice",
    ["sometimes", 7, {"type": "function"}, {"type": "function", "function": {"name": "nobody"}}],
    ids=["a word", "a number", "no name", "a tool that is not there"],
)
async def test_an_invalid_tool_choice_is_a_bad_request(
    stage: Stage, upstream: Upstream, choice: Any
):
    async with asked(stage, upstream.model, tools=[WEATHER], tool_choice=choice) as answer:
        assert answer.status == 400
        assert (await answer.response.json())["error"]["param"] == "tool_choice"
    assert upstream.bodies == []


@either_way
async def test_parallel_tool_calls_false_gives_one_call_even_when_two_come(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(TWO_CALLS)
    message = await answered(
        stage, upstream.model, streams=streams, tools=[WEATHER, CLOCK], parallel_tool_calls=False
    )
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]
    assert message["finish_reason"] == "tool_calls"


async def test_parallel_tool_calls_is_sent_to_openai(stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays("Fine.")
    await blocking(stage, upstream.model, tools=[WEATHER], parallel_tool_calls=False)
    assert upstream.bodies[0]["parallel_tool_calls"] is False


# The answer, field by field.


async def test_a_call_has_an_id_a_type_a_name_and_its_arguments_as_text(
    stage: Stage, upstream: Upstream
):
    upstream.plays(call("get_weather", city="Paris"))
    completion = await blocking(stage, upstream.model, tools=[WEATHER])
    [made] = completion["choices"][0]["message"]["tool_calls"]
    assert made["id"].startswith("call_")
    assert len(made["id"]) == len("call_") + 24
    assert made["type"] == "function"
    assert made["function"]["name"] == "get_weather"
    assert isinstance(made["function"]["arguments"], str)
    assert json.loads(made["function"]["arguments"]) == {"city": "Paris"}


async def test_ids_that_a_service_counts_from_zero_are_made_unique(stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays(*[raw_call("get_weather", "{}", id="call_0")] * 2)
    ids = ["call_0"]
    for _ in range(2):
        message = await answered(stage, upstream.model, streams=False, tools=[WEATHER])
        ids += [made["id"] for made in message["tool_calls"]]
    assert len(set(ids)) == 3


@either_way
async def test_the_finish_reason_is_tool_calls_when_a_function_is_called(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(call("get_weather", city="Paris"))
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER])
    assert message["finish_reason"] == "tool_calls"


@either_way
async def test_the_finish_reason_is_stop_when_the_model_is_done(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays("Done.")
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER])
    assert message["finish_reason"] == "stop"


# Special tools.


@pytest.mark.parametrize("name", ["googleSearch", "google_search_retrieval"])
async def test_google_search_is_routed_to_geminis_own(stage: Stage, name: str):
    upstream = stage.upstreams["gemini"]
    upstream.plays("Found.")
    await blocking(stage, upstream.model, tools=[function(name)])
    assert upstream.bodies[0]["tools"] == [{"googleSearch": {}}]


async def test_other_functions_are_declared_beside_google_search(stage: Stage):
    upstream = stage.upstreams["gemini"]
    upstream.plays(call("get_weather", city="Paris"))
    message = await answered(
        stage, upstream.model, streams=False, tools=[function("googleSearch"), WEATHER]
    )
    [body] = upstream.bodies
    assert {"googleSearch": {}} in body["tools"]
    assert declared_names(body) == ["get_weather"]
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]


async def test_google_search_is_not_sent_to_other_services(stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays("I know it.")
    message = await answered(
        stage, upstream.model, streams=False, tools=[function("googleSearch"), WEATHER]
    )
    assert message["content"] == "I know it."
    assert declared_names(upstream.bodies[0]) == ["get_weather"]


# The scenarios.


@either_way
async def test_the_model_calls_the_only_function(stage: Stage, upstream: Upstream, streams: bool):
    upstream.plays(call("get_weather", city="Paris"))
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER])
    [made] = message["tool_calls"]
    assert (made["name"], json.loads(made["arguments"])) == ("get_weather", {"city": "Paris"})


@either_way
async def test_a_model_may_answer_without_calling_the_function(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays("It rains everywhere.")
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER])
    assert (message["content"], message["tool_calls"]) == ("It rains everywhere.", [])


@either_way
async def test_the_model_chooses_one_of_several_functions(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(call("get_time", city="Rome"))
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER, CLOCK])
    assert [made["name"] for made in message["tool_calls"]] == ["get_time"]


@either_way
async def test_parallel_function_calls(stage: Stage, upstream: Upstream, streams: bool):
    upstream.plays(TWO_CALLS)
    message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER, CLOCK])
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather", "get_time"]
    assert len({made["id"] for made in message["tool_calls"]}) == 2


@either_way
async def test_tool_result_submission_continues_the_conversation(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(TWO_CALLS, "Sunny, and noon.")
    asked_for: Any = {"tools": [WEATHER, CLOCK], "streams": streams}
    weather, clock = (await answered(stage, upstream.model, **asked_for))["tool_calls"]
    message = await answered(
        stage,
        upstream.model,
        messages=[
            user("Go."),
            {"role": "assistant", "content": None, "tool_calls": [_sent(weather), _sent(clock)]},
            tool_message(weather["id"], "sunny"),
            tool_message(clock["id"], "noon"),
        ],
        **asked_for,
    )
    assert message["content"] == "Sunny, and noon."
    results = tool_results(upstream.bodies[1])
    assert [(result.name, result.response) for result in results] == [
        ("get_weather", {"output": "sunny"}),
        ("get_time", {"output": "noon"}),
    ]


def _sent(made: Body) -> Body:
    shape = {"name": made["name"], "arguments": made["arguments"]}
    return {"id": made["id"], "type": "function", "function": shape}


INVALID: dict[str, tuple[Any, str]] = {
    "no object": (7, "tools[1]"),
    "no function": ({"type": "function"}, "tools[1].function"),
    "no name": ({"type": "function", "function": {}}, "tools[1].function.name"),
    "a name with a space": (function("two words"), "tools[1].function.name"),
    "a name that is taken": (WEATHER, "tools[1].function.name"),
    "parameters that are no object": (
        {"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}},
        "tools[1].function.parameters.type",
    ),
    "parameters that are no schema": (
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {"type": "object", "properties": {"a": {"type": "wrong"}}},
            },
        },
        "tools[1].function.parameters.properties.a.type",
    ),
}


@pytest.mark.parametrize("wrong", INVALID)
async def test_invalid_tool_definition_is_a_400_that_names_the_field(
    stage: Stage, upstream: Upstream, wrong: str
):
    tool, place = INVALID[wrong]
    async with asked(stage, upstream.model, tools=[WEATHER, tool]) as answer:
        error = (await answer.response.json())["error"]
        assert answer.status == 400
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_tool")
    assert error["param"] == place
    assert place in error["message"]
    assert upstream.bodies == []


@either_way
@pytest.mark.parametrize("wire", WIRES)
async def test_native_failure_in_auto_mode_falls_back_and_logs_a_warning(
    wire: str, streams: bool, caplog: pytest.LogCaptureFixture
):
    with Stage(mode="auto", server=QUIET) as stage:  # failures here are remembered
        upstream = stage.upstreams[wire]
        upstream.plays(UNSUPPORTED, IN_WORDS, IN_WORDS)
        with caplog.at_level(logging.WARNING, "windlass"):
            async with asked(stage, upstream.model, stream=streams, tools=[WEATHER]) as answer:
                assert answer.status == 200
                assert answer.headers["x-function-calling-mode"] == "emulated"
                assert "get_weather" in await answer.response.text()
        message = await answered(stage, upstream.model, streams=streams, tools=[WEATHER])
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather"]
    [warning] = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    assert warning.startswith("Native mode failed: This model does not support tools.")
    assert [len(declared_names(body)) for body in upstream.bodies] == [1, 0, 0]


@either_way
async def test_native_failure_in_native_mode_is_a_500(
    stage: Stage, upstream: Upstream, streams: bool
):
    upstream.plays(UNSUPPORTED)
    async with asked(
        stage,
        upstream.model,
        headers={"X-Function-Calling-Mode": "native"},
        stream=streams,
        tools=[WEATHER],
    ) as answer:
        assert answer.status == 500
        error = (await answer.response.json())["error"]
    assert error == {
        "message": "Native function calling failed: This model does not support tools.",
        "type": "function_calling_error",
        "param": None,
        "code": "native_mode_unavailable",
    }
    assert len(upstream.bodies) == 1


async def test_a_required_call_that_does_not_come_is_an_error_in_native_mode(
    stage: Stage, upstream: Upstream
):
    upstream.plays("I would rather talk.")
    async with asked(
        stage,
        upstream.model,
        headers={"X-Function-Calling-Mode": "native"},
        tools=[WEATHER],
        tool_choice="required",
    ) as answer:
        assert answer.status == 500
        error = (await answer.response.json())["error"]
    assert (error["type"], error["code"]) == ("function_calling_error", "native_mode_unavailable")
    assert "called no tool" in error["message"]


async def test_streaming_with_a_function_call_emits_proper_deltas(stage: Stage, upstream: Upstream):
    upstream.plays(call("get_weather", city="Paris"))
    chunks = await streamed(stage, upstream.model, tools=[WEATHER])
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    first, opened, *fragments, last = choices
    assert first["delta"]["role"] == "assistant"
    [piece] = opened["delta"]["tool_calls"]
    assert piece.keys() == {"index", "id", "type", "function"}
    assert piece["function"] == {"name": "get_weather", "arguments": ""}
    for choice in fragments:
        [fragment] = choice["delta"]["tool_calls"]
        assert fragment.keys() == {"index", "function"}
        assert fragment["function"].keys() == {"arguments"}
    assert (last["delta"], last["finish_reason"]) == ({}, "tool_calls")


# The mode.


@pytest.mark.parametrize("mode", ["native", "emulated", "EMULATED"])
async def test_the_mode_header_chooses_and_the_answer_says_the_mode(
    stage: Stage, upstream: Upstream, mode: str
):
    emulated = mode.lower() == "emulated"
    upstream.plays(IN_WORDS if emulated else call("get_weather", city="Paris"))
    headers = {"X-Function-Calling-Mode": mode}
    async with asked(stage, upstream.model, headers=headers, tools=[WEATHER]) as answer:
        completion = await answer.response.json()
        assert answer.headers["x-function-calling-mode"] == mode.lower()
    [made] = completion["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == "get_weather"
    assert declared_names(upstream.bodies[0]) == ([] if emulated else ["get_weather"])


async def test_a_mode_that_is_unknown_is_a_bad_request(stage: Stage, upstream: Upstream):
    headers = {"X-Function-Calling-Mode": "psychic"}
    async with asked(stage, upstream.model, headers=headers, tools=[WEATHER]) as answer:
        assert answer.status == 400
        error = (await answer.response.json())["error"]
    assert error["param"] == "X-Function-Calling-Mode"
    assert "'auto', 'native' or 'emulated'" in error["message"]


async def test_the_environment_sets_the_mode_and_the_header_overrides_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("FUNCTION_CALLING_MODE", "emulated")
    with Stage(server=QUIET) as stage:
        for upstream in stage.upstreams.values():
            upstream.plays(IN_WORDS, call("get_weather", city="Paris"))
            async with asked(stage, upstream.model, tools=[WEATHER]) as answer:
                assert answer.headers["x-function-calling-mode"] == "emulated"
            native = {"X-Function-Calling-Mode": "native"}
            async with asked(stage, upstream.model, headers=native, tools=[WEATHER]) as answer:
                assert answer.headers["x-function-calling-mode"] == "native"
            assert [len(declared_names(body)) for body in upstream.bodies] == [0, 1]


async def test_a_fallback_that_the_environment_forbids_is_a_500(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FUNCTION_CALLING_MODE", "auto")
    monkeypatch.setenv("FC_FALLBACK_ON_FAILURE", "false")
    with Stage(server=QUIET) as stage:
        for upstream in stage.upstreams.values():
            upstream.plays(UNSUPPORTED)
            async with asked(stage, upstream.model, tools=[WEATHER]) as answer:
                assert answer.status == 500
                error = (await answer.response.json())["error"]
            assert error["code"] == "native_mode_unavailable"
