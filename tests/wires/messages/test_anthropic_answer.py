"""Anthropic's answers as model events: streamed, in one body, with everything that can happen."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_wires import called, decoded, end, text, thoughts

from windlass.content import Message, Opaque, Usage
from windlass.errors import ModelError, StreamCut
from windlass.events import ModelEvent, PartReceived, ToolCallStarted
from windlass.loop.turn import TurnBuilder
from windlass.testing import Turn
from windlass.testing.fake_anthropic import MessageWriter
from windlass.wires.messages.messages import encode_blocks
from windlass.wires.messages.read_events import FINISH, AnswerDecoder, usage_from


def stream(*events: Any) -> list[bytes]:
    return [msgspec.json.encode(event) for event in events]


START = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def ending(reason: str = "end_turn", usage: Any = None, **delta: Any) -> dict[str, Any]:
    usage = usage or {"output_tokens": 5}
    return {"type": "message_delta", "delta": {"stop_reason": reason, **delta}, "usage": usage}


def block(index: int, fields: Any, *deltas: Any) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": fields},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def piece(kind: str, value: Any) -> dict[str, Any]:
    types = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
    return {"type": types.get(kind, f"{kind}_delta"), kind: value}


def answered(*events: Any, reason: str = "end_turn", **delta: Any) -> list[ModelEvent]:
    return decoded(AnswerDecoder(), *stream(START, *events, ending(reason, **delta), STOP))


def turn_of(events: list[ModelEvent]) -> Message:
    builder = TurnBuilder()
    for event in events:
        builder.add(event)
    return builder.turn().message


def body(content: Any, reason: str = "end_turn", **fields: Any) -> list[ModelEvent]:
    message = {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": 9, "output_tokens": 5},
        **fields,
    }
    decoder = AnswerDecoder()
    return [*decoder.feed_body(msgspec.json.encode(message)), *decoder.finish()]


TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


def test_text_comes_in_pieces() -> None:
    events = answered(*block(0, TEXT, piece("text", "Hi "), piece("text", "you")))
    assert text(events) == "Hi you"
    assert (end(events).finish, end(events).usage) == ("stop", Usage(9, 5, 14))


def test_thinking_and_its_signature_go_back_unchanged() -> None:
    events = answered(
        *block(
            0, THINKING, piece("thinking", "Hm"), piece("thinking", "."), piece("signature", "s")
        ),
        *block(1, TEXT, piece("text", "Yes.")),
    )
    assert thoughts(events) == "Hm."
    assert encode_blocks(turn_of(events)) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Yes."},
    ]


def test_two_thinking_blocks_are_not_merged() -> None:
    events = answered(
        *block(0, THINKING, piece("thinking", "a"), piece("signature", "1")),
        *block(1, THINKING, piece("thinking", "b"), piece("signature", "2")),
    )
    blocks = encode_blocks(turn_of(events))
    assert [(each["thinking"], each["signature"]) for each in blocks] == [("a", "1"), ("b", "2")]


def test_parallel_calls_with_arguments_in_pieces() -> None:
    events = answered(
        *block(
            0,
            CALL,
            piece("partial_json", ""),
            piece("partial_json", '{"a":'),
            piece("partial_json", "1}"),
        ),
        *block(1, {**CALL, "id": "toolu_2", "name": "g"}, piece("partial_json", "")),
        reason="tool_use",
    )
    assert called(events) == [("f", '{"a":1}'), ("g", "{}")]
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [(each.index, each.id) for each in started] == [(0, "toolu_1"), (1, "toolu_2")]
    assert end(events).finish == "tool_calls"


def test_arguments_at_the_start_of_a_block_are_read() -> None:
    events = answered(*block(0, {**CALL, "input": {"a": 1}}), reason="tool_use")
    assert called(events) == [("f", '{"a":1}')]


def test_a_caller_that_is_not_the_model_is_sent_back() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    events = answered(*block(0, {**CALL, "caller": caller}))
    assert encode_blocks(turn_of(events))[0]["caller"] == caller
    direct = answered(*block(0, {**CALL, "caller": {"type": "direct"}}))
    assert encode_blocks(turn_of(direct))[0] == CALL
    (call,) = turn_of(direct).calls
    assert call.extra == {}


def test_server_tools_and_unknown_blocks_are_whole_parts() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    odd = {"type": "compaction", "content": "a"}
    events = answered(
        *block(0, search, piece("partial_json", '{"query":'), piece("partial_json", '"x"}')),
        *block(1, found),
        *block(2, odd, {"type": "compaction_delta", "content": "b"}),
    )
    received = [event.part for event in events if isinstance(event, PartReceived)]
    assert received == [
        Opaque("anthropic", {**search, "input": {"query": "x"}}),
        Opaque("anthropic", found),
        Opaque("anthropic", {"type": "compaction", "content": "ab"}),
    ]


def test_citations_stay_with_their_block() -> None:
    citation = {"type": "char_location", "cited_text": "x"}
    events = answered(
        *block(0, TEXT, piece("text", "a")),
        *block(1, TEXT, piece("text", "b"), {"type": "citations_delta", "citation": citation}),
        *block(2, TEXT, piece("text", "c")),
    )
    assert text(events) == "abc"
    assert encode_blocks(turn_of(events)) == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "citations": [citation]},
        {"type": "text", "text": "c"},
    ]


@pytest.mark.parametrize(
    ("reason", "finish", "detail"),
    [
        ("end_turn", "stop", None),
        ("stop_sequence", "stop", None),
        ("max_tokens", "length", "max_tokens"),
        ("model_context_window_exceeded", "length", "model_context_window_exceeded"),
        ("refusal", "content_filter", "refusal"),
        ("pause_turn", "other", "pause_turn"),
        ("something_new", "other", "something_new"),
    ],
)
def test_stop_reasons(reason: str, finish: str, detail: str | None) -> None:
    for events in (answered(*block(0, TEXT, piece("text", "x")), reason=reason), body([], reason)):
        assert (end(events).finish, end(events).detail) == (finish, detail)


def test_every_stop_reason_of_the_sdk_is_known() -> None:
    from anthropic.types import StopReason

    assert set(StopReason.__args__) == set(FINISH)


def test_a_refusal_reports_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    events = answered(reason="refusal", stop_details=details)
    assert end(events).detail == "Not that."


def test_the_stop_sequence_is_reported() -> None:
    events = answered(reason="stop_sequence", stop_sequence="END")
    assert end(events).about == {"stop_sequence": "END"}


def test_the_three_input_figures_are_added() -> None:
    usage = usage_from(
        {
            "input_tokens": 3,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 100,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 4},
        }
    )
    assert usage == Usage(123, 7, 130, 100, 4)


def test_later_usage_replaces_earlier_and_keeps_the_rest() -> None:
    first = {"input_tokens": 3, "cache_read_input_tokens": 10, "output_tokens": 1}
    start = {"type": "message_start", "message": {"usage": first}}
    last = ending(usage={"output_tokens": 9, "cache_read_input_tokens": None})
    assert end(decoded(AnswerDecoder(), *stream(start, last, STOP))).usage == Usage(13, 9, 22, 10)


def test_pings_and_unknown_events_are_ignored() -> None:
    events = answered(
        {"type": "ping"}, {"type": "hologram", "x": 1}, *block(0, TEXT, piece("text", "a"))
    )
    assert text(events) == "a"


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [("overloaded_error", True), ("api_error", True), ("invalid_request_error", False)],
)
def test_an_error_event_is_raised(kind: str, retryable: bool) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "No."}}
    with pytest.raises(ModelError, match="No") as raised:
        decoded(AnswerDecoder(), *stream(START, error))
    assert (raised.value.code, raised.value.retryable) == (kind, retryable)
    with pytest.raises(ModelError, match="No"):
        AnswerDecoder().feed_body(msgspec.json.encode(error))


def test_a_stream_without_its_end_is_cut() -> None:
    whole = stream(START, *block(0, TEXT, piece("text", "a")), ending(), STOP)
    for count in range(len(whole) - 2):
        with pytest.raises(StreamCut):
            decoded(AnswerDecoder(), *whole[:count])
    assert end(decoded(AnswerDecoder(), *whole[:-1])).finish == "stop"


def test_an_answer_of_another_form_is_an_error_that_shows_it() -> None:
    for other in (b"<html>hello</html>", b'{"choices":[]}'):
        with pytest.raises(ModelError, match="not a message of Anthropic"):
            AnswerDecoder().feed_body(other)
    with pytest.raises(StreamCut):
        AnswerDecoder().feed_body(b'{"content":[')


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(texts, texts, st.lists(st.sampled_from(["{}", '{"a":[1,"x"]}']), max_size=3))
def test_a_stream_and_a_body_are_the_same_turn(said: str, thought: str, made: list[str]) -> None:
    from windlass.content import FunctionCall

    calls = tuple(FunctionCall("f", json, f"toolu_{n}") for n, json in enumerate(made))
    turn = Turn(text=said, thoughts=thought, calls=calls)
    writer = MessageWriter(model="m", streams=True)
    frames = writer.frames(turn)
    lines = [line for p in (*frames.head, *frames.pieces, *frames.tail) for line in p.split(b"\n")]
    streamed = decoded(AnswerDecoder(), *lines)
    decoder = AnswerDecoder()
    whole = [*decoder.feed_body(writer.body(turn)), *decoder.finish()]
    assert turn_of(streamed) == turn_of(whole)
    assert end(streamed) == end(whole)
    assert (text(whole), thoughts(whole)) == (said, thought)
