"""A run as a message of Anthropic: streamed, in one body, and read by Anthropic's own SDK."""

from typing import Any

import anthropic
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.message_answers import (
    HEAD,
    TOOLS,
    Written,
    check_order,
    client_reading,
    final_message,
    ran,
    sse_events,
    without_nulls,
)
from tests.support.thoroughness import WHOLE

from windlass.content import (
    FileData,
    FunctionCall,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
    Usage,
)
from windlass.events import (
    FinishReason,
    RoundStarted,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.reply import Calls, Reply, RoundRecord
from windlass.testing import Turn, call, calls, say, think
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem
from windlass.wires.messages.messages import decode_messages
from windlass.wires.messages.write_events import (
    PING,
    STOP_REASONS,
    Form,
    MessageEncoder,
    error_body,
    error_event,
    message,
)

pytestmark = pytest.mark.sdk  # nearly every test lets Anthropic's SDK read the stream

SHOWN = Form(server_tools=True)


async def written(script: Any, form: Form = Form(), **options: Any) -> Written:  # noqa: B008
    return Written(*await ran(script, **options), form)


async def test_the_whole_sequence_of_a_text_answer() -> None:
    answer = await written([say("Hi you", usage=Usage(12, 3, 15))])
    start, *rest = answer.events
    assert start["message"] == {
        "id": HEAD.id,
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }
    assert rest == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
            for text in ("Hi ", "you")
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {
                "input_tokens": 12,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 3,
            },
        },
        {"type": "message_stop"},
    ]


async def test_a_client_s_call_starts_with_an_empty_object_and_ends_the_message() -> None:
    answer = await written([calls(call("ask_user", what="name"), text="One moment.")])
    start = next(e for e in answer.events if e.get("content_block", {}).get("type") == "tool_use")
    assert start["content_block"]["input"] == {}
    assert start["content_block"]["name"] == "ask_user"
    assert start["content_block"]["id"].startswith("call_")
    assert answer.read["content"][1]["input"] == {"what": "name"}
    assert answer.read["stop_reason"] == "tool_use"


async def test_a_call_without_arguments_is_an_empty_object() -> None:
    answer = await written([Turn(calls=(FunctionCall("ask_user", "", "c1"),))])
    deltas = [e["delta"] for e in answer.events if e["type"] == "content_block_delta"]
    assert deltas == [{"type": "input_json_delta", "partial_json": "{}"}]
    assert answer.body["content"][0]["input"] == {}


async def test_several_rounds_are_one_message_and_their_usage_is_summed() -> None:
    script = [
        calls(call("lookup", city="Rome"), text="I look.", usage=Usage(10, 5, 15, 4)),
        say("Sunny.", usage=Usage(20, 6, 26, 8, 2)),
    ]
    answer = await written(script)
    check_order(answer.events)
    assert [block["text"] for block in answer.read["content"]] == ["I look.\n\nSunny."]
    assert without_nulls(answer.read["usage"]) == {
        "input_tokens": 18,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 12,
        "output_tokens": 11,
        "output_tokens_details": {"thinking_tokens": 2},
    }


async def test_server_tools_are_hidden_without_the_connector_s_beta() -> None:
    answer = await written([call("lookup", city="Rome"), "Sunny."])
    assert b"lookup" not in answer.stream
    assert b"sunny in Rome" not in answer.stream
    assert answer.body["content"] == [{"type": "text", "text": "Sunny."}]


async def test_with_the_connector_s_beta_server_tools_are_whole_blocks_without_deltas() -> None:
    script = [calls(call("lookup", city="Rome"), call("lookup", city="Atlantis")), "Sunny."]
    answer = await written(script, SHOWN)
    check_order(answer.events)
    starts = [e["content_block"] for e in answer.events if e["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == [
        "mcp_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_result",
        "text",
    ]
    assert [block["input"] for block in starts[:2]] == [{"city": "Rome"}, {"city": "Atlantis"}]
    assert [block["is_error"] for block in starts[2:4]] == [False, True]
    assert starts[2]["content"] == [{"type": "text", "text": "sunny in Rome"}]
    assert starts[2]["tool_use_id"] == starts[0]["id"]
    deltas = {e["index"] for e in answer.events if e["type"] == "content_block_delta"}
    assert deltas == {4}


async def test_shown_rounds_come_back_as_the_turns_that_they_were() -> None:
    script = [calls(call("lookup", city="Rome"), text="I look."), "Sunny."]
    answer = await written(script, SHOWN)
    sent = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": answer.read["content"]},
        {"role": "user", "content": "Thanks."},
    ]
    _, turn, result, said, _ = decode_messages(sent)
    assert (turn.role, turn.text, turn.calls[0].name) == ("assistant", "I look.", "lookup")
    assert (result.role, result.responses[0].output) == ("tool", "sunny in Rome")
    assert result.responses[0].id == turn.calls[0].id
    assert (said.role, said.text) == ("assistant", "Sunny.")


