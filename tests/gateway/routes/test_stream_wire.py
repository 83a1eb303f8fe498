"""Streams on the wire: the rules of OpenAI that clients rely on."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from tests.support.thoroughness import examples
from tests.support.wire_helpers import (
    WIRES,
    Body,
    Stage,
    Upstream,
    asked,
    blocking,
    function,
    reassembled,
    streamed,
    tool_message,
    user,
)

from windlass import tool
from windlass.content import Usage
from windlass.gateway.config import ServerConfig
from windlass.testing import Gate, Turn, call, calls, cut, interrupt, raw_call, refuse, say, slow
from windlass.testing.script import DEFAULT_USAGE
from windlass.wires.chat.write_events import joined_texts

WEATHER = function("get_weather", city={"type": "string"})
CLOCK = function("get_time", city={"type": "string"})
HEARTBEAT = ServerConfig(heartbeat=0.05, access_log=False)
CHUNK_FIELDS = {"id", "object", "created", "model", "choices"}
SERVICE_FIELDS = {"openai": {"service_tier", "system_fingerprint"}, "gemini": set[str]()}
SECRET_RESULT = "the-gateways-own-result"


class Door:
    """The gate at which the tool `hold` waits; each test has a new one."""

    gate = Gate()


@tool
async def hold(word: str) -> str:
    """Waits until the test lets it go."""
    await Door.gate.passed()
    return f"{SECRET_RESULT}: {word}"


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{SECRET_RESULT}: {word}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(tools=[hold, look_up], server=HEARTBEAT) as stage:
        yield stage


@pytest.fixture(scope="module")
def calm_stage() -> Iterator[Stage]:
    """Its heartbeats are so rare that none is sent, even on a busy machine."""
    with Stage(server=ServerConfig(heartbeat=600.0, access_log=False)) as stage:
        yield stage


@pytest.fixture(params=WIRES)
def upstream(stage: Stage, request: pytest.FixtureRequest) -> Upstream:
    chosen = stage.upstreams[request.param]
    chosen.plays()
    return chosen


@pytest.fixture
def gate() -> Iterator[Gate]:
    Door.gate = Gate()
    yield Door.gate
    Door.gate.open()


@pytest.fixture
async def patience() -> AsyncIterator[None]:
    """A test that waits for too long fails."""
    async with asyncio.timeout(20):
        yield


# One lifecycle.


async def test_a_run_of_several_rounds_is_one_answer_to_its_reader(
    stage: Stage, upstream: Upstream
):
    upstream.plays(
        calls(call("look_up", word="a"), text="Looking. "),
        calls(call("look_up", word="b"), text="Again. "),
        "Found.",
    )
    chunks = await streamed(stage, upstream.model_with_tools)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert not any("role" in choice["delta"] for choice in _choices(chunks[1:]))
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert {choice["index"] for choice in _choices(chunks)} == {0}
    reasons = [choice["finish_reason"] for choice in _choices(chunks)]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert reassembled(chunks)["content"] == "Looking. Again. Found."


@pytest.mark.parametrize(("finish", "reason"), [("length", "length"), ("content_filter",) * 2])
async def test_the_finish_reason_is_the_models(
    stage: Stage, upstream: Upstream, finish: str, reason: str
):
    upstream.plays(say("Half of", finish=finish), say("Half of", finish=finish))
    assert reassembled(await streamed(stage, upstream.model))["finish_reason"] == reason
    completion = await blocking(stage, upstream.model)
    assert completion["choices"][0]["finish_reason"] == reason


async def test_the_usage_of_the_whole_run_comes_last(stage: Stage, upstream: Upstream):
    upstream.plays(call("look_up", word="a"), say("Found.", usage=Usage(20, 7, 27)))
    chunks = await streamed(
        stage, upstream.model_with_tools, stream_options={"include_usage": True}
    )
    *before, last = chunks
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 30
    assert last["usage"]["completion_tokens"] == 12
    assert last["usage"]["total_tokens"] == 42
    assert [chunk["usage"] for chunk in before] == [None] * len(before)


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
@pytest.mark.parametrize("wire", WIRES)
async def test_usage_is_sent_only_on_request(calm_stage: Stage, wire: str, options: Body):
    # Without heartbeats: one before the first token has no fields of the service.
    upstream = calm_stage.upstreams[wire]
    upstream.plays("Hello.")
    chunks = await streamed(calm_stage, upstream.model, **options)
    fields = CHUNK_FIELDS | SERVICE_FIELDS[upstream.wire]
    assert all(chunk.keys() == fields for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)


async def test_a_stream_has_the_content_type_of_a_stream(stage: Stage, upstream: Upstream):
    upstream.plays("Hello.")
    async with asked(stage, upstream.model, stream=True) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-windlass-run-id"].startswith("run_")
        text = await answer.response.text()
    assert text.endswith("data: [DONE]\n\n")
    assert text.count("[DONE]") == 1


# The client's calls.


async def test_every_piece_of_a_call_has_its_index_and_the_pieces_are_json(
    stage: Stage, upstream: Upstream
):
    upstream.plays(calls(call("get_weather", city="Saint-Germain-en-Laye"), text="I look."))
    chunks = await streamed(stage, upstream.model, tools=[WEATHER])
    pieces = _call_pieces(chunks)
    assert [piece["index"] for piece in pieces] == [0] * len(pieces)
    assert [piece["id"] for piece in pieces if "id" in piece] == [pieces[0]["id"]]
    assert pieces[0]["id"].startswith("call_")
    assert [p["function"]["name"] for p in pieces if "name" in p["function"]] == ["get_weather"]
    [made] = reassembled(chunks)["tool_calls"]
    assert json.loads(made["arguments"]) == {"city": "Saint-Germain-en-Laye"}


async def test_parallel_calls_are_numbered_and_not_mixed(stage: Stage, upstream: Upstream):
    cities = ["Paris", "Rome", "Oslo"]
    upstream.plays(calls(*(call("get_weather", city=city) for city in cities)))
    chunks = await streamed(stage, upstream.model, tools=[WEATHER])
    message = reassembled(chunks)
    assert message["finish_reason"] == "tool_calls"
    assert [json.loads(c["arguments"])["city"] for c in message["tool_calls"]] == cities
    assert len({made["id"] for made in message["tool_calls"]}) == 3
    started = [piece["index"] for piece in _call_pieces(chunks) if "id" in piece]
    assert started == [0, 1, 2]


async def test_a_call_without_arguments_has_an_empty_object(stage: Stage, upstream: Upstream):
    upstream.plays(call("ping"))
    message = reassembled(await streamed(stage, upstream.model, tools=[function("ping")]))
    assert [made["arguments"] for made in message["tool_calls"]] == ["{}"]


async def test_a_call_whose_argument_text_is_empty_gets_an_empty_object(stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays(raw_call("ping", ""), raw_call("ping", ""))
    message = reassembled(await streamed(stage, upstream.model, tools=[function("ping")]))
    assert [made["arguments"] for made in message["tool_calls"]] == ["{}"]
    completion = await blocking(stage, upstream.model, tools=[function("ping")])
    [made] = completion["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == "{}"


async def test_the_clients_calls_are_numbered_without_the_gateways(
    stage: Stage, upstream: Upstream
):
    upstream.plays(
        call("look_up", word="first"),
        calls(
            call("look_up", word="second"),
            call("get_weather", city="Paris"),
            call("look_up", word="third"),
            call("get_time", city="Rome"),
        ),
    )
    chunks = await streamed(stage, upstream.model_with_tools, tools=[WEATHER, CLOCK])
    message = reassembled(chunks)
    assert [made["name"] for made in message["tool_calls"]] == ["get_weather", "get_time"]
    assert message["finish_reason"] == "tool_calls"


async def test_thoughts_stream_in_a_separate_field(stage: Stage, upstream: Upstream):
    upstream.plays(Turn(thoughts="Let me see.", text="Yes."))
    message = reassembled(await streamed(stage, upstream.model))
    assert (message["reasoning_content"], message["content"]) == ("Let me see.", "Yes.")


# What the gateway does.


@pytest.mark.usefixtures("patience")
async def test_the_text_of_the_first_round_arrives_while_the_tool_runs(
    stage: Stage, upstream: Upstream, gate: Gate
):
    upstream.plays(calls(call("hold", word="x"), text="One moment. "), "Done.")
    async with asked(stage, upstream.model_with_tools, stream=True) as answer:
        payloads = answer.payloads()
        said = await _text_until(payloads, "moment.")
        await gate.reached.wait()
        assert not gate.is_open
        gate.open()
        said += await _text_until(payloads, "Done.")
    assert said == "One moment. Done."


async def _text_until(payloads: AsyncIterator[str], end: str) -> str:
    said = ""
    async for payload in payloads:
        said += json.loads(payload)["choices"][0]["delta"].get("content") or ""
        if said.rstrip().endswith(end):
            break
    return said


@pytest.mark.usefixtures("patience")
async def test_each_piece_of_text_arrives_before_the_model_writes_the_next(
    stage: Stage, upstream: Upstream
):
    held = slow("One two.", after=1)
    assert held.gate is not None
    upstream.plays(held)
    async with asked(stage, upstream.model, stream=True) as answer:
        payloads = answer.payloads()
        assert await _text_until(payloads, "One") == "One "
        held.gate.open()
        assert await _text_until(payloads, "two.") == "two."


@pytest.mark.usefixtures("patience")
async def test_a_stream_has_heartbeat_comments_while_a_tool_runs(
    stage: Stage, upstream: Upstream, gate: Gate
):
    upstream.plays(call("hold", word="x"), "Done.")
    async with asked(stage, upstream.model_with_tools, stream=True) as answer:
        lines = answer.lines()
        async for line in lines:
            if line.startswith(":"):
                break
        gate.open()
        rest = [line async for line in lines]
    assert all(line.startswith((":", "data: ")) for line in rest)
    data = [line.removeprefix("data: ") for line in rest if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    assert "".join(_texts(map(json.loads, data[:-1]))) == "Done."


@pytest.mark.usefixtures("gate")
async def test_clients_see_nothing_of_server_tools_by_default(stage: Stage, upstream: Upstream):
    upstream.plays(call("look_up", word="an argument"), "Found.")
    async with asked(stage, upstream.model_with_tools, stream=True) as answer:
        text = await answer.response.text()
    for hidden in ("look_up", "an argument", SECRET_RESULT, "tool", "windlass", "Executing"):
        assert hidden not in text.replace("openai-with-tools", "").replace("gemini-with-tools", "")


ASKING: dict[str, Body] = {
    "stream_options": {"stream_options": {"include_tool_events": True}},
    "accept": {"headers": {"Accept": "text/event-stream; events=windlass"}},
}


@pytest.mark.parametrize("way", ASKING)
async def test_a_client_can_request_tool_events(stage: Stage, upstream: Upstream, way: str):
    upstream.plays(call("look_up", word="w"), "Found.")
    chunks = await streamed(stage, upstream.model_with_tools, **ASKING[way])
    events = [chunk["windlass"] for chunk in chunks if "windlass" in chunk]
    assert [(event["type"], event["event"]) for event in events] == [
        ("status", "status"),
        ("tool_call", "tool_run_started"),
        ("tool_result", "tool_run_ended"),
    ]
    status, started, ended = events
    assert status["message"] == "Executing look_up..."
    assert (started["call"]["name"], started["round"]) == ("look_up", 1)
    assert ended["response"]["response"] == {"output": f"{SECRET_RESULT}: w"}
    assert ended["outcome"] == "ok"
    assert [event["done"] for event in events] == [False] * 3
    assert reassembled(chunks)["content"] == "Found."
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)


async def test_the_round_limit_is_sent_with_tool_events(stage: Stage, upstream: Upstream):
    upstream.plays(*[call("look_up", word=f"w{n}") for n in range(5)], "That is all.")
    chunks = await streamed(
        stage, upstream.model_with_tools, stream_options={"include_tool_events": True}
    )
    events = [chunk["windlass"] for chunk in chunks if "windlass" in chunk]
    last = [event["message"] for event in events if event["type"] == "status"][-1]
    assert last == "Maximum tool execution rounds reached. Generating final response..."
    assert reassembled(chunks)["content"] == "That is all."


async def test_a_call_in_the_forced_last_round_is_not_shown_to_its_client(
    stage: Stage, upstream: Upstream
):
    rounds = [call("look_up", word=f"w{n}") for n in range(5)]
    upstream.plays(*rounds, calls(call("get_weather", city="Paris"), text="That is all."))
    message = reassembled(await streamed(stage, upstream.model_with_tools, tools=[WEATHER]))
    assert (message["content"], message["finish_reason"]) == ("That is all.", "stop")
    assert message["tool_calls"] == []


# Errors.


BREAKS = {
    "cut": cut("One two three.", 2),
    "interrupt": interrupt("One two three.", 2, error=refuse(500, "It broke.")),
}


@pytest.mark.parametrize("fault", BREAKS)
async def test_a_stream_that_breaks_off_ends_in_an_error_and_not_in_done(
    stage: Stage, upstream: Upstream, fault: str
):
    upstream.plays(BREAKS[fault])
    async with asked(stage, upstream.model, stream=True) as answer:
        *chunks, error = [json.loads(payload) async for payload in answer.payloads()]
    assert "".join(_texts(chunks)) == "One two "
    assert not any(choice["finish_reason"] for choice in _choices(chunks))
    assert error["error"].keys() == {"message", "type", "param", "code"}
    assert error["error"]["type"] == "upstream_error"


async def test_a_stream_that_breaks_off_in_a_later_round_ends_in_an_error(
    stage: Stage, upstream: Upstream
):
    upstream.plays(calls(call("look_up", word="a"), text="Looking. "), cut("Found it.", 1))
    async with asked(stage, upstream.model_with_tools, stream=True) as answer:
        *chunks, error = [json.loads(payload) async for payload in answer.payloads()]
    assert "".join(_texts(chunks)) == "Looking. Found "
    assert error["error"]["type"] == "upstream_error"


async def test_a_call_that_breaks_off_is_never_finished(stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays(cut(call("get_weather", city="Saint-Germain-en-Laye"), 2))
    async with asked(stage, upstream.model, stream=True, tools=[WEATHER]) as answer:
        *chunks, error = [json.loads(payload) async for payload in answer.payloads()]
    arguments = "".join(piece["function"]["arguments"] for piece in _call_pieces(chunks))
    with pytest.raises(ValueError, match="char"):
        json.loads(arguments)
    assert error["error"]["code"] == "stream_cut"


@pytest.mark.parametrize(
    ("status", "answered"), [(400, 400), (404, 404), (422, 422), (429, 429), (501, 502), (503, 503)]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_before_the_first_token_is_an_http_status(
    calm_stage: Stage, wire: str, status: int, answered: int
):
    stage, upstream = calm_stage, calm_stage.upstreams[wire]
    # A retry time that is too long for the gateway is returned to the client.
    upstream.plays(refuse(status, "Not now.", retry_after=3600))
    async with asked(stage, upstream.model, stream=True) as answer:
        assert answer.status == answered
        assert answer.headers["content-type"] == "application/json"
        error = (await answer.response.json())["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"] == "Not now."


@pytest.mark.usefixtures("patience")
async def test_an_error_after_a_heartbeat_is_an_error_in_the_stream(
    stage: Stage, upstream: Upstream
):
    held = slow(refuse(400, "Not now."))
    assert held.gate is not None
    upstream.plays(held)
    async with asked(stage, upstream.model, stream=True) as answer:
        lines = answer.lines()
        async for line in lines:
            if line.startswith(":"):
                break
        held.gate.open()
        *_, last = [line async for line in lines]
    assert answer.status == 200
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["message"] == "Not now."
    assert error["type"] == "invalid_request_error"


# Mistakes of other gateways.


async def _answered_in_another_order(stage: Stage) -> tuple[list[Body], list[Body]]:
    """Gemini's calls and their results, from a client that answers the last call first."""
    upstream = stage.upstreams["gemini"]
    upstream.plays(
        calls(call("get_weather", city="Paris"), call("get_time", city="Rome")), "Sunny, noon."
    )
    asked_for: Any = {"tools": [WEATHER, CLOCK]}
    message = reassembled(await streamed(stage, upstream.model, **asked_for))
    weather, clock = message["tool_calls"]
    history = [
        user("Go."),
        {"role": "assistant", "content": None, "tool_calls": [_whole(weather), _whole(clock)]},
        tool_message(clock["id"], "noon"),
        tool_message(weather["id"], "sunny"),
    ]
    await streamed(stage, upstream.model, messages=history, **asked_for)
    _, model, results = upstream.bodies[1]["contents"]
    return (
        [part["functionCall"] for part in model["parts"]],
        [part["functionResponse"] for part in results["parts"]],
    )


