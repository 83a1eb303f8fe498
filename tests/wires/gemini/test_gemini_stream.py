"""A run as an answer of generateContent: its chunks, its body, and that both are the same."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.message_answers import TOOLS, ran
from tests.support.thoroughness import WHOLE

from windlass.content import FunctionCall, InlineData, Message, Opaque, Text, Thought, Usage
from windlass.events import RoundStarted, RunEvent, StopReason, TextDelta, TurnEnded
from windlass.loop.policy import EMPTY_ANSWER
from windlass.reply import Calls, Reply, RoundRecord
from windlass.testing import Turn, call, calls, say, think
from windlass.wires.calls import CallIds
from windlass.wires.chat.write_events import ChunkEncoder as ChatEncoder
from windlass.wires.chat.write_events import CompletionHead
from windlass.wires.errors import Problem
from windlass.wires.gemini.messages import Token, decode_token
from windlass.wires.gemini.read_events import CANDIDATE, AnswerDecoder
from windlass.wires.gemini.write_events import (
    DEFAULT_FORM,
    FINISH_REASONS,
    AnswerHead,
    ChunkEncoder,
    Form,
    answer_fields,
    error_fields,
)

HEAD = AnswerHead("run_1", "some/model")
THOUGHTS = Form(thoughts=True)
LAST_TEXT = Form(all_text=False)


class Written:
    """A run as every form of an answer."""

    def __init__(self, events: list[RunEvent], reply: Reply, form: Form = DEFAULT_FORM) -> None:
        ids = CallIds()
        encoder = ChunkEncoder(HEAD, TOOLS, ids, form)
        pieces = [encoder.begin(), *(encoder.encode([event]) for event in events)]
        self.stream = b"".join([*pieces, encoder.end(reply)])
        batched = ChunkEncoder(HEAD, TOOLS, ids, form)
        assert batched.begin() + batched.encode(events) + batched.end(reply) == self.stream
        self.chunks = list(data_of(self.stream))
        listed = ChunkEncoder(HEAD, TOOLS, ids, form, sse=False)
        array = listed.begin() + listed.encode(events) + listed.end(reply)
        assert json.loads(array) == self.chunks
        self.body = json.loads(json.dumps(answer_fields(HEAD, reply, TOOLS, ids, form)))
        for value in (*self.chunks, self.body):
            types.GenerateContentResponse.model_validate(value)

    @property
    def parts(self) -> list[Any]:
        return self.body["candidates"][0]["content"]["parts"]

    @property
    def joined(self) -> dict[str, Any]:
        """The body that a client puts together from the chunks."""
        parts: list[Any] = []
        for chunk in self.chunks:
            parts += chunk["candidates"][0]["content"]["parts"]
        last = self.chunks[-1]
        candidate = {**last["candidates"][0], "content": {"role": "model", "parts": whole(parts)}}
        return {**last, "candidates": [candidate]}


def data_of(stream: bytes) -> Iterator[Any]:
    *blocks, rest = stream.split(b"\n\n")
    assert rest == b""
    for block in blocks:
        assert b"\n" not in block
        yield json.loads(block.removeprefix(b"data: "))


def whole(parts: list[Any]) -> list[Any]:
    """The parts with adjacent plain texts joined, as clients do."""
    found: list[Any] = []
    for kind, group in itertools.groupby(parts, key=lambda part: tuple(sorted(part))):
        if kind in (("text",), ("text", "thought")):
            pieces = list(group)
            found.append({**pieces[0], "text": "".join(piece["text"] for piece in pieces)})
        else:
            found += group
    return [part for part in found if part != {"text": ""}] or [{"text": ""}]


async def written(*script: Any, form: Form = DEFAULT_FORM, **options: Any) -> Written:
    answer = Written(*await ran(list(script), **options), form)
    assert answer.joined == answer.body
    return answer


# What a client sees.


async def test_a_text_comes_in_pieces_with_the_end_in_the_last_chunk() -> None:
    answer = await written(say("One two.", usage=Usage(7, 3, 10, 2, 1)))
    assert [chunk["candidates"][0]["content"] for chunk in answer.chunks] == [
        {"role": "model", "parts": [{"text": text}]} for text in ("One ", "two.", "")
    ]
    assert all("finishReason" not in chunk["candidates"][0] for chunk in answer.chunks[:-1])
    assert answer.body == {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "One two."}]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 7,
            "candidatesTokenCount": 2,
            "totalTokenCount": 10,
            "cachedContentTokenCount": 2,
            "thoughtsTokenCount": 1,
        },
        "modelVersion": "some/model",
        "responseId": "run_1",
    }


async def test_rounds_of_server_tools_are_hidden_and_their_usage_counts() -> None:
    answer = await written(calls(call("lookup", city="Rome"), text="Let me see."), "Sunny.")
    assert answer.parts == [{"text": "Let me see.\n\nSunny."}]
    assert answer.body["usageMetadata"]["totalTokenCount"] == 30
    assert b"functionCall" not in answer.stream
    assert b"lookup" not in answer.stream


async def test_text_of_earlier_rounds_can_be_left_out() -> None:
    script = [calls(call("lookup", city="Rome"), text="Let me see."), '{"sky": "clear"}']
    answer = await written(*script, form=LAST_TEXT)
    assert answer.parts == [{"text": '{"sky": "clear"}'}]


async def test_calls_of_client_tools_come_whole_and_last() -> None:
    asked = calls(call("ask_user", what="Name?"), call("lookup", city="Rome"), text="Two things.")
    answer = await written(asked)
    text, made = answer.parts
    assert text == {"text": "Two things."}
    call_id = made["functionCall"]["id"]
    assert made["functionCall"] == {"id": call_id, "name": "ask_user", "args": {"what": "Name?"}}
    assert decode_token(made["thoughtSignature"]) == Token(call_id)
    assert answer.body["candidates"][0]["finishReason"] == "STOP"
    assert answer.chunks[-1]["candidates"][0]["content"]["parts"] == [made]


async def test_thoughts_are_shown_only_if_the_client_asked() -> None:
    script = [think("First.", call("lookup", city="Rome")), think("Second.", "Sunny.")]
    shown = await written(*script, form=THOUGHTS)
    assert shown.parts == [{"text": "First.\n\nSecond.", "thought": True}, {"text": "Sunny."}]
    hidden = await written(*script)
    assert hidden.parts == [{"text": "Sunny."}]


async def test_a_signature_stays_on_its_part() -> None:
    parts = (Text("Sunny."), Text("", "c2lnbmVk"))
    answer = await written(Turn(parts=parts))
    text, signed = answer.parts
    assert text == {"text": "Sunny."}
    assert (signed["text"], decode_token(signed["thoughtSignature"]).signature) == ("", "c2lnbmVk")


async def test_the_data_of_another_provider_is_in_the_signature() -> None:
    extra = {"anthropic": {"signature": "abc"}}
    answer = await written(Turn(parts=(Thought("Hm.", extra=extra), Text("Hi."))), form=THOUGHTS)
    assert decode_token(answer.parts[0]["thoughtSignature"]) == Token(extra=extra)


async def test_an_image_is_inline_data() -> None:
    answer = await written(Turn(parts=(Text("Here:"), InlineData(b"hi", "image/png"))))
    blob = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert answer.parts == [{"text": "Here:"}, blob]


async def test_parts_of_google_pass_and_a_refusal_is_text() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    refusal = {"type": "refusal", "refusal": "I won't."}
    turn = Turn(parts=(Opaque("gemini", code), Opaque("openai", refusal)))
    assert (await written(turn)).parts == [code, {"text": "I won't."}]


async def test_an_answer_is_never_empty_after_tools_were_switched_off() -> None:
    """Gemini CLI asks again if a stream has no text."""
    answer = await written(call("lookup", city="Rome"), say(""), max_rounds=1)
    assert answer.parts == [{"text": EMPTY_ANSWER}]


async def test_the_last_chunk_always_has_a_part() -> None:
    """Chats of google-genai drop a turn that has a content without parts."""
    for script in ([say("")], [say("Hi.")], [say("Half", finish="length")]):
        answer = await written(*script)
        for chunk in answer.chunks:
            read: Any = types.GenerateContentResponse.model_validate(chunk)
            parts = read.candidates[0].content.parts
            assert parts
            assert types.Part() not in parts


@pytest.mark.parametrize(
    ("finish", "said"),
    [("length", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("other", "STOP")],
)
async def test_how_an_answer_ended(finish: str, said: str) -> None:
    answer = await written(say("Half", finish=finish))
    assert answer.body["candidates"][0]["finishReason"] == said


async def test_a_truncated_call_is_not_shown() -> None:
    answer = await written(calls(call("ask_user", what="Name?"), finish="length"))
    assert b"functionCall" not in answer.stream
    assert answer.body["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_every_stop_reason_with_an_answer_has_a_finish_reason() -> None:
    failures = {"error", "deadline", "malformed_call"}
    assert FINISH_REASONS.keys() == set(get_args(StopReason)) - failures
    for reason in FINISH_REASONS.values():
        assert types.FinishReason(reason)


def reply_of(record: RoundRecord) -> Reply:
    none = Calls.of((), TOOLS)
    return Reply(record.message.text, (), (record,), Usage(), "answer", none, (), none)


def test_log_probabilities_come_with_their_text() -> None:
    def tokens(*texts: str) -> dict[str, Any]:
        tops = [{"token": "x", "logprob": -2.0}]
        return {
            "content": [{"token": each, "logprob": -0.5, "top_logprobs": tops} for each in texts]
        }

    events: list[RunEvent] = [
        RoundStarted(1, "awaiting_model_call"),
        TextDelta("a", logprobs=tokens("a")),
        TextDelta("b", logprobs=tokens("b")),
        TurnEnded("stop", logprobs=tokens("c")),
    ]
    record = RoundRecord(
        1, Message.assistant("ab"), "stop", Usage(), logprobs=tokens("a", "b", "c")
    )
    answer = Written(events, reply_of(record))
    results = [chunk["candidates"][0].get("logprobsResult") for chunk in answer.chunks]
    chosen = [each["token"] for result in results if result for each in result["chosenCandidates"]]
    assert chosen == ["a", "b", "c"]
    whole_result = answer.body["candidates"][0]["logprobsResult"]
    assert [each["token"] for each in whole_result["chosenCandidates"]] == ["a", "b", "c"]
    assert whole_result["topCandidates"][0] == {
        "candidates": [{"token": "x", "logProbability": -2.0}]
    }


def test_sources_of_google_are_in_the_candidate() -> None:
    grounding = {"groundingMetadata": {"webSearchQueries": ["x"]}}
    message = Message("assistant", (Text("Hi."),), {CANDIDATE: grounding})
    events: list[RunEvent] = [RoundStarted(1, "awaiting_model_call"), TextDelta("Hi.")]
    answer = Written(events, reply_of(RoundRecord(1, message, "stop", Usage())))
    for candidate in (answer.body["candidates"][0], answer.chunks[-1]["candidates"][0]):
        assert candidate["groundingMetadata"] == {"webSearchQueries": ["x"]}


def test_a_call_of_a_google_model_keeps_its_signature_for_it() -> None:
    made = FunctionCall("ask_user", "{}", "x1", "c2ln", extra={"gemini": {"partMetadata": {}}})
    pending = Calls.of([made], TOOLS)
    record = RoundRecord(1, Message.assistant(made), "tool_calls", Usage())
    reply = Reply("", (), (record,), Usage(), "calls", pending, (), pending)
    [part] = Written([], reply).parts
    assert part["partMetadata"] == {}
    assert decode_token(part["thoughtSignature"]).signature == "c2ln"


# Streams.


def test_an_idle_stream_is_kept_open_by_line_breaks() -> None:
    """Google's SDKs read a comment as a broken chunk."""
    sse = ChunkEncoder(HEAD, TOOLS, CallIds())
    listed = ChunkEncoder(HEAD, TOOLS, CallIds(), sse=False)
    assert not sse.heartbeat.strip()
    assert not listed.heartbeat.strip()