async def test_a_client_call_and_a_server_call_of_one_turn() -> None:
    answer = await written([calls(call("ask_user", what="x"), call("lookup", city="Rome"))], SHOWN)
    kinds = [block["type"] for block in answer.read["content"]]
    assert kinds == ["tool_use", "mcp_tool_use", "mcp_tool_result"]
    assert answer.read["stop_reason"] == "tool_use"
    result = {"type": "tool_result", "tool_use_id": answer.read["content"][0]["id"]}
    sent = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": answer.read["content"]},
        {"role": "user", "content": [{**result, "content": "yes"}]},
    ]
    _, turn, results = decode_messages(sent)
    assert [each.name for each in turn.calls] == ["ask_user", "lookup"]
    assert [each.output for each in results.responses] == ["yes", "sunny in Rome"]


async def test_thoughts_of_another_model_have_our_own_signature() -> None:
    answer = await written([think("Hm. Well.", "Yes.")])
    thinking, text = answer.read["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm. Well.")
    assert thinking["signature"] == "windlass:"
    assert text["text"] == "Yes."
    kinds = [e["delta"]["type"] for e in answer.events if e["type"] == "content_block_delta"]
    assert kinds[-2] == "signature_delta"


async def test_a_foreign_signature_comes_back_unchanged() -> None:
    answer = await written([Turn(parts=(Thought("Hm.", "gemini-signature"), Text("Yes.")))])
    sent = [{"role": "assistant", "content": answer.read["content"]}]
    (turn,) = decode_messages(sent)
    thought = turn.parts[0]
    assert isinstance(thought, Thought)
    assert (thought.text, thought.signature) == ("Hm.", "gemini-signature")


CLAUDES = (
    Thought("Hm. "),
    Thought("", extra={"anthropic": {"signature": "sig-of-claude"}}),
    Text("Yes."),
)


async def test_claude_s_signature_reaches_the_client_unchanged() -> None:
    answer = await written([Turn(parts=CLAUDES)])
    assert answer.read["content"][0] == {
        "type": "thinking",
        "thinking": "Hm. ",
        "signature": "sig-of-claude",
    }
    omitted = await written([Turn(parts=CLAUDES)], Form(thoughts="signature"))
    assert omitted.read["content"][0]["thinking"] == ""
    assert omitted.read["content"][0]["signature"] == "sig-of-claude"
    hidden = await written([Turn(parts=CLAUDES)], Form(thoughts="none"))
    assert [block["type"] for block in hidden.read["content"]] == ["text"]


async def test_omitted_thoughts_of_another_model_leave_no_block() -> None:
    answer = await written([think("Hm.", "Yes.")], Form(thoughts="signature"))
    assert [block["type"] for block in answer.read["content"]] == ["text"]


async def test_blocks_of_claude_that_we_do_not_know_are_passed_on() -> None:
    block = {"type": "redacted_thinking", "data": "xyz"}
    answer = await written([Turn(parts=(Opaque("anthropic", block), Text("Yes.")))])
    assert without_nulls(answer.read["content"][0]) == block
    assert answer.body["content"][0] == block


async def test_media_and_parts_of_other_providers_are_named() -> None:
    file = FileData("https://example.com/a.mp4", "video/mp4")
    code = Opaque("gemini", {"executableCode": {"code": "1"}})
    parts = (InlineData(b"123", "image/png"), file, code)
    answer = await written([Turn(parts=parts)])
    text = answer.read["content"][0]["text"]
    assert "[image/png, 3 bytes]" in text
    assert "[video/mp4: https://example.com/a.mp4]" in text
    assert "executableCode" in text


async def test_blank_text_never_makes_a_block() -> None:
    answer = await written([Turn(parts=(Text("\n\n"), FunctionCall("ask_user", "{}", "c1")))])
    assert [block["type"] for block in answer.read["content"]] == ["tool_use"]
    assert [block["type"] for block in answer.body["content"]] == ["tool_use"]


