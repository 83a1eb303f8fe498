"""Gemini's decoder: whole parts, signatures, streamed arguments, ends."""

import base64
import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_wires import called, decoded, end, splits, text, thoughts

from windlass.content import FunctionCall, InlineData, Opaque, Usage, is_own_call_id
from windlass.errors import ModelError, StreamCut
from windlass.events import (
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.wires.gemini.read_events import FINISH, AnswerDecoder, path_steps
from windlass.wires.sse import SseDecoder


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    candidate |= fields.pop("candidate", {})
    answer = {"candidates": [candidate], "modelVersion": "gemini-x", **fields}
    types.GenerateContentResponse.model_validate_json(json.dumps(answer))
    return json.dumps(answer).encode()


def streamed(*payloads: bytes) -> list[ModelEvent]:
    return decoded(AnswerDecoder(), *payloads)


def from_body(body: bytes) -> list[ModelEvent]:
    decoder = AnswerDecoder()
    return [*decoder.feed_body(body), *decoder.finish()]


STOP = chunk(finish="STOP")
SIGNATURE = "c2ln"


def test_text_and_thoughts() -> None:
    events = streamed(
        chunk({"text": "Hm", "thought": True}), chunk({"text": "Hel"}, {"text": "lo"}), STOP
    )
    assert events[:-1] == [ThoughtDelta("Hm"), TextDelta("Hel"), TextDelta("lo")]
    assert end(events).finish == "stop"


def test_a_signature_stays_on_the_part_that_carried_it() -> None:
    events = streamed(
        chunk({"text": "a", "thoughtSignature": SIGNATURE}),
        chunk({"text": "b"}),
        chunk({"text": "", "thoughtSignature": "bGFzdA=="}, finish="STOP"),
    )
    assert events[:-1] == [
        TextDelta("a", SIGNATURE),
        TextDelta("b"),
        TextDelta("", "bGFzdA=="),
    ]


def test_a_call_comes_whole() -> None:
    call = {
        "functionCall": {"id": "i", "name": "f", "args": {"x": 1}},
        "thoughtSignature": SIGNATURE,
    }
    events = streamed(chunk(call, finish="STOP"))
    assert events[:-1] == [
        ToolCallStarted(0, "i", "f"),
        ToolCallDelta(0, '{"x":1}'),
        ToolCallEnded(0, FunctionCall("f", '{"x":1}', "i", SIGNATURE)),
    ]
    assert end(events).finish == "tool_calls"


def test_parallel_calls_without_ids_and_arguments() -> None:
    events = streamed(
        chunk({"functionCall": {"name": "f"}}),
        chunk({"functionCall": {"name": "f", "args": {}}}),
        STOP,
    )
    assert called(events) == [("f", "{}"), ("f", "{}")]
    ids = [event.call.id for event in events if isinstance(event, ToolCallEnded)]
    assert all(map(is_own_call_id, ids))
    assert len(set(ids)) == 2
    assert [e.index for e in events if isinstance(e, ToolCallStarted)] == [0, 1]


def test_fields_beside_and_inside_a_known_part_are_preserved() -> None:
    payload = b"""{"candidates": [{"finishReason": "STOP", "content": {"parts": [
        {"text": "a", "partMetadata": {"k": 1}},
        {"functionCall": {"name": "f", "new": true}, "other": 2}]}}]}"""
    events = streamed(payload)
    assert events[0] == TextDelta("a", None, {"gemini": {"partMetadata": {"k": 1}}})
    (ended,) = [event.call for event in events if isinstance(event, ToolCallEnded)]
    assert ended.extra == {"gemini": {"functionCall": {"new": True}, "other": 2}}


def test_unknown_parts_and_media_are_received_whole() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": SIGNATURE}
    image = {"inlineData": {"mimeType": "image/png", "data": "eA=="}, "thoughtSignature": SIGNATURE}
    events = streamed(chunk(code, image, finish="STOP"))
    signed = {"gemini": {"thoughtSignature": SIGNATURE}}
    assert events[:-1] == [
        PartReceived(Opaque("gemini", code)),
        PartReceived(InlineData(b"x", "image/png", extra=signed)),
    ]


def test_every_finish_reason_of_the_sdk_is_in_the_table() -> None:
    assert set(FINISH) == {reason.value for reason in types.FinishReason}


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "malformed_call"),
        ("OTHER", "other"),
    ],
)
def test_finish_reasons(word: str, finish: str) -> None:
    found = end(streamed(chunk({"text": "a"}, finish=word)))
    assert (found.finish, found.detail) == (finish, word)


def test_an_unknown_finish_reason_is_other() -> None:
    found = end(streamed(b'{"candidates": [{"finishReason": "BORED"}]}'))
    assert (found.finish, found.detail) == ("other", "BORED")


def test_the_finish_message_is_the_detail() -> None:
    more = {"finishMessage": "Malformed function call: f("}
    events = streamed(chunk(finish="MALFORMED_FUNCTION_CALL", candidate=more))
    assert end(events).detail == "Malformed function call: f("