async def test_results_reach_gemini_under_real_names_in_the_order_of_the_calls(stage: Stage):
    made, given = await _answered_in_another_order(stage)
    assert [result["name"] for result in given] == [said["name"] for said in made]
    assert [result["name"] for result in given] == ["get_weather", "get_time"]
    assert [result["response"] for result in given] == [{"output": "sunny"}, {"output": "noon"}]


async def test_call_ids_reach_gemini_with_the_calls_and_their_results(stage: Stage):
    made, given = await _answered_in_another_order(stage)
    assert [said["id"] for said in made] == [result["id"] for result in given]
    assert all(said["id"] for said in made)


@pytest.mark.parametrize("streams", [False, True])
async def test_calls_of_gemini_finish_as_tool_calls(stage: Stage, streams: bool):
    upstream = stage.upstreams["gemini"]
    upstream.plays(calls(call("get_weather", city="Paris"), finish="stop"))
    if streams:
        chunks = await streamed(stage, upstream.model, tools=[WEATHER])
        reason = reassembled(chunks)["finish_reason"]
    else:
        completion = await blocking(stage, upstream.model, tools=[WEATHER])
        reason = completion["choices"][0]["finish_reason"]
    assert reason == "tool_calls"


async def test_errors_have_the_shape_of_openai_at_every_address(stage: Stage):
    async with asked(stage, "nobody") as unknown, asked(stage, "openai", messages=7) as wrong:
        for answer, status in ((unknown, 404), (wrong, 400)):
            assert answer.status == status
            error = (await answer.response.json())["error"]
            assert error.keys() == {"message", "type", "param", "code"}


