"""The chat-completions decoder against the answers of real servers, good and sloppy."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.support.model_wires import called, decoded, end, splits, text, thoughts

from windlass.content import FunctionCall, Opaque, Usage, is_own_call_id
from windlass.errors import ModelError, StreamCut
from windlass.events import (
    ModelEvent,
    PartReceived,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from windlass.wires.chat.read_events import FINISH, AnswerDecoder
from windlass.wires.sse import SseDecoder

DONE = b"[DONE]"


def delta(fields: Any = None, finish: str | None = None, **chunk: Any) -> bytes:
    choice = {"index": 0, "delta": fields or {}, "finish_reason": finish}
    return json.dumps({"id": "c", "choices": [choice], **chunk}).encode()


def calls_delta(*entries: Any) -> bytes:
    return delta({"tool_calls": list(entries)})


def entry(arguments: Any = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {k: v for k, v in function.items() if v is not None}}


def streamed(*payloads: bytes) -> list[ModelEvent]:
    return decoded(AnswerDecoder(), *payloads)


def from_body(
    message: dict[str, Any], finish: str | None = "stop", **more: Any
) -> list[ModelEvent]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    decoder = AnswerDecoder()
    events = decoder.feed_body(json.dumps({"choices": [choice], **more}).encode())
    return [*events, *decoder.finish()]


STOP = delta(finish="stop")


def test_text_is_passed_on_unchanged() -> None:
    events = streamed(delta({"role": "assistant", "content": ""}), delta({"content": "Hel"}),
                      delta({"content": "lo"}), STOP, DONE)  # fmt: skip
    assert events[:-1] == [TextDelta("Hel"), TextDelta("lo")]
    assert end(events).finish == "stop"


def test_thoughts_are_separate_and_kept_for_later_requests() -> None:
    events = streamed(delta({"reasoning_content": "Hm"}), delta({"reasoning_content": "m."}),
                      delta({"content": "Yes"}), STOP)  # fmt: skip
    assert (thoughts(events), text(events)) == ("Hmm.", "Yes")
    assert end(events).message_extra == {"openai": {"reasoning_content": "Hmm."}}


def test_thoughts_in_two_fields_are_emitted_once() -> None:
    events = streamed(delta({"reasoning": "a", "reasoning_content": "a"}), STOP)
    assert thoughts(events) == "a"


def test_a_call_starts_once_grows_and_ends_complete() -> None:
    events = streamed(
        calls_delta(entry("", "get_weather", index=0, id="call_1", type="function")),
        calls_delta(entry('{"city":', index=0)),
        calls_delta(entry('"Paris"}', index=0)),
        delta(finish="tool_calls"),
        DONE,
    )
    assert events[:-1] == [
        ToolCallStarted(0, "call_1", "get_weather"),
        ToolCallDelta(0, '{"city":'),
        ToolCallDelta(0, '"Paris"}'),
        ToolCallEnded(0, FunctionCall("get_weather", '{"city":"Paris"}', "call_1")),
    ]
    assert end(events).finish == "tool_calls"


def test_a_call_ends_when_the_next_one_starts() -> None:
    events = streamed(
        calls_delta(entry("{}", "a", index=0, id="1")),
        calls_delta(entry("{}", "b", index=1, id="2")),
        STOP,
    )
    kinds = [(type(event).__name__, getattr(event, "index", None)) for event in events[:-1]]
    assert kinds == [
        ("ToolCallStarted", 0),
        ("ToolCallDelta", 0),
        ("ToolCallEnded", 0),
        ("ToolCallStarted", 1),
        ("ToolCallDelta", 1),
        ("ToolCallEnded", 1),
    ]


def test_interleaved_calls_are_kept_apart() -> None:
    events = streamed(
        calls_delta(entry('{"x":', "a", index=0, id="1"), entry('{"y":', "b", index=1, id="2")),
        calls_delta(entry("1}", index=0), entry("2}", index=1)),
        STOP,
    )
    assert called(events) == [("a", '{"x":1}'), ("b", '{"y":2}')]


SLOPPY: dict[str, tuple[list[bytes], list[tuple[str, str]]]] = {
    "no index, ids": (
        [calls_delta(entry('{"x"', "a", id="1")), calls_delta(entry(":1}", id="1")),
         calls_delta(entry("{}", "b", id="2"))],
        [("a", '{"x":1}'), ("b", "{}")],
    ),
    "no index, no ids": (
        [calls_delta(entry('{"x"', "a")), calls_delta(entry(":1}")), calls_delta(entry("{}", "b"))],
        [("a", '{"x":1}'), ("b", "{}")],
    ),
    "whole calls in one delta, no index": (
        [calls_delta(entry("{}", "a", id="1"), entry('{"x":1}', "b", id="2"))],
        [("a", "{}"), ("b", '{"x":1}')],
    ),
    "whole calls in one delta, all index 0, no ids": (
        [calls_delta(entry("{}", "a", index=0), entry("{}", "a", index=0))],
        [("a", "{}"), ("a", "{}")],
    ),
    "all index 0, different ids": (
        [calls_delta(entry('{"x":', "a", index=0, id="1")), calls_delta(entry("1}", index=0)),
         calls_delta(entry('{"y":', "b", index=0, id="2")), calls_delta(entry("2}", index=0))],
        [("a", '{"x":1}'), ("b", '{"y":2}')],
    ),
    "id and name repeated in every delta": (
        [calls_delta(entry('{"x":', "a", index=0, id="1")),
         calls_delta(entry("1}", "a", index=0, id="1"))],
        [("a", '{"x":1}')],
    ),
    "name repeated without an id": (
        [calls_delta(entry('{"x":', "a", index=0)), calls_delta(entry("1}", "a", index=0))],
        [("a", '{"x":1}')],
    ),
    "empty id and name in later deltas": (
        [calls_delta(entry('{"x":', "a", index=0, id="1")),
         calls_delta(entry("1}", "", index=0, id=""))],
        [("a", '{"x":1}')],
    ),
    "name in pieces": (
        [calls_delta(entry("", "get_", index=0, id="1")), calls_delta(entry("", "time", index=0)),
         calls_delta(entry("{}", index=0))],
        [("get_time", "{}")],
    ),
    "the same id for two indices": (
        [calls_delta(entry("{}", "a", index=0, id="x")),
         calls_delta(entry("{}", "b", index=1, id="x"))],
        [("a", "{}"), ("b", "{}")],
    ),
    "arguments as an object": (
        [calls_delta(entry({"x": [1, None]}, "a", index=0, id="1"))],
        [("a", '{"x":[1,null]}')],
    ),
    "arguments null": ([calls_delta(entry(None, "a", index=0, id="1"))], [("a", "")]),
    "the id comes late": (
        [calls_delta(entry('{"x":', "a", index=0)), calls_delta(entry("1}", index=0, id="1"))],
        [("a", '{"x":1}')],
    ),
    "indices that do not start at 0": (
        [calls_delta(entry("{}", "a", index=1, id="1")),
         calls_delta(entry("{}", "b", index=2, id="2"))],
        [("a", "{}"), ("b", "{}")],
    ),
    "tool_calls as one object": ([delta({"tool_calls": entry("{}", "a", id="1")})], [("a", "{}")]),
    "legacy function_call": (
        [delta({"function_call": {"name": "a", "arguments": ""}}),
         delta({"function_call": {"arguments": '{"x":1}'}})],
        [("a", '{"x":1}')],
    ),
    "late deltas of an ended call": (
        [calls_delta(entry("{}", "a", index=0, id="1")),
         calls_delta(entry("{}", "b", index=1, id="2")),
         calls_delta(entry(" ", index=0))],
        [("a", "{}"), ("b", "{}")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPPY)
def test_deviating_calls_of_compatible_servers_are_read(name: str) -> None:
    payloads, expected = SLOPPY[name]
    events = streamed(*payloads, STOP, DONE)
    assert called(events) == expected
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [event.index for event in started] == list(range(len(expected)))
    assert len({event.id for event in started}) == len(expected)
    for event in events:
        if isinstance(event, ToolCallEnded):
            pieces = [
                e.json for e in events if isinstance(e, ToolCallDelta) and e.index == event.index
            ]
            assert event.call.json == "".join(pieces)
            assert event.call.id == started[event.index].id
    assert end(events).finish == "tool_calls"


def test_a_call_without_an_id_gets_one() -> None:
    events = streamed(calls_delta(entry("{}", "a", index=0)), STOP)
    assert isinstance(events[0], ToolCallStarted)
    assert is_own_call_id(events[0].id)


def test_a_thought_signature_of_google_is_read_and_kept_in_its_place() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    events = streamed(calls_delta(entry("{}", "a", index=0, id="1", extra_content=extra)), STOP)
    (call,) = [event.call for event in events if isinstance(event, ToolCallEnded)]
    assert call.signature == "sig"
    assert call.extra == {"openai": {"extra_content": extra}}


@pytest.mark.parametrize(
    ("word", "finish", "detail"),
    [
        ("stop", "stop", None),
        ("length", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("function_call", "stop", None),
        ("max_tokens", "length", "max_tokens"),
        ("weird", "other", "weird"),
    ],
)
def test_finish_reasons(word: str, finish: str, detail: str | None) -> None:
    found = end(streamed(delta({"content": "x"}), delta(finish=word)))
    assert (found.finish, found.detail) == (finish, detail)


def test_every_finish_reason_of_the_sdk_is_known() -> None:
    words = ChatCompletionChunk.model_fields["choices"].annotation.__args__[0].model_fields  # type: ignore[union-attr]
    known = words["finish_reason"].annotation.__args__[0].__args__
    assert set(known) <= set(FINISH)


def test_a_turn_truncated_by_the_limit_still_ends_its_calls() -> None:
    events = streamed(calls_delta(entry('{"x":', "a", index=0, id="1")), delta(finish="length"))
    assert called(events) == [("a", '{"x":')]
    assert end(events).finish == "length"


def test_the_last_usage_counts() -> None:
    events = streamed(
        delta({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        delta(finish="stop", usage=None),
        json.dumps(
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "total_tokens": 13,
                    "prompt_tokens_details": {"cached_tokens": 5},
                    "completion_tokens_details": {"reasoning_tokens": 2},
                },
            }
        ).encode(),
        DONE,
    )
    assert end(events).usage == Usage(9, 4, 13, 5, 2)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, Usage()),
        (None, Usage()),
        ({"prompt_tokens": 3.0, "completion_tokens": None}, Usage(3, 0, 3)),
        ({"prompt_tokens": "3", "total_tokens": True}, Usage()),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}, Usage(3, 0, 3, 2)),
        ({"prompt_tokens_details": None, "completion_tokens_details": []}, Usage()),
    ],
)
def test_deviating_usage_of_compatible_servers_is_read(usage: Any, expected: Usage) -> None:
    assert end(from_body({"content": "x"}, usage=usage)).usage == expected


def test_done_without_a_finish_reason_is_an_end() -> None:
    assert end(streamed(delta({"content": "a"}), DONE)).finish == "stop"


def test_a_finish_reason_without_done_is_an_end() -> None:
    assert end(streamed(delta({"content": "a"}), STOP)).finish == "stop"


def test_neither_done_nor_a_finish_reason_is_a_cut_stream() -> None:
    with pytest.raises(StreamCut):
        streamed(delta({"content": "a"}))


def test_chunks_after_the_finish_still_count() -> None:
    events = streamed(STOP, delta({"content": "late"}), delta(), DONE)
    assert text(events) == "late"
    assert end(events).finish == "stop"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices": [{"delta": {"content": "a"',
        b"not json",
        b'{"choices": 3}',
        b'{"choices": [{"finish_reason": 3}]}',
        b"[]",
    ],
)
def test_an_unreadable_answer_is_an_error(payload: bytes) -> None:
    with pytest.raises(StreamCut):
        streamed(payload, STOP)


def test_half_a_character_does_not_break_the_turn() -> None:
    half = b'{"choices":[{"delta":{"content":"\\ud83d"}}]}'
    assert text(streamed(half, STOP)) == "\ufffd"


@pytest.mark.parametrize(
    ("chunk", "message", "retryable"),
    [
        ({"error": {"message": "overloaded", "code": 503}}, "overloaded", True),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, "bad", False),
        ({"error": "words"}, "words", False),
        ({"object": "error", "message": "m", "code": 500}, "m", True),
        (
            {
                "error": {"message": "e", "code": 502},
                "choices": [{"delta": {}, "finish_reason": "error"}],
            },
            "e",
            True,
        ),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "the model's service", True),
    ],
)
def test_an_error_in_the_stream_is_raised(chunk: Any, message: str, retryable: bool) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        streamed(delta({"content": "a"}), json.dumps(chunk).encode())
    assert raised.value.retryable is retryable


def test_an_error_in_the_stream_does_not_show_the_key() -> None:
    with pytest.raises(ModelError) as raised:
        decoded(AnswerDecoder({"sk-secret"}), b'{"error": "bad key sk-secret"}')
    assert "sk-secret" not in str(raised.value)


def test_unknown_delta_fields_are_kept_whole() -> None:
    first = {"type": "reasoning.text", "index": 0, "id": "r", "text": "Let ", "signature": None}
    second = {"type": "reasoning.text", "index": 0, "id": "r", "text": "me.", "signature": "s"}
    other = {"type": "reasoning.encrypted", "index": 0, "data": "xyz"}
    events = streamed(
        delta({"reasoning_details": [first], "audio": {"id": "a", "data": "AA"}, "seen": None}),
        delta({"reasoning_details": [second], "audio": {"data": "BB"}, "flag": True}),
        delta({"reasoning_details": [other], "annotations": [1]}),
        STOP,
    )
    joined = {"type": "reasoning.text", "index": 0, "id": "r", "text": "Let me.", "signature": "s"}
    assert end(events).message_extra == {
        "openai": {
            "reasoning_details": [joined, other],
            "audio": {"id": "a", "data": "AABB"},
            "flag": True,
            "annotations": [1],
        }
    }


def test_empty_lists_are_dropped() -> None:
    events = from_body({"content": "a", "annotations": [], "audio": None, "reasoning_content": ""})
    assert end(events).message_extra == {"openai": {"reasoning_content": ""}}


def test_a_refusal_is_a_content_filter_stop() -> None:
    found = end(streamed(delta({"refusal": "I can"}), delta({"refusal": "not."}), STOP))
    assert (found.finish, found.detail) == ("content_filter", "I cannot.")
    assert found.message_extra == {"openai": {"refusal": "I cannot."}}


def test_content_in_parts_is_decoded() -> None:
    image = {"type": "image_url", "image_url": {"url": "u"}}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    events = from_body({"content": [thinking, {"type": "text", "text": "hi"}, image, "odd"]})
    assert (thoughts(events), text(events)) == ("hm", "hi")
    assert PartReceived(Opaque("openai", image)) in events


def test_only_the_first_of_several_answers_is_the_turn() -> None:
    other = b'{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"stop"}]}'
    events = streamed(delta({"content": "mine"}), other, STOP)
    assert text(events) == "mine"


def test_a_body_gives_the_same_events_as_a_stream() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "Hm",
        "tool_calls": [call],
    }
    whole = from_body(message, finish="tool_calls", usage={"prompt_tokens": 1})
    pieces = streamed(
        delta({"reasoning_content": "Hm"}),
        delta({"content": "Hi"}),
        calls_delta({"index": 0, **call}),
        delta(finish="tool_calls", usage={"prompt_tokens": 1}),
        DONE,
    )
    assert whole == pieces


@pytest.mark.parametrize("finish", [None, ""])
def test_a_body_needs_no_finish_reason(finish: str | None) -> None:
    assert end(from_body({"content": "x"}, finish)).finish == "stop"
    calls = [entry("{}", "a", id="1"), entry("{}", "a", id="1")]
    events = from_body({"content": None, "tool_calls": calls}, finish)
    assert end(events).finish == "tool_calls"
    assert len({event.call.id for event in events if isinstance(event, ToolCallEnded)}) == 2


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b'{"choices": []}'])
def test_a_body_that_is_no_chat_completion_is_a_clear_error(body: bytes) -> None:
    with pytest.raises(ModelError, match="not a chat completion") as raised:
        AnswerDecoder().feed_body(body)
    assert not raised.value.retryable


def test_a_truncated_body_is_a_cut_stream() -> None:
    with pytest.raises(StreamCut):
        AnswerDecoder().feed_body(b'{"choices": [{"message": {"content": "a')


def test_the_sdk_s_own_completion_parses() -> None:
    message = {"role": "assistant", "content": "Hi", "refusal": None}
    completion = ChatCompletion.model_validate(
        {
            "id": "c",
            "created": 1,
            "model": "m",
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
    )
    decoder = AnswerDecoder()
    events = decoder.feed_body(completion.to_json().encode())
    assert text(events) == "Hi"
    assert end(decoder.finish()).usage == Usage(1, 2, 3)


STREAM = b"".join(
    b"data: " + payload + b"\n\n"
    for payload in (
        delta({"role": "assistant", "content": ""}),
        delta({"reasoning_content": "Hm 😀"}),
        delta({"content": "Grüße, "}),
        delta({"content": "Welt"}),
        calls_delta(entry("", "a", index=0, id="1")),
        calls_delta(entry('{"x":"é"}', index=0)),
        calls_delta(entry("{}", "b", index=1, id="2")),
        delta(finish="tool_calls"),
        b'{"choices":[],"usage":{"prompt_tokens":3}}',
        DONE,
    )
)


def events_of(chunks: list[bytes]) -> list[ModelEvent]:
    sse = SseDecoder()
    payloads = [payload for chunk in chunks for payload in sse.feed(chunk)]
    return streamed(*payloads, *sse.finish())


def test_a_stream_split_at_every_byte_gives_the_same_events() -> None:
    whole = events_of([STREAM])
    assert events_of([STREAM[i : i + 1] for i in range(len(STREAM))]) == whole
    for place in range(len(STREAM)):
        assert events_of([STREAM[:place], STREAM[place:]]) == whole


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_a_stream_split_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    assert events_of(splits(STREAM, cuts)) == events_of([STREAM])


NAMES = st.sampled_from(
    ["content", "tool_calls", "function", "index", "id", "name", "arguments", "type",
     "text", "reasoning", "reasoning_details", "function_call", "extra_content"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(NAMES, VALUES), max_size=6))
def test_no_json_in_a_delta_breaks_the_decoder(deltas: list[dict[str, Any]]) -> None:
    events = streamed(*map(delta, deltas), STOP)
    started = [e.index for e in events if isinstance(e, ToolCallStarted)]
    ended = [e.index for e in events if isinstance(e, ToolCallEnded)]
    assert started == list(range(len(started)))
    assert sorted(ended) == started
    end(events)
