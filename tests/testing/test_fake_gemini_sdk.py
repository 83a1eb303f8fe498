"""Google's own SDK talks to the fake as it does to the service."""

import base64
import gc
from collections.abc import Iterator
from typing import Any

import google.auth.credentials
import pytest
from google import genai
from google.genai import errors, types

from windlass.content import FileData, InlineData, Opaque, Text, Thought, Usage
from windlass.testing import (
    FakeGemini,
    Fault,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    interrupt,
    malformed_json,
    malformed_sse,
    raw_call,
    refuse,
    say,
    slow,
    think,
    tool_results,
)
from windlass.testing.fake_gemini import GenerateWriter

# Google's SDK derives its async session from aiohttp's, which aiohttp discourages.
pytestmark = [
    pytest.mark.sdk,
    pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning"),
]

MODEL = "gemini-2.5-flash"
CITIES: list[str] = []


def get_weather(city: str) -> str:
    """The weather now."""
    CITIES.append(city)
    return f"sunny in {city}"


WITH_TOOL = types.GenerateContentConfig(tools=[get_weather])
TWO_CALLS = calls(
    call("get_weather", city="Paris"), call("get_weather", city="Rome"), text="Let me look."
)


def answer(body: dict[str, Any]) -> Turn:
    return TWO_CALLS if body.get("tools") and not tool_results(body) else say("It is sunny.")


@pytest.fixture
def fake() -> Iterator[FakeGemini]:
    CITIES.clear()
    with FakeGemini(answer) as fake:
        yield fake


@pytest.fixture
def client(fake: FakeGemini) -> Iterator[genai.Client]:
    with sdk(fake) as client:
        yield client


def sdk(fake: FakeGemini, api_key: str = "key", **options: Any) -> Any:
    return genai.Client(
        api_key=api_key, http_options=types.HttpOptions(base_url=fake.base_url, **options)
    )


def vertex(fake: FakeGemini) -> Any:
    class Credentials(google.auth.credentials.Credentials):
        def refresh(self, request: Any) -> None:
            self.token = "secret"

    return genai.Client(
        vertexai=True,
        project="p",
        location="europe-west1",
        credentials=Credentials(),
        http_options=types.HttpOptions(base_url=fake.base_url),
    )


def test_a_response_is_the_sdks_own_type(client: Any):
    response = client.models.generate_content(model=MODEL, contents="Hello")
    assert response.text == "It is sunny."
    assert response.candidates[0].finish_reason == types.FinishReason.STOP
    assert (response.model_version, bool(response.response_id)) == (MODEL, True)


def test_thoughts_text_calls_and_usage_arrive_whole():
    usage = Usage(100, 50, 150, 30, 20)
    turn = think("Hm.", calls(call("f", x=1, signature="c2ln"), text="Look.", usage=usage))
    with FakeGemini(turn) as fake, sdk(fake) as client:
        response = client.models.generate_content(model=MODEL, contents="Hello")
    parts = response.candidates[0].content.parts
    assert (parts[0].text, parts[0].thought) == ("Hm.", True)
    assert parts[1].text == "Look."
    assert parts[2].function_call.args == {"x": 1}
    assert parts[2].function_call.id
    assert parts[2].thought_signature == b"sig"
    counted = response.usage_metadata
    assert (counted.prompt_token_count, counted.cached_content_token_count) == (100, 30)
    assert (counted.candidates_token_count, counted.thoughts_token_count) == (30, 20)
    assert counted.total_token_count == 150


def test_the_raw_body_parses_as_the_sdks_type_which_forbids_unknown_fields():
    exchange = GenerateWriter(model=MODEL, streams=True, signs=True)
    frames = exchange.frames(TWO_CALLS)
    for body in (exchange.body(TWO_CALLS), *frames.pieces, *frames.tail):
        parsed: Any = types.GenerateContentResponse.model_validate_json(body)
        assert parsed.candidates[0].content.role == "model"


def test_a_stream_counts_up_and_ends_once(client: Any):
    chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hello"))
    assert [chunk.text for chunk in chunks] == ["It ", "is ", "sunny.", ""]
    totals = [chunk.usage_metadata.total_token_count for chunk in chunks]
    assert totals == sorted(totals)
    assert totals[-1] == 15
    assert [c.candidates[0].finish_reason for c in chunks if c.candidates[0].finish_reason] == [
        types.FinishReason.STOP
    ]
    assert len({chunk.response_id for chunk in chunks}) == 1


@pytest.mark.parametrize("model", [MODEL, "gemini-3-flash"])
def test_automatic_function_calling_works_unmodified(fake: FakeGemini, client: Any, model: str):
    response = client.models.generate_content(model=model, contents="?", config=WITH_TOOL)
    assert response.text == "It is sunny."
    assert CITIES == ["Paris", "Rome"]
    assert [answer.output for answer in tool_results(fake.requests[1].body)] == [
        {"result": "sunny in Paris"},
        {"result": "sunny in Rome"},
    ]