def test_a_blocked_prompt() -> None:
    feedback = {"blockReason": "SAFETY", "blockReasonMessage": "Not that."}
    found = end(streamed(json.dumps({"promptFeedback": feedback}).encode()))
    assert (found.finish, found.detail) == ("content_filter", "Not that.")
    bare = json.dumps({"promptFeedback": {"blockReason": "OTHER"}}).encode()
    assert end(streamed(bare)).detail == "OTHER"


def test_usage_is_the_last_of_the_running_totals() -> None:
    first = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}
    last = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 5,
        "toolUsePromptTokenCount": 2,
        "totalTokenCount": 19,
    }
    events = streamed(
        chunk({"text": "a"}, usageMetadata=first), chunk(finish="STOP", usageMetadata=last)
    )
    assert end(events).usage == Usage(11, 8, 19, 4, 5)


def test_the_metadata_of_an_answer_is_separate() -> None:
    sources = {"webSearchQueries": ["q"]}
    events = streamed(chunk({"text": "a"}, finish="STOP", candidate={"groundingMetadata": sources}))
    assert end(events).message_extra == {"gemini_candidate": {"groundingMetadata": sources}}


def test_a_stream_without_a_finish_reason_is_cut() -> None:
    with pytest.raises(StreamCut):
        streamed(chunk({"text": "a"}))
    with pytest.raises(StreamCut):
        streamed(b'{"usageMetadata": {}}')


@pytest.mark.parametrize("body", [b"{}", b'{"candidates": []}', b"[]"])
def test_a_body_without_an_answer_reports_it(body: bytes) -> None:
    found = end(from_body(body))
    assert (found.finish, found.detail) == ("other", "the model gave no answer")


def test_a_body_needs_no_finish_reason() -> None:
    assert end(from_body(chunk({"text": "a"}))).finish == "stop"
    assert end(from_body(chunk({"functionCall": {"name": "f"}}))).finish == "tool_calls"


def test_a_body_may_be_a_list_of_chunks() -> None:
    events = from_body(
        b"[" + chunk({"text": "a"}) + b",\n" + chunk({"text": "b"}, finish="STOP") + b"]"
    )
    assert text(events) == "ab"


@pytest.mark.parametrize("payload", [b'{"candidates": [', b"no", b'{"candidates": 1}', b"[1]"])
def test_an_unreadable_answer_is_no_success(payload: bytes) -> None:
    with pytest.raises(StreamCut):
        streamed(payload, STOP)


def test_a_part_that_cannot_be_read_is_no_success() -> None:
    with pytest.raises(StreamCut, match="functionCall"):
        streamed(b'{"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}')


def test_a_page_is_an_error_that_reports_it() -> None:
    with pytest.raises(ModelError, match="base_url"):
        from_body(b"<html>")


@pytest.mark.parametrize("listed", [False, True])
def test_an_error_in_the_answer_is_raised(listed: bool) -> None:
    error = {"error": {"code": 503, "message": "Overloaded key-123.", "status": "UNAVAILABLE"}}
    payload = json.dumps([error] if listed else error).encode()
    decoder = AnswerDecoder({"key-123"})
    with pytest.raises(ModelError, match="Overloaded") as raised:
        decoder.feed_body(payload)
    assert raised.value.status == 503
    assert raised.value.retryable
    assert "key-123" not in raised.value.message


def test_log_probabilities_are_read_with_their_alternatives() -> None:
    result = {
        "chosenCandidates": [{"token": "H\u00e9", "logProbability": -0.5}, {"token": "!"}],
        "topCandidates": [{"candidates": [{"token": "Ha", "logProbability": -2.0}]}],
    }
    body = chunk({"text": "H\u00e9!"}, finish="STOP", candidate={"logprobsResult": result})
    ends = [event for event in from_body(body) if isinstance(event, TextDelta | TurnEnded)]
    [logprobs] = [event.logprobs for event in ends if event.logprobs]
    other = {"token": "Ha", "logprob": -2.0, "bytes": [72, 97]}
    first = {"token": "H\u00e9", "logprob": -0.5, "bytes": [72, 195, 169], "top_logprobs": [other]}
    last = {"token": "!", "logprob": 0.0, "bytes": [33], "top_logprobs": []}
    assert logprobs == {"content": [first, last]}


def test_half_a_character_does_not_break_the_turn() -> None:
    half = b'{"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]},"finishReason":"STOP"}],'
    events = streamed(half + b'"usageMetadata":{"promptTokenCount":3}}')
    assert text(events) == "\ufffd"
    assert end(events).usage.input_tokens == 3


def test_only_the_first_candidate_is_the_turn() -> None:
    other = b'{"candidates":[{"index":1,"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}'
    assert text(streamed(chunk({"text": "a"}), other, STOP)) == "a"


def test_the_sdk_s_own_response_parses() -> None:
    part = types.Part(
        function_call=types.FunctionCall(id="i", name="f", args={"x": 1}), thought_signature=b"sig"
    )
    response = types.GenerateContentResponse(
        candidates=[
            types.Candidate(
                content=types.Content(role="model", parts=[types.Part(text="Hi"), part]),
                finish_reason=types.FinishReason.STOP,
            )
        ],
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3),
    )
    body = response.model_dump_json(by_alias=True, exclude_none=True).encode()
    events = from_body(body)
    assert text(events) == "Hi"
    (call,) = [event.call for event in events if isinstance(event, ToolCallEnded)]
    assert call == FunctionCall("f", '{"x":1}', "i", base64.b64encode(b"sig").decode())


