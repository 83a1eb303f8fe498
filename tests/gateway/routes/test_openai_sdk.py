"""The official `openai` SDK, unchanged, against the gateway over both services."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from pydantic import BaseModel
from tests.support.serving import Serving
from tests.support.wire_helpers import (
    KEY,
    WIRES,
    Body,
    Stage,
    Upstream,
    declared_names,
    function,
    tool_message,
    user,
)

from windlass import tool
from windlass.content import Usage
from windlass.gateway import GatewayConfig
from windlass.gateway.config import KeyConfig, ServerConfig
from windlass.gateway.config.keys import key_hash
from windlass.testing import ScriptedModel, call, calls, cut, interrupt, refuse, say, think

pytestmark = pytest.mark.sdk

PIXEL = b"\x89PNG\r\n\x1a\n"
WEATHER = function("get_weather", city={"type": "string"})


class Weather(BaseModel):
    city: str
    degrees: int
    sky: Literal["clear", "cloudy"]


class GetWeather(BaseModel):
    """The weather of a city."""

    city: str


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(tools=[count_letters], server=ServerConfig(access_log=False)) as stage:
        yield stage


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[OpenAI]:
    with OpenAI(base_url=stage.base_url, api_key="not needed", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(stage: Stage) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=stage.base_url, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture(params=WIRES)
def upstream(stage: Stage, request: pytest.FixtureRequest) -> Upstream:
    chosen = stage.upstreams[request.param]
    chosen.plays()
    return chosen


# Text.


def test_a_completion_has_the_text_of_the_model(client: OpenAI, upstream: Upstream):
    upstream.plays(say("Hello, you.", usage=Usage(7, 3, 10)))
    completion = client.chat.completions.create(model=upstream.model, messages=[user("Hi!")])
    [choice] = completion.choices
    assert completion.id.startswith("chatcmpl-")
    assert (completion.object, completion.model) == ("chat.completion", upstream.model)
    assert choice.message.role == "assistant"
    assert choice.message.content == "Hello, you."
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == 7
    assert completion.usage.completion_tokens == 3
    assert completion.usage.total_tokens == 10


async def test_the_async_client_gets_the_same(async_client: AsyncOpenAI, upstream: Upstream):
    upstream.plays("Hello, you.")
    asked: Any = {"model": upstream.model, "messages": [user("Hi!")]}
    completion = await async_client.chat.completions.create(**asked)
    assert completion.choices[0].message.content == "Hello, you."


def test_a_stream_has_text_in_pieces_and_usage_on_request(client: OpenAI, upstream: Upstream):
    upstream.plays(say("One two three.", usage=Usage(7, 3, 10)))
    with client.chat.completions.create(
        model=upstream.model,
        messages=[user("Count.")],
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    texts = [choice.delta.content for chunk in chunks for choice in chunk.choices]
    assert [text for text in texts if text] == ["One ", "two ", "three."]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10


async def test_the_async_client_streams(async_client: AsyncOpenAI, upstream: Upstream):
    upstream.plays("One two three.")
    asked: Any = {"model": upstream.model, "messages": [user("Count.")], "stream": True}
    async with await async_client.chat.completions.create(**asked) as stream:
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == "One two three."


def test_the_stream_helper_puts_text_and_calls_together(client: OpenAI, upstream: Upstream):
    upstream.plays(
        calls(call("get_weather", city="Paris"), call("get_weather", city="Rome"), text="I look.")
    )
    with client.chat.completions.stream(
        model=upstream.model, messages=[user("Weather?")], tools=[WEATHER]
    ) as stream:
        events = list(stream)
        completion = stream.get_final_completion()
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [(event.index, json.loads(event.arguments)) for event in done] == [
        (0, {"city": "Paris"}),
        (1, {"city": "Rome"}),
    ]
    message = completion.choices[0].message
    assert message.content == "I look."
    assert [made.function.name for made in message.tool_calls or []] == ["get_weather"] * 2
    assert completion.choices[0].finish_reason == "tool_calls"


async def test_the_async_stream_helper_ends_with_the_whole_answer(
    async_client: AsyncOpenAI, upstream: Upstream
):
    upstream.plays("One two three.")
    async with async_client.chat.completions.stream(
        model=upstream.model, messages=[user("Count.")]
    ) as stream:
        deltas = [event.delta async for event in stream if event.type == "content.delta"]
        completion = await stream.get_final_completion()
    assert "".join(deltas) == completion.choices[0].message.content == "One two three."


def test_thoughts_are_beside_the_answer(client: OpenAI, upstream: Upstream):
    upstream.plays(think("Let me see.", "Yes."))
    completion = client.chat.completions.create(model=upstream.model, messages=[user("Well?")])
    said = completion.choices[0].message.model_dump()
    assert (said["content"], said["reasoning_content"]) == ("Yes.", "Let me see.")


# Structured output.


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_parsed_into_a_pydantic_model(
    client: OpenAI, upstream: Upstream, streams: bool
):
    upstream.plays('{"city": "Paris", "degrees": 21, "sky": "clear"}')
    asked: Any = {
        "model": upstream.model,
        "messages": [user("Weather?")],
        "response_format": Weather,
    }
    if streams:
        with client.chat.completions.stream(**asked) as stream:
            completion = stream.get_final_completion()
    else:
        completion = client.chat.completions.parse(**asked)
    assert completion.choices[0].message.parsed == Weather(city="Paris", degrees=21, sky="clear")
    schema = _shape_asked_for(upstream.bodies[0])
    assert list(schema["properties"]) == ["city", "degrees", "sky"]
    assert schema["required"] == ["city", "degrees", "sky"]


def test_the_arguments_of_a_pydantic_tool_are_parsed(client: OpenAI, upstream: Upstream):
    upstream.plays(call("GetWeather", city="Paris"))
    completion = client.chat.completions.parse(
        model=upstream.model,
        messages=[user("Weather?")],
        tools=[pydantic_function_tool(GetWeather)],
    )
    [made] = completion.choices[0].message.tool_calls or []
    assert made.function.parsed_arguments == GetWeather(city="Paris")
    assert declared_names(upstream.bodies[0]) == ["GetWeather"]


def test_the_strictness_of_tools_and_shapes_reaches_openai(client: OpenAI, stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays('{"city": "Paris", "degrees": 21, "sky": "clear"}')
    client.chat.completions.parse(
        model=upstream.model,
        messages=[user("Weather?")],
        tools=[pydantic_function_tool(GetWeather)],
        response_format=Weather,
    )
    [body] = upstream.bodies
    assert body["tools"][0]["function"]["strict"] is True
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["name"] == "Weather"


def _shape_asked_for(body: Body) -> Body:
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    assert body["generationConfig"]["responseMimeType"] == "application/json"
    return body["generationConfig"]["responseJsonSchema"]


# Requests.


def test_an_image_in_the_request_reaches_the_model(client: OpenAI, upstream: Upstream):
    upstream.plays("A pixel.")
    data = base64.b64encode(PIXEL).decode()
    url = f"data:image/png;base64,{data}"
    client.chat.completions.create(
        model=upstream.model,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": url}},
                ],
            }
        ],
    )
    [body] = upstream.bodies
    if upstream.wire == "openai":
        assert body["messages"][0]["content"][1]["image_url"]["url"] == url
    else:
        image = body["contents"][0]["parts"][1]
        assert image == {"inlineData": {"mimeType": "image/png", "data": data}}


SETTINGS: Body = {
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 11,
    "stop": ["END", "STOP"],
    "presence_penalty": 0.25,
    "frequency_penalty": 0.75,
}
IN_THE_WORDS_OF: dict[str, Body] = {
    "openai": {**SETTINGS, "response_format": {"type": "json_object"}},
    "gemini": {
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 11,
        "stopSequences": ["END", "STOP"],
        "presencePenalty": 0.25,
        "frequencyPenalty": 0.75,
        "maxOutputTokens": 64,
        "responseMimeType": "application/json",
    },
}


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_settings_reach_each_service_in_its_own_words(
    client: OpenAI, upstream: Upstream, limit: str
):
    upstream.plays("{}")
    asked: Any = {**SETTINGS, limit: 64, "response_format": {"type": "json_object"}}
    client.chat.completions.create(model=upstream.model, messages=[user("Go.")], **asked)
    [body] = upstream.bodies
    wanted = IN_THE_WORDS_OF[upstream.wire]
    if upstream.wire == "openai":
        wanted = {**wanted, limit: 64}
    sent = body["generationConfig"] if upstream.wire == "gemini" else body
    assert {name: sent.get(name) for name in wanted} == wanted
    assert {"max_tokens", "max_completion_tokens"} & sent.keys() == wanted.keys() & {limit}


def test_a_single_stop_text_is_a_list_of_one(client: OpenAI, upstream: Upstream):
    upstream.plays("Go")
    client.chat.completions.create(model=upstream.model, messages=[user("Go.")], stop="END")
    [body] = upstream.bodies
    sent = body["generationConfig"]["stopSequences"] if upstream.wire == "gemini" else body["stop"]
    assert sent == ["END"]


UNKNOWN: Body = {"brand_new_field": {"deep": [1]}, "logit_bias": {"50": 1}, "user": "u-1"}


def test_unknown_fields_are_passed_on_to_openai(client: OpenAI, stage: Stage):
    upstream = stage.upstreams["openai"]
    upstream.plays("Fine.")
    client.chat.completions.create(model=upstream.model, messages=[user("Go.")], extra_body=UNKNOWN)
    assert {name: upstream.bodies[0][name] for name in UNKNOWN} == UNKNOWN


def test_fields_that_gemini_would_refuse_are_left_out(client: OpenAI, stage: Stage):
    upstream = stage.upstreams["gemini"]
    upstream.plays("Fine.")
    completion = client.chat.completions.create(
        model=upstream.model, messages=[user("Go.")], extra_body=UNKNOWN
    )
    assert completion.choices[0].message.content == "Fine."
    assert upstream.bodies[0].keys() == {"contents"}


def test_a_conversation_with_a_tool_continues_from_the_message_that_was_returned(
    client: OpenAI, upstream: Upstream
):
    upstream.plays(call("get_weather", city="Paris"), "It is sunny.")
    messages: list[Any] = [user("Weather?")]
    asked: Any = {"model": upstream.model, "messages": messages, "tools": [WEATHER]}
    message = client.chat.completions.create(**asked).choices[0].message
    [made] = message.tool_calls or []
    messages += [message, tool_message(made.id, '{"sky": "clear"}')]
    answer = client.chat.completions.create(**asked).choices[0].message
    assert answer.content == "It is sunny."


def test_the_gateways_own_tools_run_without_the_client_knowing(client: OpenAI, upstream: Upstream):
    upstream.plays(call("count_letters", word="windlass"), "Eight letters.")
    asked: Any = {"model": upstream.model_with_tools, "messages": [user("How many?")]}
    completion = client.chat.completions.create(**asked)
    assert completion.choices[0].message.content == "Eight letters."
    assert completion.choices[0].message.tool_calls is None
    assert completion.usage is not None
    assert completion.usage.total_tokens == 30  # both rounds


# The models.


def test_the_models_are_listed_and_described(client: OpenAI, stage: Stage):
    names = [model.id for model in client.models.list()]
    assert names == ["openai", "openai-with-tools", "gemini", "gemini-with-tools"]
    model = client.models.retrieve("gemini")
    assert (model.id, model.object) == ("gemini", "model")
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nobody")
    assert caught.value.code == "model_not_found"


# The headers.


@pytest.mark.parametrize("streams", [False, True])
def test_the_headers_say_the_run_the_mode_and_the_request(
    client: OpenAI, upstream: Upstream, streams: bool
):
    upstream.plays("Hello.")
    asked: Any = {"model": upstream.model, "messages": [user("Hi!")], "stream": streams}
    response = client.chat.completions.with_raw_response.create(**asked)
    assert response.headers["x-windlass-run-id"].startswith("run_")
    assert response.headers["x-function-calling-mode"] == "native"
    assert response.request_id is not None
    assert response.request_id == response.headers["x-request-id"]
    response.http_response.close()


# Errors.


def test_an_invalid_tool_is_a_bad_request_that_names_the_field(client: OpenAI, upstream: Upstream):
    wrong: Any = {"type": "function", "function": {"name": "two words", "parameters": {}}}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=upstream.model, messages=[user("Hi!")], tools=[WEATHER, wrong]
        )
    assert caught.value.param == "tools[1].function.name"
    assert caught.value.code == "invalid_tool"
    assert caught.value.type == "invalid_request_error"
    assert upstream.bodies == []


def test_an_unknown_model_is_not_found(client: OpenAI):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nobody", messages=[user("Hi!")])
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("streams", [False, True])
def test_a_busy_service_is_a_rate_limit_with_its_retry_after(
    client: OpenAI, upstream: Upstream, streams: bool
):
    upstream.plays(refuse(429, "Slow down.", retry_after=120))
    asked: Any = {"model": upstream.model, "messages": [user("Hi!")], "stream": streams}
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(**asked)
    assert "Slow down." in caught.value.message
    assert caught.value.response.headers["retry-after"] == "120"


def test_a_bad_request_of_the_service_stays_a_bad_request(client: OpenAI, upstream: Upstream):
    upstream.plays(refuse(400, "The prompt is too long."))
    with pytest.raises(openai.BadRequestError, match="The prompt is too long"):
        client.chat.completions.create(model=upstream.model, messages=[user("Hi!")])


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_the_service_refuses_is_not_a_client_error(
    client: OpenAI, upstream: Upstream, status: int
):
    upstream.plays(refuse(status, f"Wrong key {KEY}."))
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=upstream.model, messages=[user("Hi!")])
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_refused_key")
    assert KEY not in str(caught.value)


BREAKS = {"cut": cut("One two three.", 2), "interrupt": interrupt("One two three.", 2)}


@pytest.mark.parametrize("fault", BREAKS)
def test_a_stream_that_breaks_off_raises_after_its_text(
    client: OpenAI, upstream: Upstream, fault: str
):
    upstream.plays(BREAKS[fault])
    said = ""
    with (
        client.chat.completions.create(
            model=upstream.model, messages=[user("Count.")], stream=True
        ) as stream,
        pytest.raises(openai.APIError) as caught,
    ):
        for chunk in stream:
            said += chunk.choices[0].delta.content or ""
    assert said == "One two "
    assert caught.value.message
    assert caught.value.type == "upstream_error"


async def test_a_stream_that_breaks_off_raises_in_the_async_client(
    async_client: AsyncOpenAI, upstream: Upstream
):
    upstream.plays(cut("One two three.", 2))
    asked: Any = {"model": upstream.model, "messages": [user("Count.")], "stream": True}
    async with await async_client.chat.completions.create(**asked) as stream:
        with pytest.raises(openai.APIError):
            [chunk async for chunk in stream]


def test_a_wrong_key_is_an_authentication_error_and_a_right_one_is_let_in():
    keys = (KeyConfig(name="web", hash=key_hash("wl-right"), requests_per_minute=1),)
    with Serving(GatewayConfig(keys=keys), models={"m": ScriptedModel("Hello.")}) as gateway:
        with (
            OpenAI(base_url=gateway.base_url, api_key="wl-wrong", max_retries=0) as stranger,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            stranger.models.list()
        assert caught.value.code == "invalid_api_key"
        assert "wl-wrong" not in str(caught.value)
        with OpenAI(base_url=gateway.base_url, api_key="wl-right", max_retries=0) as known:
            asked: Any = {"model": "m", "messages": [user("Hi!")]}
            completion = known.chat.completions.create(**asked)
            assert completion.choices[0].message.content == "Hello."
            with pytest.raises(openai.RateLimitError) as limited:
                known.chat.completions.create(**asked)
    assert limited.value.code == "rate_limit_exceeded"
    assert int(limited.value.response.headers["retry-after"]) >= 1