def test_a_failed_stream_ends_with_the_error() -> None:
    problem = Problem(503, "Overloaded.", "overloaded", retry_after=2)
    error = {"error": error_fields(problem)}
    event, bare = ChunkEncoder(HEAD, TOOLS, CallIds()).fail(problem).split(b"\n\n")
    assert json.loads(event.removeprefix(b"data: ")) == error
    assert json.loads(bare) == error
    listed = ChunkEncoder(HEAD, TOOLS, CallIds(), sse=False)
    events: list[RunEvent] = [RoundStarted(1, "awaiting_model_call"), TextDelta("Half")]
    read = json.loads(listed.begin() + listed.encode(events) + listed.fail(problem))
    assert read[1] == error


def test_our_own_decoder_reads_the_stream() -> None:
    """A gateway can be the upstream of another."""
    record = RoundRecord(1, Message.assistant("One two."), "stop", Usage())
    events: list[RunEvent] = [
        RoundStarted(1, "awaiting_model_call"),
        TextDelta("One "),
        TextDelta("two."),
        TurnEnded("stop"),
    ]
    answer = Written(events, reply_of(record))
    decoder = AnswerDecoder()
    read = [event for chunk in answer.chunks for event in decoder.feed(json.dumps(chunk).encode())]
    assert [event.text for event in read if isinstance(event, TextDelta)] == ["One ", "two."]