@pytest.mark.parametrize("model", [MODEL, "gemini-3-flash"])
def test_automatic_function_calling_works_in_a_stream(client: Any, model: str):
    stream = client.models.generate_content_stream(model=model, contents="?", config=WITH_TOOL)
    texts = [p.text for c in stream for p in c.candidates[0].content.parts if p.text]
    assert "".join(texts) == "Let me look.It is sunny."
    assert CITIES == ["Paris", "Rome"]


def test_a_chat_keeps_its_history(fake: FakeGemini, client: Any):
    chat = client.chats.create(model="gemini-3-flash", config=WITH_TOOL)
    assert chat.send_message("Weather?").text == "It is sunny."
    said = [chunk.text for chunk in chat.send_message_stream("And now?")]
    assert "".join(text or "" for text in said) == "It is sunny."
    assert len(fake.requests[-1].body["contents"]) == 5


async def test_the_async_client_blocks_streams_and_calls_functions(fake: FakeGemini):
    async with sdk(fake).aio as client:
        response = await client.models.generate_content(model=MODEL, contents="?", config=WITH_TOOL)
        assert response.text == "It is sunny."
        stream = await client.models.generate_content_stream(model=MODEL, contents="Hello")
        assert "".join([chunk.text async for chunk in stream]) == "It is sunny."
    assert CITIES == ["Paris", "Rome"]


def test_vertex_paths_have_no_ids_and_work_unmodified(fake: FakeGemini):
    with vertex(fake) as client:
        response = client.models.generate_content(model=MODEL, contents="?", config=WITH_TOOL)
    assert response.text == "It is sunny."
    assert "/projects/p/locations/europe-west1/publishers/google/models/" in fake.requests[0].path
    assert fake.requests[0].headers["authorization"] == "Bearer secret"
    called = fake.requests[1].body["contents"][1]["parts"][1]["functionCall"]
    assert "id" not in called


def test_vertex_streams_arguments_when_asked():
    config = types.GenerateContentConfig(
        tools=[get_weather],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(stream_function_call_arguments=True)
        ),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    arguments = {"city": "Clermont-Ferrand", "at": {"days": [1, None]}, "big city": True}
    script = [call("f", arguments), call("f", {"none": []})]
    with FakeGemini(script) as fake, vertex(fake) as client:
        streams = [
            list(client.models.generate_content_stream(model=MODEL, contents="?", config=config))
            for _ in range(2)
        ]
    first, second = (
        [p.function_call for c in s for p in c.candidates[0].content.parts if p.function_call]
        for s in streams
    )
    assert (first[0].name, first[0].will_continue) == ("f", True)
    assert not first[-1].will_continue
    pieces = [piece for made in first for piece in made.partial_args or []]
    texts = [p.string_value for p in pieces if p.json_path == "$.city"]
    assert (len(texts), "".join(texts)) == (2, "Clermont-Ferrand")
    assert [(p.json_path, p.number_value, p.bool_value, p.null_value) for p in pieces[2:]] == [
        ("$.at.days[0]", 1, None, None),
        ("$.at.days[1]", None, None, "NULL_VALUE"),
        ("$['big city']", None, True, None),
    ]
    assert [made.args for made in second] == [{"none": []}]


def test_calls_without_ids_are_an_option():
    with FakeGemini(TWO_CALLS, ids=False) as fake, sdk(fake) as client:
        response = client.models.generate_content(model=MODEL, contents="Hello")
    assert [made.id for made in response.function_calls] == [None, None]


def test_gemini_3_signs_the_first_call_of_a_turn_and_others_sign_none():
    with FakeGemini(TWO_CALLS) as fake, sdk(fake) as client:
        for model, signed in (("gemini-3-pro", [True, False]), (MODEL, [False, False])):
            response = client.models.generate_content(model=model, contents="Hello")
            parts = response.candidates[0].content.parts
            assert [p.thought_signature is not None for p in parts if p.function_call] == signed


def test_a_signed_text_streams_with_its_signature_last():
    with FakeGemini(Turn(text="one two", signature="c2ln")) as fake, sdk(fake) as client:
        response = client.models.generate_content(model=MODEL, contents="Hello")
        [part] = response.candidates[0].content.parts
        assert (part.text, part.thought_signature) == ("one two", b"sig")
        chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hello"))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert [(part.text, part.thought_signature) for part in parts] == [
        ("one ", None),
        ("two", None),
        ("", b"sig"),
        ("", None),
    ]


def test_media_and_parts_of_googles_own_arrive():
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    parts = (
        InlineData(b"png", "image/png"),
        FileData("gs://bucket/file", "text/plain"),
        Opaque("gemini", code),
        Thought("Hm.", base64.b64encode(b"sig").decode()),
        Text(""),
    )
    with FakeGemini(Turn(parts=parts)) as fake, sdk(fake) as client:
        response = client.models.generate_content(model=MODEL, contents="Hello")
    got = response.candidates[0].content.parts
    assert got[0].inline_data.data == b"png"
    assert got[1].file_data.file_uri == "gs://bucket/file"
    assert got[2].executable_code.code == "1+1"
    assert (got[3].thought, got[3].thought_signature) == (True, b"sig")


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_that_are_no_json_end_the_turn_as_malformed(stream: bool):
    with FakeGemini(raw_call("f", '{"broken')) as fake, sdk(fake) as client:
        *_, last = ask(client, stream)
    assert last.candidates[0].finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert not last.candidates[0].content.parts


