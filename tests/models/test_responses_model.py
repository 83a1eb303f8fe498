"""`responses/` over HTTP: the requests of later rounds, and the answers."""

from typing import Any

import msgspec
import pytest
from tests.support.model_wires import HELLO, WEATHER, called, decoded, end, text, thoughts, turn

from windlass import Client, Opaque, ProviderTool, Settings, tool
from windlass.content import FunctionCall, FunctionResponse, InlineData, Message, Thought
from windlass.errors import ConfigError, ModelError, StreamCut
from windlass.events import PartReceived, TextDelta, ThoughtDelta, ToolCallEnded
from windlass.model import ModelRequest, ToolChoice
from windlass.models.responses import ResponsesModel
from windlass.models.retry import Retry
from windlass.testing import FakeResponses, Turn, call, calls, interrupt, refuse, say, think
from windlass.wires.responses.read_events import AnswerDecoder
from windlass.wires.responses.write_request import RequestEncoder


@tool
def get_weather(city: str) -> Any:
    """Current weather."""
    if city == "picture":
        return InlineData(b"png", "image/png")
    return f"22 in {city}"


def sent(request: ModelRequest, *, official: bool = True) -> dict[str, Any]:
    return msgspec.json.decode(RequestEncoder("m", official=official).body(request))


def test_nothing_is_stored_and_reasoning_is_asked_for_encrypted() -> None:
    body = sent(HELLO)
    assert body == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "input": [{"type": "message", "role": "user", "content": "Hello"}],
    }


def test_settings_have_their_places() -> None:
    settings = Settings(
        temperature=0.5,
        max_tokens=9,
        reasoning_effort="low",
        response_schema={"type": "object"},
        response_name="my answer",
        response_strict=True,
        logprobs=True,
        top_logprobs=2,
        stop=("x",),
        seed=1,
    )
    body = sent(ModelRequest(HELLO.messages, settings=settings))
    assert (body["temperature"], body["max_output_tokens"]) == (0.5, 9)
    assert body["reasoning"] == {"effort": "low"}
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "my_answer",
        "schema": {"type": "object"},
        "strict": True,
    }
    assert "message.output_text.logprobs" in body["include"]
    assert body.keys().isdisjoint({"stop", "seed", "top_k"})
    other = sent(ModelRequest(HELLO.messages, settings=settings), official=False)
    assert (other["stop"], other["seed"]) == (["x"], 1)
    any_json = ModelRequest(HELLO.messages, settings=Settings(response_schema={}))
    assert sent(any_json)["text"] == {"format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("required"), "required"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required", ("get_weather",)), {"type": "function", "name": "get_weather"}),
        (
            ToolChoice("auto", ("get_weather",)),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "get_weather"}],
            },
        ),
    ],
)
def test_the_tool_choice(choice: ToolChoice, expected: Any) -> None:
    other = msgspec.structs.replace(WEATHER, name="other", strict=True)
    request = ModelRequest(
        HELLO.messages, (WEATHER, other), tool_choice=choice, parallel_tool_calls=False
    )
    body = sent(request)
    assert body.get("tool_choice") == expected
    assert [each["strict"] for each in body["tools"]] == [False, True]
    assert body["tools"][0]["name"] == "get_weather"
    assert body["parallel_tool_calls"] is False


@pytest.mark.parametrize("live", [True, False])
def test_reasoning_is_returned_unchanged_in_later_rounds(live: bool) -> None:
    script = [think("Hmm.", calls(call("get_weather", city="Rome"), text="Wait.")), "It is 22."]
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        if live:
            with client.stream("?", tools=[get_weather]) as stream:
                list(stream)
            reply = stream.reply
        else:
            reply = client.generate("?", tools=[get_weather])
    assert reply.text == "It is 22."
    assert reply.thoughts == "Hmm."
    first, second = (request.body["input"] for request in fake.requests)
    assert [item["type"] for item in second] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert second[:1] == first
    assert second[1]["encrypted_content"].startswith("gAAAA")
    assert second[1]["summary"] == [{"type": "summary_text", "text": "Hmm."}]