def test_a_text_chunk_is_no_larger_than_one_of_chat() -> None:
    begun: list[RunEvent] = [RoundStarted(1, "awaiting_model_call"), TextDelta("a")]
    own = ChunkEncoder(HEAD, TOOLS, CallIds())
    chat = ChatEncoder(CompletionHead("chatcmpl-1", 1_794_900_000, "some/model"), TOOLS, CallIds())
    own.encode(begun)
    chat.encode(begun)
    assert len(own.encode([TextDelta("b")])) <= len(chat.encode([TextDelta("b")]))


# Errors.


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (Problem(400, "x"), "INVALID_ARGUMENT"),
        (Problem(401, "x"), "UNAUTHENTICATED"),
        (Problem(403, "x"), "PERMISSION_DENIED"),
        (Problem(404, "x"), "NOT_FOUND"),
        (Problem(413, "x"), "INVALID_ARGUMENT"),
        (Problem(429, "x"), "RESOURCE_EXHAUSTED"),
        (Problem(500, "x"), "INTERNAL"),
        (Problem(501, "x"), "INTERNAL"),
        (Problem(502, "x"), "UNAVAILABLE"),
        (Problem(503, "x"), "UNAVAILABLE"),
        (Problem(504, "x"), "DEADLINE_EXCEEDED"),
    ],
)
def test_errors_have_googles_status(problem: Problem, status: str) -> None:
    expected = {"code": problem.status, "message": "x", "status": status, "details": []}
    assert error_fields(problem) == expected


