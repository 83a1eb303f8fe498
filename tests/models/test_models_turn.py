"""One turn over HTTP: when it is retried, when it is not, and how it handles bad servers."""

import asyncio
import logging
from typing import Any

import pytest
from tests.support.model_wires import (
    HELLO,
    ONE_BODY,
    WEATHER,
    Waits,
    called,
    end,
    http,
    raw_server,
    text,
    turn,
    unfinished_response,
)

from windlass.content import Message, Usage
from windlass.errors import ModelError, StreamCut
from windlass.events import TextDelta
from windlass.model import ModelRequest
from windlass.models.anthropic import AnthropicModel
from windlass.models.gemini import GeminiModel
from windlass.models.openai import OpenAIModel
from windlass.models.responses import ResponsesModel
from windlass.models.retry import Retry, Timeouts
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    Turn,
    call,
    cut,
    disconnect,
    hang,
    interrupt,
    malformed_json,
    malformed_sse,
    refuse,
    say,
)

FAKES: list[Any] = [
    pytest.param((FakeOpenAI, OpenAIModel), id="openai"),
    pytest.param((FakeResponses, ResponsesModel), id="responses"),
    pytest.param((FakeGemini, GeminiModel), id="gemini"),
    pytest.param((FakeAnthropic, AnthropicModel), id="anthropic"),
]
LIVE: list[Any] = [pytest.param(HELLO, id="live"), pytest.param(ONE_BODY, id="body")]
both = pytest.mark.parametrize("wire", FAKES)
either = pytest.mark.parametrize("request_", LIVE)

BRIEF = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'


def model_at(wire: Any, fake: Any, **options: Any) -> Any:
    return wire[1]("m", base_url=fake.base_url, api_key="key-123", **options)


@pytest.mark.sweep
@both
@either
@pytest.mark.parametrize(
    "fault",
    [
        refuse(429, retry_after=2),
        refuse(500),
        refuse(503),
        refuse(408),
        disconnect(),
        malformed_json(),
        cut("Half an answer", after=0),
        interrupt("Half", after=0, error=refuse(503)),
    ],
)
async def test_a_passing_fault_is_tried_again(
    wire: Any, request_: ModelRequest, fault: Any
) -> None:
    waits = Waits()
    async with wire[0]([fault, "Whole."]) as fake:
        model = model_at(wire, fake, waiting=waits)
        events = await turn(model, request_)
    assert text(events) == "Whole."
    assert len(fake.requests) == 2
    assert len(waits.seconds) == 1
    await model.aclose()


@both
async def test_the_server_s_own_time_is_waited_for(wire: Any) -> None:
    waits = Waits(jitter=0.0)
    async with wire[0]([refuse(429, retry_after=7), refuse(503), "Yes."]) as fake:
        await turn(model_at(wire, fake, waiting=waits))
    assert waits.seconds == [7, 0]


@both
@either
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
async def test_a_refusal_is_final(wire: Any, request_: ModelRequest, status: int) -> None:
    waits = Waits()
    async with wire[0]([refuse(status, "Not so.")]) as fake:
        with pytest.raises(ModelError, match="Not so") as raised:
            await turn(model_at(wire, fake, waiting=waits), request_)
    assert raised.value.status == status
    assert not raised.value.retryable
    assert len(fake.requests) == 1
    assert waits.seconds == []


@both
async def test_the_last_fault_is_raised_when_the_attempts_are_used_up(wire: Any) -> None:
    waits = Waits()
    async with wire[0]([refuse(503, "one"), refuse(503, "two"), refuse(503, "three")]) as fake:
        model = model_at(wire, fake, retry=Retry(attempts=3), waiting=waits)
        with pytest.raises(ModelError, match="three"):
            await turn(model)
    assert len(waits.seconds) == 2


@both
@pytest.mark.parametrize(
    "fault", [cut("One two three", after=2), interrupt("One two three", after=2)]
)
async def test_nothing_is_tried_again_after_output_has_reached_the_caller(
    wire: Any, fault: Any
) -> None:
    seen: list[str] = []
    async with wire[0]([fault, "never asked"]) as fake:
        with pytest.raises(ModelError):
            async with model_at(wire, fake, waiting=Waits()).stream(HELLO) as events:
                async for event in events:
                    assert isinstance(event, TextDelta)
                    seen.append(event.text)
    assert seen == ["One ", "two "]
    assert len(fake.requests) == 1


@both
async def test_an_interrupted_stream_raises_stream_cut(wire: Any) -> None:
    async with wire[0]([cut("One two three", after=2)]) as fake:
        with pytest.raises(StreamCut):
            await turn(model_at(wire, fake, retry=Retry(attempts=1)))


@pytest.mark.sweep
@both
async def test_a_stream_cut_at_any_byte_is_whole_or_an_error(wire: Any) -> None:
    async with wire[0]([say("Some words")]) as fake:
        whole = await turn(model_at(wire, fake))
    for byte in range(0, 900, 13):
        async with wire[0]([cut("Some words", byte=byte)]) as fake:
            try:
                events = await turn(model_at(wire, fake, retry=Retry(attempts=1)))
            except ModelError:
                continue
        assert text(events) == text(whole)
        assert end(events).finish == "stop"