def test_a_picture_from_a_tool_is_in_its_result() -> None:
    script = [call("get_weather", city="picture"), "A cloud."]
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        assert client.generate("?", tools=[get_weather]).text == "A cloud."
    output = fake.requests[1].body["input"][-1]["output"]
    assert output[1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,cG5n",
        "detail": "auto",
    }


def test_stored_responses_are_continued_on_request() -> None:
    script = [call("get_weather", city="Rome"), "It is 22.", "Bye."]
    extra = {"previous_response_id": "auto"}
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        reply = client.generate("?", tools=[get_weather], extra=extra)
        fake.stored.clear()
        history = [*reply.messages, Message.user("Thanks")]
        assert client.generate(history, extra=extra).text == "Bye."
    first, second, third, fourth = (request.body for request in fake.requests)
    assert (first["store"], "previous_response_id" in first) == (True, False)
    assert [item["type"] for item in second["input"]] == ["function_call_output"]
    assert second["previous_response_id"].startswith("resp_")
    assert third["input"] == [{"type": "message", "role": "user", "content": "Thanks"}]
    assert "previous_response_id" not in fourth  # the service has forgotten the response
    assert len(fourth["input"]) == 5


async def test_a_model_without_reasoning_is_asked_without_it() -> None:
    async with FakeResponses(["One.", "Two."], reasoning=False) as fake:
        model = ResponsesModel("m", base_url=fake.base_url, retry=Retry(attempts=1))
        assert text(await turn(model)) == "One."
        assert text(await turn(model)) == "Two."
        await model.aclose()
    asked = ["include" in request.body for request in fake.requests]
    assert asked == [True, False, False]


def test_tools_of_the_provider_are_passed_through() -> None:
    search = {"type": "web_search", "search_context_size": "low"}
    found = Opaque(
        "responses",
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "x"}},
    )
    script = [Turn(parts=(found, FunctionCall("get_weather", '{"city":"Rome"}'))), "Yes."]
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        reply = client.generate("?", tools=[search, get_weather])
    assert reply.text == "Yes."
    assert fake.requests[0].body["tools"][0] == search
    assert fake.requests[1].body["input"][1]["id"] == "ws_1"


def test_a_custom_tool_is_called_with_free_text() -> None:
    patch = ProviderTool("responses", {"type": "custom", "name": "apply_patch"})
    script = [call("apply_patch", input="*** Begin"), "Done."]
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        first = client.generate("?", tools=[patch])
        (made,) = first.pending
        assert made.arguments == {"input": "*** Begin"}
        answer = FunctionResponse("apply_patch", {"output": "ok"}, made.id)
        assert client.generate(first.follow_up([answer]), tools=[patch]).text == "Done."
    made, result = fake.requests[1].body["input"][1:]
    assert (made["type"], made["input"]) == ("custom_tool_call", "*** Begin")
    assert result["type"] == "custom_tool_call_output"


def test_a_stored_response_is_continued_with_the_result_of_a_custom_tool() -> None:
    patch = ProviderTool("responses", {"type": "custom", "name": "apply_patch"})
    script = [call("apply_patch", input="*** Begin"), "Done."]
    extra = {"previous_response_id": "auto"}
    with FakeResponses(script) as fake, Client("responses/m", base_url=fake.base_url) as client:
        first = client.generate("?", tools=[patch], extra=extra)
        answer = FunctionResponse("apply_patch", {"output": "ok"}, first.pending[0].id)
        client.generate(first.follow_up([answer]), tools=[patch], extra=extra)
    assert [item["type"] for item in fake.requests[1].body["input"]] == ["custom_tool_call_output"]


async def test_cached_and_reasoning_tokens_are_counted() -> None:
    from windlass import Usage

    async with FakeResponses([say("Hi", usage=Usage(10, 5, 15, 4, 3))] * 2) as fake:
        model = ResponsesModel("m", base_url=fake.base_url)
        for live in (True, False):
            ended = end(await turn(model, msgspec.structs.replace(HELLO, live=live)))
            assert ended.usage == Usage(10, 5, 15, 4, 3)
            assert ended.about == {"service_tier": "default"}
        await model.aclose()


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(
    ("step", "finish", "detail"),
    [
        (say("Once", finish="length"), "length", "max_output_tokens"),
        (say("Once", finish="content_filter"), "content_filter", "content_filter"),
        (say("Once", finish="odd"), "other", "odd"),
        (
            Turn(parts=(Opaque("responses", {"type": "refusal", "refusal": "I cannot."}),)),
            "content_filter",
            "I cannot.",
        ),
    ],
)
async def test_how_a_turn_ends(step: Turn, finish: str, detail: str, live: bool) -> None:
    async with FakeResponses([step]) as fake:
        model = ResponsesModel("m", base_url=fake.base_url)
        ended = end(await turn(model, msgspec.structs.replace(HELLO, live=live)))
        await model.aclose()
    assert (ended.finish, ended.detail) == (finish, detail)
    if detail == "I cannot.":
        assert ended.message_extra == {"responses": {"refusal": "I cannot."}}