async def test_only_the_last_round_s_text_if_the_answer_is_json() -> None:
    script = [calls(call("lookup", city="Rome"), text="I look."), say('{"a":1}')]
    answer = await written(script, Form(all_text=False))
    assert [block["text"] for block in answer.read["content"]] == ['{"a":1}']
    assert answer.body["content"] == [{"type": "text", "text": '{"a":1}'}]


async def test_citations_stay_with_their_text() -> None:
    citation = {
        "type": "char_location",
        "cited_text": "a",
        "document_index": 0,
        "start_char_index": 0,
        "end_char_index": 1,
    }
    parts = (
        Text("It is "),
        Text("", extra={"anthropic": {"type": "text"}}),
        Text("green"),
        Text("", extra={"anthropic": {"citations": [citation]}}),
    )
    answer = await written([Turn(parts=parts)])
    first, second = without_nulls(answer.read["content"])
    assert (first["text"], second["text"]) == ("It is ", "green")
    assert second["citations"] == [citation]
    assert answer.body["content"][1]["citations"] == [citation]


async def test_a_truncated_call_is_never_a_tool_use_stop() -> None:
    answer = await written(
        [Turn(calls=(FunctionCall("ask_user", '{"what"', ""),), finish="length")]
    )
    assert answer.read["stop_reason"] == answer.body["stop_reason"] == "max_tokens"


async def test_after_the_last_round_calls_are_not_shown() -> None:
    script = [call("lookup", city="Rome"), calls(call("ask_user"), text="Well.")]
    answer = await written(script, SHOWN, max_rounds=1)
    kinds = [block["type"] for block in answer.read["content"]]
    assert kinds == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert answer.read["stop_reason"] == "end_turn"
    assert without_nulls(answer.body["content"]) == without_nulls(answer.read["content"])


async def test_an_empty_last_answer_is_replaced_in_both_forms() -> None:
    answer = await written([call("lookup", city="Rome"), say("")], max_rounds=1)
    assert answer.read["content"][0]["text"] == answer.body["content"][0]["text"]
    assert "tools were switched off" in answer.body["content"][0]["text"]


def reply_of(reason: StopReason, about: dict[str, Any] | None = None) -> Reply:
    finish: FinishReason = "stop"
    record = RoundRecord(1, Message.assistant("x"), finish, Usage(), about=about or {})
    return Reply("x", (), (record,), Usage(), reason, Calls(), (), Calls())


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_every_ending_is_a_stop_reason_that_the_sdk_knows(reason: StopReason) -> None:
    known = anthropic.types.StopReason.__args__
    assert STOP_REASONS[reason] in known
    expected = {"content_filter": "refusal", "length": "max_tokens", "calls": "tool_use"}
    assert STOP_REASONS[reason] == expected.get(reason, "end_turn")


def test_a_stop_sequence_is_named() -> None:
    reply = reply_of("answer", {"stop_sequence": "END"})
    body = message(HEAD, reply, TOOLS, CallIds())
    assert b'"stop_reason":"stop_sequence","stop_sequence":"END"' in body


def encoded(*events: Any) -> list[dict[str, Any]]:
    encoder = MessageEncoder(HEAD, TOOLS, CallIds())
    reply = reply_of("answer")
    stream = encoder.begin() + encoder.encode([RoundStarted(1, "awaiting_model_call"), *events])
    return list(sse_events(stream + encoder.end(reply)))


def test_interleaved_calls_and_text_are_blocks_one_after_another() -> None:
    first, second = FunctionCall("ask_user", '{"a":1}', "c1"), FunctionCall("ask_user", "{}", "c2")
    events = encoded(
        ToolCallStarted(0, "c1", "ask_user"),
        ToolCallDelta(0, '{"a"'),
        ToolCallStarted(1, "c2", "ask_user"),
        TextDelta("between"),
        ToolCallDelta(1, "{}"),
        ToolCallDelta(0, ":1}"),
        ToolCallEnded(0, first),
        ToolCallEnded(1, second),
        TurnEnded("tool_calls"),
    )
    check_order(events)
    starts = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert starts == ["tool_use", "tool_use", "text"]
    joined = ["", "", ""]
    for event in events:
        if event["type"] == "content_block_delta":
            joined[event["index"]] += event["delta"].get("partial_json", "")
    assert joined == ['{"a":1}', "{}", ""]