def test_an_error_has_details_for_machines() -> None:
    fields = error_fields(Problem(429, "Slow down.", "rate_limited", "contents", retry_after=1.5))
    assert fields["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "RATE_LIMITED",
            "domain": "windlass",
        },
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "contents", "description": "Slow down."}],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"},
    ]


# Both forms of every run.

texts = st.sampled_from(["", " ", "\n", "Hi. ", "One two", "Ünï 🎈 code"])
signatures = st.none() | st.just("c2ln")
made = st.sampled_from(
    [
        FunctionCall("lookup", '{"city":"Rome"}'),
        FunctionCall("lookup", '{"city":"Atlantis"}'),
        FunctionCall("ask_user", '{"what":"Name?"}'),
        FunctionCall("ask_user", "{}", "", "c2ln"),
        FunctionCall("unknown", "{}"),
        FunctionCall("ask_user", '{"what":'),
    ]
)
part = st.one_of(
    st.builds(Text, texts, signatures),
    st.builds(Thought, texts, signatures),
    st.just(InlineData(b"hi", "image/png")),
    st.just(Opaque("openai", {"type": "refusal", "refusal": "No."})),
    made,
)
turns = st.builds(
    lambda parts, finish, pieces: Turn(parts=tuple(parts), finish=finish, pieces=pieces),
    st.lists(part, max_size=5),
    st.sampled_from([None, None, None, "length", "content_filter"]),
    st.sampled_from(["words", "whole", 1, 3]),
)
forms = st.builds(Form, st.booleans(), st.booleans())


@given(st.lists(turns, min_size=4, max_size=4), forms, st.integers(0, 3))
@settings(max_examples=2000 if WHOLE else 60)
async def test_the_stream_of_a_run_is_its_body(script: Any, form: Form, max_rounds: int) -> None:
    answer = Written(*await ran([*script, say("The end.")], max_rounds=max_rounds), form)
    assert answer.joined == answer.body