def test_a_refusal_goes_back_as_one() -> None:
    refused = Message("assistant", (), {"responses": {"refusal": "I cannot."}})
    [_, item, _] = sent(ModelRequest((*HELLO.messages, refused, Message.user("Why?"))))["input"]
    assert item["role"] == "assistant"
    assert item["content"] == [{"type": "refusal", "refusal": "I cannot."}]


async def test_an_error_within_the_stream_is_raised() -> None:
    step = interrupt("Half an answer", after=1, error=refuse(500, "It broke."))
    async with FakeResponses([step]) as fake:
        model = ResponsesModel("m", base_url=fake.base_url)
        with pytest.raises(ModelError, match="It broke") as raised:
            await turn(model)
        await model.aclose()
    assert raised.value.code == "server_error"


async def test_log_probabilities_come_with_their_text() -> None:
    request = ModelRequest(HELLO.messages, settings=Settings(logprobs=True))
    async with FakeResponses(["Hello you"] * 2) as fake:
        model = ResponsesModel("m", base_url=fake.base_url)
        events = await turn(model, request)
        whole = await turn(model, msgspec.structs.replace(request, live=False))
        await model.aclose()
    said = [e.logprobs for e in events if isinstance(e, TextDelta) and e.logprobs]
    tokens = [logprobs["content"][0]["token"] for logprobs in said]
    assert tokens == ["Hello ", "you"]
    (all_said,) = [e for e in whole if isinstance(e, TextDelta)]
    assert all_said.logprobs is not None
    assert [each["token"] for each in all_said.logprobs["content"]] == tokens


def event(kind: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "sequence_number": 0, **fields})


def done(**response: Any) -> bytes:
    return event("response.completed", response={"id": "resp_1", "status": "completed", **response})


def test_unknown_events_and_fields_are_ignored() -> None:
    events = decoded(
        AnswerDecoder(),
        event("response.created", response={}),
        event("response.surprise", delta="x"),
        event("response.output_text.delta", delta="Hi", output_index=0, obfuscation="abc"),
        event("response.output_text.delta", delta=None, output_index=0),
        done(),
        b"[DONE]",
    )
    assert text(events) == "Hi"
    assert end(events).finish == "stop"


def test_items_that_come_only_whole_are_read() -> None:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"text": "Hmm"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]
    events = decoded(AnswerDecoder(), done(output=output))
    assert (thoughts(events), text(events), called(events)) == ("Hmm", "Hi", [("f", "{}")])
    assert end(events).finish == "tool_calls"


def test_text_that_comes_only_with_its_end_is_read_once() -> None:
    whole = event("response.output_text.done", text="Hi", output_index=0)
    assert text(decoded(AnswerDecoder(), whole, done())) == "Hi"
    piece = event("response.output_text.delta", delta="Hi", output_index=0)
    assert text(decoded(AnswerDecoder(), piece, whole, done())) == "Hi"


def test_a_call_without_its_end_is_complete_with_the_response() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": ""}
    events = decoded(
        AnswerDecoder(),
        event("response.output_item.added", item=item, output_index=0),
        event("response.function_call_arguments.delta", delta='{"a":1}', item_id="fc_1"),
        done(),
    )
    assert called(events) == [("f", '{"a":1}')]


def test_summaries_of_several_parts_are_apart() -> None:
    events = decoded(
        AnswerDecoder(),
        event("response.reasoning_summary_part.added", output_index=0, summary_index=0),
        event("response.reasoning_summary_text.delta", output_index=0, delta="One"),
        event("response.reasoning_summary_part.added", output_index=0, summary_index=1),
        event("response.reasoning_summary_text.delta", output_index=0, delta="Two"),
        event("response.reasoning_text.delta", output_index=1, delta="!"),
        done(),
    )
    assert thoughts(events) == "One\n\nTwo!"