def test_pings_are_skipped_by_the_sdk() -> None:
    encoder = MessageEncoder(HEAD, TOOLS, CallIds())
    begin = encoder.begin() + PING
    middle = encoder.encode(
        [RoundStarted(1, "awaiting_model_call"), TextDelta("a"), TextDelta("b")]
    )
    stream = begin + middle + PING + encoder.end(reply_of("answer"))
    assert final_message(stream)["content"][0]["text"] == "ab"


@pytest.mark.parametrize(
    ("status", "kind", "raised"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (402, "billing_error", anthropic.APIStatusError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found_error", anthropic.NotFoundError),
        (422, "invalid_request_error", anthropic.UnprocessableEntityError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (502, "api_error", anthropic.InternalServerError),
        (504, "timeout_error", anthropic.APIStatusError),
        (529, "overloaded_error", anthropic.APIStatusError),
    ],
)
def test_errors_have_anthropic_s_shape(status: int, kind: str, raised: Any) -> None:
    body = error_body(Problem(status, "No."), "req_1")
    client = client_reading(body, status, "application/json")
    with pytest.raises(raised) as seen:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert seen.value.body == {
        "type": "error",
        "error": {"type": kind, "message": "No."},
        "request_id": "req_1",
    }
    assert seen.value.type == kind


def test_an_error_in_the_stream_is_raised_by_the_sdk() -> None:
    encoder = MessageEncoder(HEAD, TOOLS, CallIds())
    said = encoder.encode([RoundStarted(1, "awaiting_model_call"), TextDelta("a")])
    stream = encoder.begin() + said + error_event(Problem(529, "Busy."), "req_1")
    with pytest.raises(anthropic.APIStatusError, match="Busy") as raised:
        final_message(stream)
    assert raised.value.type == "overloaded_error"


def test_a_prompt_that_is_too_long_reports_it_in_the_words_that_claude_code_knows() -> None:
    problem = Problem(400, "the model's context is 8192 tokens", code="context_length_exceeded")
    assert b'"message":"prompt is too long: the model' in error_body(problem)


def test_a_form_is_stored_with_its_run() -> None:
    answer = {"server_tools": True, "thoughts": "signature"}
    form = Form(True, "signature", True)
    assert msgspec.convert(answer, Form) == form
    assert msgspec.to_builtins(form) == answer
    assert msgspec.convert({"all_text": False}, Form).all_text is False
    assert msgspec.to_builtins(Form()) == {}


texts = st.sampled_from(["", " ", "\n", "Hi.", "two words", "ü €", "  lead", "trail  "])
arguments = st.sampled_from(["{}", "", '{"city":"Rome"}', '{"city":"Atlantis"}'])
made = st.builds(
    FunctionCall, st.sampled_from(["lookup", "ask_user", "unknown"]), arguments, st.just("")
)
claude_thoughts = st.sampled_from(["", "sig"]).map(
    lambda signature: Thought("", extra={"anthropic": {"signature": signature}})
)
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Thought, texts),
    st.builds(Thought, texts, st.just("foreign")),
    claude_thoughts,
    st.just(Opaque("anthropic", {"type": "redacted_thinking", "data": "x"})),
    made,
)
turns = st.builds(
    lambda parts, finish, pieces: Turn(parts=tuple(parts), finish=finish, pieces=pieces),
    st.lists(parts, min_size=1, max_size=5),
    st.sampled_from([None, None, None, "content_filter"]),
    st.sampled_from(["words", "whole", 1]),
)
forms = st.builds(
    Form, st.booleans(), st.sampled_from(["full", "signature", "none"]), st.booleans()
)


@pytest.mark.sweep
@given(st.lists(turns, min_size=4, max_size=4), forms, st.integers(0, 3))
@settings(max_examples=2000 if WHOLE else 60)
async def test_the_stream_of_a_run_is_its_body(script: Any, form: Form, max_rounds: int) -> None:
    script = [*script, say("The end.")]
    answer = Written(*await ran(script, max_rounds=max_rounds), form)
    check_order(answer.events)
    read, body = without_nulls(answer.read), without_nulls(answer.body)
    if body["stop_reason"] == "refusal" and b'"tool_use"' in answer.stream:
        # What a refused turn has streamed cannot be taken back; a body does not have its calls.
        # White space at the end would be a blank block after a call, so the stream leaves it out.
        texts = ["".join(each.get("text", "") for each in form["content"]) for form in (read, body)]
        assert texts[0].rstrip() == texts[1].rstrip()
        return
    assert read["content"] == body["content"]
    assert read == body
    has_call = any(block["type"] == "tool_use" for block in body["content"])
    assert (body["stop_reason"] == "tool_use") == has_call