@pytest.mark.parametrize(
    ("finish", "word"),
    [("length", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("RECITATION", "RECITATION")],
)
def test_finish_reasons_are_googles_words(finish: str, word: str):
    with FakeGemini(say("Hi", finish=finish)) as fake, sdk(fake) as client:
        [response] = ask(client, stream=False)
    assert response.candidates[0].finish_reason.value == word


def test_models_are_listed_and_others_refused():
    with FakeGemini("Hi", models=[MODEL]) as fake, sdk(fake) as client:
        assert [model.name for model in client.models.list()] == [f"models/{MODEL}"]
        assert client.models.get(model=MODEL).name == f"models/{MODEL}"
        with pytest.raises(errors.ClientError, match="is not found for API version v1"):
            client.models.generate_content(model="gemini-x", contents="Hello")
        with pytest.raises(errors.ClientError, match="Not found"):
            client.models.embed_content(model=MODEL, contents="Hello")


def test_a_wrong_key_is_refused_as_google_does():
    with FakeGemini("Hi", api_key="right") as fake:
        with sdk(fake, "right") as client:
            assert ask(client, stream=False)
        with (
            sdk(fake, "wrong") as client,
            pytest.raises(errors.ClientError, match="API key not valid") as caught,
        ):
            ask(client, stream=False)
        assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
        with vertex(fake) as client, pytest.raises(errors.ClientError) as caught:
            ask(client, stream=False)
        assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")


def ask(client: Any, stream: bool) -> list[Any]:
    if stream:
        return list(client.models.generate_content_stream(model=MODEL, contents="Hello"))
    return [client.models.generate_content(model=MODEL, contents="Hello")]


@pytest.mark.parametrize("status", [400, 403, 429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_the_sdks_error(status: int, stream: bool):
    kind = errors.ClientError if status < 500 else errors.ServerError
    with (
        FakeGemini([refuse(status, "No.", retry_after=2)]) as fake,
        sdk(fake) as client,
        pytest.raises(kind) as caught,
    ):
        ask(client, stream)
    assert (caught.value.code, caught.value.message) == (status, "No.")
    details: Any = caught.value.details
    assert details["error"]["details"][0]["retryDelay"] == "2s"


def test_the_sdk_retries_as_instructed():
    retry = types.HttpRetryOptions(attempts=3, initial_delay=0.001, max_delay=0.002, jitter=0.001)
    with (
        FakeGemini([refuse(429), refuse(503), "Hi"]) as fake,
        sdk(fake, retry_options=retry) as client,
    ):
        assert ask(client, stream=False)[0].text == "Hi"
    assert len(fake.requests) == 3


FAULTS: list[Fault] = [
    cut("one two three", 2),
    cut("one two three", byte=40),
    disconnect(),
    interrupt("one two", 1),
    malformed_json(),
    malformed_sse(),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_fault_is_an_error_of_the_sdk(fault: Fault, stream: bool):
    with FakeGemini([fault]) as fake, sdk(fake) as client, pytest.raises(Exception) as caught:  # noqa: PT011
        ask(client, stream)
    assert type(caught.value).__module__.split(".")[0] in ("google", "httpx2", "json")


@pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")  # the SDK's
async def test_each_fault_is_an_error_of_the_async_sdk():
    # With options of ours it does not sleep for seconds and try again by itself.
    once = types.HttpRetryOptions(attempts=1)
    for fault in FAULTS:
        async with FakeGemini([fault]) as fake, sdk(fake, retry_options=once).aio as client:
            with pytest.raises(Exception) as caught:  # noqa: PT011
                async for _ in await client.models.generate_content_stream(
                    model=MODEL, contents="Hello"
                ):
                    pass
            assert type(caught.value).__module__.split(".")[0] in ("google", "httpx2", "aiohttp")
            del caught
            gc.collect()  # here, where the warning of the SDK's connection is ignored


def test_a_hanging_service_times_out():
    with (
        FakeGemini([hang()]) as fake,
        sdk(fake, timeout=50) as client,
        pytest.raises(Exception, match="timed out"),
    ):
        ask(client, stream=False)


def test_a_slow_answer_waits_for_its_gate():
    step = slow("one two", after=1)
    assert step.gate
    with FakeGemini([step]) as fake, sdk(fake) as client:
        stream = client.models.generate_content_stream(model=MODEL, contents="Hello")
        assert next(stream).text == "one "
        step.gate.reached.block()
        step.gate.open()
        assert [chunk.text for chunk in stream] == ["two", ""]
