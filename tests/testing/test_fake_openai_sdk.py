"""OpenAI's own SDK talks to the fake as it does to the service."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from tests.testing.helpers import HELLO, WEATHER_TOOL, unknown_fields

from windlass.content import InlineData, Opaque, Text, Usage
from windlass.errors import ModelError
from windlass.testing import (
    FakeOpenAI,
    Fault,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    interrupt,
    last_prompt,
    malformed_json,
    malformed_sse,
    raw_call,
    refuse,
    say,
    slow,
    think,
    tool_results,
)

pytestmark = pytest.mark.sdk

TWO_CALLS = calls(
    call("get_weather", city="Paris", id="call_1"),
    call("get_weather", city="Rome", id="call_2"),
    text="Let me look.",
    usage=Usage(100, 50, 150, 30, 20),
)


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    def answer(body: dict) -> Turn:
        return TWO_CALLS if body.get("tools") and not tool_results(body) else say("It is sunny.")

    with FakeOpenAI(answer) as fake:
        yield fake


@pytest.fixture
def client(fake: FakeOpenAI) -> Iterator[OpenAI]:
    with sdk(fake) as client:
        yield client


@pytest.fixture
async def async_client(fake: FakeOpenAI) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=fake.base_url, api_key="sk-test") as client:
        yield client


def sdk(fake: FakeOpenAI, *, api_key: str = "sk-test", max_retries: int = 0) -> Any:
    return OpenAI(base_url=fake.base_url, api_key=api_key, max_retries=max_retries)


def test_a_completion_is_the_sdks_own_type_with_nothing_unknown(client: Any):
    completion = client.chat.completions.create(model="gpt-x", messages=HELLO)
    assert completion.choices[0].message.content == "It is sunny."
    assert completion.choices[0].finish_reason == "stop"
    assert completion.model == "gpt-x"
    assert completion._request_id
    assert list(unknown_fields(completion)) == []


def test_calls_and_usage_arrive_whole(client: Any):
    completion = client.chat.completions.create(model="m", messages=HELLO, tools=[WEATHER_TOOL])
    choice, usage = completion.choices[0], completion.usage
    assert choice.finish_reason == "tool_calls"
    assert [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls] == [
        ("call_1", "get_weather", '{"city":"Paris"}'),
        ("call_2", "get_weather", '{"city":"Rome"}'),
    ]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 50, 150)
    assert usage.prompt_tokens_details.cached_tokens == 30
    assert usage.completion_tokens_details.reasoning_tokens == 20
    assert list(unknown_fields(completion)) == []


def test_a_stream_has_one_role_and_one_finish_and_usage_only_if_asked(client: Any):
    chunks = list(
        client.chat.completions.create(model="m", messages=HELLO, tools=[WEATHER_TOOL], stream=True)
    )
    assert [c.choices[0].delta.role for c in chunks].count("assistant") == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == [
        "tool_calls"
    ]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)
    assert [name for chunk in chunks for name in unknown_fields(chunk)] == []


def test_a_streamed_call_says_its_id_and_name_once(client: Any):
    stream = client.chat.completions.create(
        model="m", messages=HELLO, tools=[WEATHER_TOOL], stream=True
    )
    deltas = [made for chunk in stream for made in chunk.choices[0].delta.tool_calls or []]
    for index, call_id in enumerate(["call_1", "call_2"]):
        own = [made for made in deltas if made.index == index]
        assert [made.id for made in own if made.id] == [call_id]
        assert [made.function.name for made in own if made.function.name] == ["get_weather"]
        assert own[0].type == "function"
        assert len(own) > 2


def test_usage_comes_last_with_no_choices(client: Any):
    *others, last = client.chat.completions.create(
        model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    assert (last.choices, last.usage.total_tokens) == ([], 15)
    assert all(chunk.usage is None and chunk.choices for chunk in others)


def test_the_stream_helper_accumulates(client: Any):
    with client.chat.completions.stream(
        model="m",
        messages=HELLO,
        tools=[WEATHER_TOOL],
        stream_options={"include_usage": True},
    ) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert {"content.delta", "tool_calls.function.arguments.delta"} <= kinds
    message = completion.choices[0].message
    assert message.content == "Let me look."
    assert [made.function.arguments for made in message.tool_calls] == [
        '{"city":"Paris"}',
        '{"city":"Rome"}',
    ]
    assert completion.usage.total_tokens == 150


def test_parse_reads_a_structured_answer():
    class Weather(BaseModel):
        city: str

    with FakeOpenAI([say('{"city":"Paris"}')]) as fake, sdk(fake) as client:
        parsed = client.chat.completions.parse(model="m", messages=HELLO, response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(city="Paris")


def test_a_whole_tool_loop_manually(fake: FakeOpenAI, client: Any):
    messages = [*HELLO]
    first = client.chat.completions.create(model="m", messages=messages, tools=[WEATHER_TOOL])
    message = first.choices[0].message
    messages.append(message.to_dict())
    messages += [
        {"role": "tool", "tool_call_id": made.id, "content": "sunny"} for made in message.tool_calls
    ]
    last = client.chat.completions.create(model="m", messages=messages, tools=[WEATHER_TOOL])
    assert last.choices[0].message.content == "It is sunny."
    assert fake.requests[1].body["messages"] == messages
    assert [answer.output for answer in tool_results(fake.requests[1].body)] == ["sunny", "sunny"]


async def test_the_async_client_blocks_and_streams(async_client: Any):
    ask = async_client.chat.completions
    assert (await ask.create(model="m", messages=HELLO)).choices[0].message.content
    stream = await ask.create(model="m", messages=HELLO, stream=True)
    assert [c.choices[0].delta.content async for c in stream if c.choices[0].delta.content] == [
        "It ",
        "is ",
        "sunny.",
    ]


async def test_concurrent_clients_get_the_answers_to_their_own_requests():
    def answer(body: dict) -> str:
        return f"You said {last_prompt(body)}."

    async with (
        FakeOpenAI(answer) as fake,
        AsyncOpenAI(base_url=fake.base_url, api_key="k") as client,
    ):

        async def ask(word: str) -> bool:
            said = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": word}]
            )
            return said.choices[0].message.content == f"You said {word}."

        assert all(await asyncio.gather(*(ask(f"word{n}") for n in range(60))))
    assert len(fake.requests) == 60


def test_requests_are_kept_with_their_headers(fake: FakeOpenAI, client: Any):
    client.chat.completions.create(
        model="m", messages=HELLO, tools=[WEATHER_TOOL], tool_choice="required"
    )
    [request] = fake.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.body["tool_choice"] == "required"


def test_thoughts_signatures_and_unknown_fields_are_sent():
    signed = call("f", signature="c2ln")
    turn = Turn(parts=(Text("Hi"), Opaque("openai", {"mood": "good"}), *signed.calls))
    with FakeOpenAI([think("Hm.", turn)] * 2) as fake, sdk(fake) as client:
        message = client.chat.completions.create(model="m", messages=HELLO).choices[0].message
        stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
        deltas = [chunk.choices[0].delta.model_extra for chunk in stream]
    assert message.model_extra == {"reasoning_content": "Hm.", "mood": "good"}
    assert message.tool_calls[0].model_extra == {
        "extra_content": {"google": {"thought_signature": "c2ln"}}
    }
    assert {"reasoning_content": "Hm."} in deltas
    assert {"mood": "good"} in deltas


def test_broken_arguments_arrive_as_they_are():
    with FakeOpenAI([raw_call("f", '{"broken')]) as fake, sdk(fake) as client:
        message = client.chat.completions.create(model="m", messages=HELLO).choices[0].message
    assert message.tool_calls[0].function.arguments == '{"broken'


def test_models_are_listed_and_others_refused():
    with FakeOpenAI("Hi", models=["a", "b"]) as fake, sdk(fake) as client:
        models = client.models.list().data
        assert [model.id for model in models] == ["a", "b"]
        assert [name for model in models for name in unknown_fields(model)] == []
        assert client.models.retrieve("b").id == "b"
        assert client.chat.completions.create(model="a", messages=HELLO)
        with pytest.raises(openai.NotFoundError, match="The model `c` does not exist") as caught:
            client.chat.completions.create(model="c", messages=HELLO)
    assert caught.value.code == "model_not_found"


def test_a_wrong_key_is_refused_and_not_repeated_in_full():
    with FakeOpenAI("Hi", api_key="right") as fake:
        with sdk(fake, api_key="right") as client:
            assert client.chat.completions.create(model="m", messages=HELLO)
        with (
            sdk(fake, api_key="wrong-key-value") as client,
            pytest.raises(openai.AuthenticationError, match="Incorrect API key") as caught,
        ):
            client.chat.completions.create(model="m", messages=HELLO)
    assert caught.value.code == "invalid_api_key"
    assert "wrong-key-value" not in str(caught.value)


def test_other_paths_are_not_found():
    with (
        FakeOpenAI("Hi") as fake,
        sdk(fake) as client,
        pytest.raises(openai.NotFoundError, match="Invalid URL"),
    ):
        client.embeddings.create(model="m", input="x")


REFUSALS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
}


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_the_sdks_error(status: int, stream: bool):
    with (
        FakeOpenAI([refuse(status, "No.", code="why")]) as fake,
        sdk(fake) as client,
        pytest.raises(REFUSALS[status], match=r"No\.") as caught,
    ):
        client.chat.completions.create(model="m", messages=HELLO, stream=stream)
    assert (caught.value.status_code, caught.value.code) == (status, "why")


def test_the_sdk_retries_as_instructed():
    script = [disconnect(), refuse(429, retry_after=0.001), refuse(500, retry_after=0.001), "Hi"]
    with FakeOpenAI(script) as fake, sdk(fake, max_retries=3) as client:
        raw = client.chat.completions.with_raw_response.create(model="m", messages=HELLO)
    assert raw.retries_taken == 3
    assert raw.parse().choices[0].message.content == "Hi"
    assert len(fake.requests) == 4


FAULTS: list[tuple[Fault, type[Exception]]] = [
    (cut("one two three", 2), openai.APIConnectionError),
    (cut("one two three", byte=40), openai.APIConnectionError),
    (disconnect(), openai.APIConnectionError),
    (interrupt("one two", 1), openai.APIError),
    (malformed_json(), ValueError),
    (malformed_sse(), ValueError),
]


@pytest.mark.parametrize(("fault", "error"), FAULTS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_fault_is_an_error_of_the_sdk(fault: Fault, error: type[Exception], stream: bool):
    with FakeOpenAI([fault]) as fake, sdk(fake) as client, pytest.raises(error):
        list(client.chat.completions.create(model="m", messages=HELLO, stream=stream))


async def test_each_fault_is_an_error_of_the_async_sdk():
    for fault, error in FAULTS:
        async with (
            FakeOpenAI([fault]) as fake,
            AsyncOpenAI(base_url=fake.base_url, api_key="k", max_retries=0) as client,
        ):
            with pytest.raises(error):
                async for _ in await client.chat.completions.create(
                    model="m", messages=HELLO, stream=True
                ):
                    pass


def test_pieces_before_a_cut_arrive():
    with FakeOpenAI([cut("one two three", 2)]) as fake, sdk(fake) as client:
        stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
        said: list[str] = []
        with pytest.raises(openai.APIConnectionError):
            said.extend(chunk.choices[0].delta.content for chunk in stream)
    assert said == ["", "one ", "two "]


def test_a_hanging_service_times_out():
    with (
        FakeOpenAI([hang()]) as fake,
        sdk(fake) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(model="m", messages=HELLO, timeout=0.05)


async def test_a_slow_answer_waits_for_its_gate():
    step = slow("one two", after=1)
    assert step.gate
    async with (
        FakeOpenAI([step]) as fake,
        AsyncOpenAI(base_url=fake.base_url, api_key="k") as client,
    ):
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        texts = aiter(stream)
        assert (await anext(texts)).choices[0].delta.content == ""
        assert (await anext(texts)).choices[0].delta.content == "one "
        await step.gate.reached.wait()
        step.gate.open()
        assert (await anext(texts)).choices[0].delta.content == "two"


def test_a_script_that_is_over_or_fails_reports_it_to_the_client():
    def broken(_: dict) -> str:
        raise LookupError("no such thing")

    for script, text in (([], "this is request 1"), (broken, "no such thing")):
        with (
            FakeOpenAI(script) as fake,
            sdk(fake) as client,
            pytest.raises(openai.BadRequestError, match=text),
        ):
            client.chat.completions.create(model="m", messages=HELLO)


def test_a_part_that_the_wire_cannot_contain_is_an_error_response():
    turn = Turn(parts=(InlineData(b"png", "image/png"),))
    with (
        FakeOpenAI(turn) as fake,
        sdk(fake) as client,
        pytest.raises(openai.BadRequestError, match="cannot contain"),
    ):
        client.chat.completions.create(model="m", messages=HELLO)


def test_an_exception_in_a_script_is_an_error_answer():
    script = [ModelError("Busy.", status=429), ZeroDivisionError("oops")]
    with FakeOpenAI(script) as fake, sdk(fake) as client:
        for error in (openai.RateLimitError, openai.InternalServerError):
            with pytest.raises(error):
                client.chat.completions.create(model="m", messages=HELLO)