# Any text of the model.

# A control token of a text format is not text: it is removed if the text may contain calls.
WORDS = st.text(max_size=30).filter(lambda text: "<|" not in text)
MADE = st.tuples(
    st.sampled_from(["get_weather", "get_time"]),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers(-9, 9) | WORDS, max_size=3),
)
TURNS = st.builds(
    lambda thoughts, text, made, pieces: calls(
        *(call(name, arguments) for name, arguments in made),
        thoughts=thoughts,
        text=text,
        pieces=pieces,
    ),
    WORDS,
    WORDS,
    st.lists(MADE, max_size=3),
    st.sampled_from(["words", "whole", 1, 3]),
)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turn=TURNS)
async def test_a_joined_stream_equals_the_complete_answer(stage: Stage, wire: str, turn: Turn):
    upstream = stage.upstreams[wire]
    upstream.plays(turn, turn)
    asked_for: Any = {"tools": [WEATHER, CLOCK]}
    message = reassembled(await streamed(stage, upstream.model, **asked_for))
    [choice] = (await blocking(stage, upstream.model, **asked_for))["choices"]
    whole = choice["message"]
    assert message["content"] == (whole["content"] or "") == turn.text
    assert message["reasoning_content"] == whole.get("reasoning_content", "") == turn.thoughts
    assert message["finish_reason"] == choice["finish_reason"]
    said = [(made.name, made.arguments) for made in turn.calls]
    assert [(c["name"], json.loads(c["arguments"])) for c in message["tool_calls"]] == said
    assert [
        (c["function"]["name"], json.loads(c["function"]["arguments"]))
        for c in whole.get("tool_calls", [])
    ] == said