# Arguments that Vertex streams.


def piece(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def part(*pieces: Any, **fields: Any) -> bytes:
    call = {**({"partialArgs": list(pieces)} if pieces else {}), **fields}
    return chunk({"functionCall": call})


def test_streamed_arguments_become_one_object() -> None:
    events = streamed(
        chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": SIGNATURE}),
        part(piece("$.city", stringValue="Bos", willContinue=True), willContinue=True),
        part(piece("$.city", stringValue="ton"), willContinue=True),
        part(piece("$.days", numberValue=3.0), piece("$.warm", boolValue=False), willContinue=True),
        part(piece("$.near[0].name", stringValue="Salem"), willContinue=True),
        part(piece("$.near[1]['first name']", nullValue="NULL_VALUE"), willContinue=True),
        chunk({"functionCall": {}}),
        STOP,
    )
    (call,) = [event.call for event in events if isinstance(event, ToolCallEnded)]
    assert call.arguments == {
        "city": "Boston",
        "days": 3,
        "warm": False,
        "near": [{"name": "Salem"}, {"first name": None}],
    }
    assert (call.name, call.signature) == ("f", SIGNATURE)
    pieces = "".join(event.json for event in events if isinstance(event, ToolCallDelta))
    assert pieces == call.json


def test_streamed_calls_follow_each_other() -> None:
    events = streamed(
        part(name="f", willContinue=True),
        part(piece("$.x", numberValue=1)),
        part(piece("$.y", numberValue=0.5), name="g"),
        chunk({"functionCall": {"name": "h", "args": {"z": 1}}}),
        part(name="i", willContinue=True),
        part(name="j", willContinue=True),
        STOP,
    )
    assert called(events) == [
        ("f", '{"x":1}'),
        ("g", '{"y":0.5}'),
        ("h", '{"z":1}'),
        ("i", "{}"),
        ("j", "{}"),
    ]


def test_a_streamed_text_may_be_empty() -> None:
    events = streamed(
        part(piece("$.x", willContinue=True), name="f", willContinue=True),
        part(piece("$.x", stringValue="")),
        STOP,
    )
    assert called(events) == [("f", '{"x":""}')]


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a.b[0].c", ("a", "b", 0, "c")),
        ("$['a b'][\"c.d\"]", ("a b", "c.d")),
        ("$['it\\'s']", ("it's",)),
        ("a.b", ("a", "b")),
    ],
)
def test_json_paths(path: str, steps: tuple[Any, ...]) -> None:
    assert path_steps(path) == steps


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("$[", stringValue="a")],
        [piece("$.a[999999999]", stringValue="a")],
        [piece("$[0]", stringValue="a")],
        [piece("$.a", numberValue=1), piece("$.a.b", numberValue=1)],
    ],
)
def test_streamed_arguments_that_make_no_sense_are_a_broken_stream(pieces: list[Any]) -> None:
    with pytest.raises(StreamCut):
        streamed(part(*pieces, name="f"), STOP)


STREAM = b"".join(
    b"data: " + payload + b"\r\n\r\n"
    for payload in (
        chunk({"text": "Hm 😀", "thought": True}),
        chunk({"text": "Grüße"}, usageMetadata={"promptTokenCount": 3}),
        chunk({"functionCall": {"id": "i", "name": "f", "args": {"x": "é"}}}),
        chunk({"text": "", "thoughtSignature": SIGNATURE}, finish="STOP"),
    )
)


def events_of(chunks: list[bytes]) -> list[ModelEvent]:
    sse = SseDecoder()
    payloads = [payload for piece in chunks for payload in sse.feed(piece)]
    return streamed(*payloads, *sse.finish())


def test_a_stream_split_at_every_byte_gives_the_same_events() -> None:
    whole = events_of([STREAM])
    assert thoughts(whole) == "Hm 😀"
    assert events_of([STREAM[i : i + 1] for i in range(len(STREAM))]) == whole
    for place in range(len(STREAM)):
        assert events_of([STREAM[:place], STREAM[place:]]) == whole


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_a_stream_split_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    assert events_of(splits(STREAM, cuts)) == events_of([STREAM])


NAMES = st.sampled_from(
    ["text", "thought", "thoughtSignature", "functionCall", "name", "args", "id", "inlineData",
     "data", "mimeType", "partialArgs", "willContinue", "jsonPath", "stringValue", "parts"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text("$.a[0]", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(NAMES, VALUES), max_size=5))
def test_no_json_in_a_part_breaks_the_decoder(parts: list[dict[str, Any]]) -> None:
    body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    try:
        events = streamed(json.dumps(body).encode())
    except StreamCut:
        return
    started = [e.index for e in events if isinstance(e, ToolCallStarted)]
    assert started == [e.index for e in events if isinstance(e, ToolCallEnded)]
    end(events)