@pytest.mark.sweep
@both
async def test_broken_framing_never_ends_as_a_success_with_less(wire: Any) -> None:
    for byte in range(0, 400, 7):
        async with wire[0]([malformed_sse("Some words", byte=byte)]) as fake:
            try:
                events = await turn(model_at(wire, fake, retry=Retry(attempts=1)))
            except ModelError:
                continue
        assert text(events) == "Some words"


@pytest.mark.measures
@both
@either
async def test_a_silent_model_is_retried_and_then_reported(
    wire: Any, request_: ModelRequest
) -> None:
    options = {"timeouts": Timeouts(read=0.5), "waiting": Waits()}
    async with wire[0]([hang(), "Awake."]) as fake:
        assert text(await turn(model_at(wire, fake, **options), request_)) == "Awake."
    waits = Waits()
    options = {"timeouts": Timeouts(read=0.25), "waiting": waits}
    async with wire[0](hang()) as fake:
        with pytest.raises(ModelError, match="in time") as raised:
            await turn(model_at(wire, fake, retry=Retry(attempts=2), **options), request_)
    assert raised.value.retryable
    assert len(waits.seconds) == 1, "a busy fake may not have read the second request yet"


async def test_silence_in_the_middle_of_a_stream_is_an_interruption() -> None:
    first = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    async with raw_server(unfinished_response(first), hold=True) as server:
        model = OpenAIModel("m", base_url=server.base_url, timeouts=Timeouts(read=0.25))
        with pytest.raises(StreamCut, match="stopped before its turn"):
            await turn(model)
        await model.aclose()


@pytest.mark.parametrize("size", [10, 300], ids=["small", "large"])
async def test_text_before_an_error_in_the_same_read_comes_once(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.models.turn.LARGE", 200)
    text_first = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    error = f'data: {{"error":{{"message":"{"x" * size}","code":503}}}}\n\n'.encode()
    events: list[Any] = []
    async with raw_server(unfinished_response(text_first + error), hold=True) as server:
        model = OpenAIModel("m", base_url=server.base_url)
        with pytest.raises(ModelError):
            async with model.stream(HELLO) as arriving:
                async for event in arriving:
                    events.append(event)
        await model.aclose()
    assert text(events) == "Hi"


async def test_a_server_that_never_closes_after_done_does_not_hold_the_turn() -> None:
    async with raw_server(unfinished_response(BRIEF + b"data: [DONE]\n\n"), hold=True) as server:
        model = OpenAIModel("m", base_url=server.base_url)
        async with asyncio.timeout(60):
            assert text(await turn(model)) == "Hi"
        await model.aclose()


@pytest.mark.parametrize("hold", [True, False])
async def test_a_connection_lost_after_the_finish_reason_is_no_error(hold: bool) -> None:
    async with raw_server(unfinished_response(BRIEF), hold=hold) as server:
        model = OpenAIModel("m", base_url=server.base_url, timeouts=Timeouts(read=0.25))
        events = await turn(model)
        await model.aclose()
    assert (text(events), end(events).finish) == ("Hi", "stop")


@both
@pytest.mark.parametrize("form", ["json", "sse"])
@either
async def test_a_body_instead_of_a_stream_and_the_reverse_is_read(
    wire: Any, form: str, request_: ModelRequest
) -> None:
    async with wire[0]([call("f", x=1)], answer_in=form) as fake:
        events = await turn(model_at(wire, fake), request_)
    assert called(events) == [("f", '{"x":1}')]
    assert end(events).finish == "tool_calls"


@both
@pytest.mark.parametrize("label", ["text/plain", "application/octet-stream"])
@either
async def test_a_wrong_content_type_is_ignored(
    wire: Any, label: str, request_: ModelRequest
) -> None:
    async with wire[0](["Hello."], content_type=label) as fake:
        assert text(await turn(model_at(wire, fake), request_)) == "Hello."


@both
@pytest.mark.parametrize(
    "options",
    [{"write_size": 1}, {"write_size": 7}, {"crlf": True, "heartbeats": True}, {"done": False}],
)
async def test_the_events_do_not_depend_on_how_the_bytes_are_split(
    wire: Any, options: dict[str, Any]
) -> None:
    said = Turn(text="Grüße 😀 an alle", thoughts="Hm.", calls=call("f", x="é", id="i1").calls)
    async with wire[0]([said]) as fake:
        plain = await turn(model_at(wire, fake))
    async with wire[0]([said], **options) as fake:
        assert await turn(model_at(wire, fake)) == plain


async def test_leaving_in_the_middle_closes_the_connection() -> None:
    first = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    closed = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(unfinished_response(first))
        while await reader.read(2**16):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        model = OpenAIModel("m", base_url=f"http://127.0.0.1:{port}")
        async with model.stream(HELLO) as events:
            async for _ in events:
                break
        async with asyncio.timeout(60):
            await closed.wait()
        await model.aclose()


@both
@either
async def test_one_connection_serves_turn_after_turn(wire: Any, request_: ModelRequest) -> None:
    async with wire[0]("Again.") as fake:
        model = model_at(wire, fake)
        for _ in range(5):
            assert text(await turn(model, request_)) == "Again."
        (pool,) = model._http._pools.values()
        assert len(pool.connections._all) == 1
        await model.aclose()


async def test_a_page_under_200_is_an_error_that_reports_it() -> None:
    async with raw_server(http(b"<html>Welcome!</html>", "text/html")) as server:
        model = OpenAIModel("m", base_url=server.base_url)
        with pytest.raises(ModelError, match="check base_url"):
            await turn(model)
        await model.aclose()


@either
async def test_an_empty_answer_is_an_interruption(request_: ModelRequest) -> None:
    async with raw_server(http(b"", "text/plain")) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=Retry(attempts=1))
        with pytest.raises(StreamCut):
            await turn(model, request_)
        await model.aclose()