ROUNDS = st.lists(
    st.builds(
        lambda text, words: calls(*(call("look_up", word=word) for word in words), text=text),
        st.text(st.sampled_from("abc \n"), max_size=8),
        st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True),
    ),
    max_size=4,
)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rounds=ROUNDS)
async def test_the_text_of_every_round_is_streamed_once_and_in_order(
    stage: Stage, wire: str, rounds: list[Turn]
):
    upstream = stage.upstreams[wire]
    upstream.plays(*rounds, "The end.")
    chunks = await streamed(
        stage, upstream.model_with_tools, stream_options={"include_usage": True}
    )
    message = reassembled(chunks)
    assert message["content"] == joined_texts(
        [*(turn.text for turn in rounds if turn.text.strip()), "The end."]
    )
    assert message["tool_calls"] == []
    each = DEFAULT_USAGE.total_tokens
    assert chunks[-1]["usage"]["total_tokens"] == each * (len(rounds) + 1)


def _choices(chunks: list[Body]) -> list[Body]:
    return [choice for chunk in chunks for choice in chunk["choices"]]


def _texts(chunks: Any) -> list[str]:
    return [choice["delta"].get("content") or "" for choice in _choices(list(chunks))]


def _call_pieces(chunks: list[Body]) -> list[Body]:
    return [
        piece for choice in _choices(chunks) for piece in choice["delta"].get("tool_calls") or []
    ]


def _whole(made: Body) -> Body:
    shape = {"name": made["name"], "arguments": made["arguments"]}
    return {"id": made["id"], "type": "function", "function": shape}