def test_phase_and_citations_survive_a_turn() -> None:
    cite = {"type": "url_citation", "url": "http://x"}
    message = {"type": "message", "id": "msg_1", "phase": "commentary", "content": []}
    part = {"type": "output_text", "text": "Hi", "annotations": [cite]}
    events = decoded(
        AnswerDecoder(),
        event("response.output_item.added", item=message, output_index=0),
        event("response.output_text.delta", delta="Hi", output_index=0),
        event("response.content_part.done", part=part, output_index=0),
        done(output=[{**message, "content": [part]}]),
    )
    from windlass.loop.turn import TurnBuilder

    builder = TurnBuilder()
    for each in events:
        builder.add(each)
    body = sent(ModelRequest((Message.user("?"), builder.turn().message)))
    assert body["input"][1]["phase"] == "commentary"
    assert body["input"][1]["content"] == [
        {"type": "output_text", "text": "Hi", "annotations": [cite]}
    ]


@pytest.mark.parametrize(
    "payload",
    [
        event("error", code="server_error", message="down"),
        event("error", error={"code": "server_error", "message": "down"}),
        event(
            "response.failed",
            response={"status": "failed", "error": {"code": "server_error", "message": "down"}},
        ),
        b'{"error": {"code": "server_error", "message": "down"}}',
    ],
)
def test_errors_of_every_form_may_be_tried_again(payload: bytes) -> None:
    with pytest.raises(ModelError, match="down") as raised:
        AnswerDecoder().feed(payload)
    assert raised.value.retryable


def test_a_stream_without_its_end_was_cut() -> None:
    with pytest.raises(StreamCut):
        decoded(AnswerDecoder(), event("response.output_text.delta", delta="Hi"))
    with pytest.raises(StreamCut):
        AnswerDecoder().feed(b"{half")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "not a response; check base_url"),
        (b'{"choices": []}', "not a response"),
        (b'{"object": "response", "status": "queued", "output": []}', "status queued"),
        (b'{"error": {"message": "no"}}', "no"),
        (
            b'{"object": "response", "status": "failed", "output": [], "error": {"message": "no"}}',
            "no",
        ),
    ],
)
def test_a_body_that_is_no_answer_is_an_error(body: bytes, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        AnswerDecoder().feed_body(body)


def test_a_large_answer_is_read_in_steps() -> None:
    long = "x" * 200_000
    output = [{"type": "message", "content": [{"type": "output_text", "text": long}]}]
    assert text(decoded(AnswerDecoder(), done(output=output))) == long


def test_reasoning_that_only_a_gateway_knows_is_not_sent_on() -> None:
    own = "rs_0123456789abcdef01234567_0"
    turn_of = Message.assistant(
        Thought("a", extra={"responses": {"type": "reasoning", "id": own, "summary": []}}),
        Thought(
            "b",
            extra={
                "responses": {
                    "type": "reasoning",
                    "id": own,
                    "summary": [],
                    "encrypted_content": "gA",
                }
            },
        ),
        "Hi",
    )
    _, reasoning, message = sent(ModelRequest((Message.user("?"), turn_of)))["input"]
    assert reasoning == {"type": "reasoning", "summary": [], "encrypted_content": "gA"}
    assert message["content"][0]["text"] == "Hi"
    ends = Message.assistant("Hi", turn_of.parts[1])
    assert len(sent(ModelRequest((Message.user("?"), ends)))["input"]) == 2


def test_a_result_without_a_call_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"messages\[0\]\.parts\[0\]: the response of 'f'"):
        sent(ModelRequest((Message.tool([FunctionResponse("f", {"output": 1})]),)))


def test_hosted_results_are_parts_of_the_turn() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": "cG5n"}
    events = decoded(
        AnswerDecoder(), event("response.output_item.done", item=item, output_index=0), done()
    )
    assert events[0] == PartReceived(Opaque("responses", item))
    assert not any(isinstance(e, ToolCallEnded | ThoughtDelta) for e in events)