# Fields that a server refuses.


async def test_a_server_without_stream_options_is_asked_without_them() -> None:
    def script(body: dict[str, Any]) -> Any:
        refused = refuse(400, "Unrecognized request argument: stream_options")
        return refused if "stream_options" in body else "Fine."

    async with FakeOpenAI(script) as fake:
        model = OpenAIModel("m", base_url=fake.base_url, waiting=Waits())
        assert text(await turn(model)) == "Fine."
        assert text(await turn(model)) == "Fine."
    assert len(fake.requests) == 3


async def test_a_service_without_json_schema_gets_the_older_form() -> None:
    request = ModelRequest(HELLO.messages, (WEATHER,))
    async with FakeGemini("Fine.", json_schema=False) as fake:
        model = GeminiModel("gemini-2.5-flash", base_url=fake.base_url, api_key="k")
        assert text(await turn(model, request)) == "Fine."
        assert text(await turn(model, request)) == "Fine."
    forms = [
        next(key for key in r.body["tools"][0]["functionDeclarations"][0] if "parameters" in key)
        for r in fake.requests
    ]
    assert forms == ["parametersJsonSchema", "parameters", "parameters"]


async def test_the_older_form_can_be_asked_for() -> None:
    async with FakeGemini("Fine.", json_schema=False) as fake:
        model = GeminiModel("m", base_url=fake.base_url, api_key="k", schema_form="openapi")
        await turn(model, ModelRequest(HELLO.messages, (WEATHER,)))
    assert len(fake.requests) == 1


MALFORMED = Turn(finish="malformed_call", usage=Usage(10, 2, 12))


@either
async def test_after_a_malformed_call_the_model_is_asked_once_more_and_both_requests_count(
    request_: ModelRequest,
) -> None:
    async with FakeGemini([MALFORMED, say("Fine.", usage=Usage(10, 5, 15))]) as fake:
        events = await turn(GeminiModel("m", base_url=fake.base_url, api_key="k"), request_)
    assert text(events) == "Fine."
    assert end(events).usage == Usage(20, 7, 27)


@either
async def test_after_a_second_malformed_call_the_turn_ends(request_: ModelRequest) -> None:
    async with FakeGemini([MALFORMED, MALFORMED]) as fake:
        events = await turn(GeminiModel("m", base_url=fake.base_url, api_key="k"), request_)
    assert len(fake.requests) == 2
    assert end(events).finish == "malformed_call"
    assert end(events).usage == Usage(20, 4, 24)
    assert end(events).detail


async def test_a_malformed_call_after_output_is_not_repeated() -> None:
    said = Turn(text="Let me", finish="malformed_call")
    async with FakeGemini([said]) as fake:
        events = await turn(GeminiModel("m", base_url=fake.base_url, api_key="k"))
    assert len(fake.requests) == 1
    assert end(events).finish == "malformed_call"


async def test_concurrent_turns_do_not_mix() -> None:
    def script(body: dict[str, Any]) -> str:
        return f"echo {body['messages'][-1]['content']}"

    async with FakeOpenAI(script) as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        asked = [ModelRequest((Message.user(str(n)),), live=n % 2 == 0) for n in range(40)]
        answers = await asyncio.gather(*(turn(model, request) for request in asked))
        await model.aclose()
    assert [text(events) for events in answers] == [f"echo {n}" for n in range(40)]


async def test_the_log_line_of_a_retry_names_the_status_and_the_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "windlass.models")
    refused = refuse(429, "slow down", retry_after=3.0)
    async with FakeOpenAI([refused, "Hello."]) as fake:
        model = OpenAIModel("m", base_url=fake.base_url, api_key="k", waiting=Waits())
        assert text(await turn(model)) == "Hello."
        await model.aclose()
    [line] = [record.getMessage() for record in caplog.records if "retrying" in record.msg]
    assert line == (
        "model request failed (HTTP 429, retry after 3 s): retrying in 3.2 s (attempt 2 of 4)"
    )
