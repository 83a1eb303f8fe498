"""Many texts in one call: the same as one by one."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events import ModelEvent, RoundStarted, RunEvent, TextDelta
from windlass.jsontext import LARGE
from windlass.models.turn import TurnDecoder
from windlass.wires.calls import CallIds
from windlass.wires.chat import read_events as chat
from windlass.wires.chat.write_events import ChunkEncoder, CompletionHead
from windlass.wires.gemini import read_events as gemini
from windlass.wires.gemini.write_events import AnswerHead
from windlass.wires.gemini.write_events import ChunkEncoder as GeminiEncoder
from windlass.wires.messages import read_events as messages
from windlass.wires.messages.write_events import MessageEncoder, MessageHead
from windlass.wires.text_frames import TextFrame, framed_texts

TEXTS = st.one_of(
    st.text(),
    st.text('\x7f"\\,/é😀 \n', max_size=6),
    st.sampled_from(["word", " word", "", "index", "content", "text", '",', "\\", "\\u007f"]),
)


def chat_payload(text: str, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "c1", "model": "m", "choices": [choice], **fields}


def gemini_payload(text: str, **fields: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"content": content, "index": 0}], "modelVersion": "m", **fields}


def message_payload(text: str, **fields: Any) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta, **fields}


WIRES: dict[str, tuple[Callable[[], TurnDecoder], Callable[..., dict[str, Any]]]] = {
    "chat": (chat.AnswerDecoder, chat_payload),
    "gemini": (gemini.AnswerDecoder, gemini_payload),
    "messages": (messages.AnswerDecoder, message_payload),
}


def read_with_frame(decoder: TurnDecoder, payloads: Sequence[bytes]) -> list[ModelEvent]:
    frame, events, place = TextFrame(), list[ModelEvent](), 0
    while place < len(payloads):
        if texts := frame.texts(payloads, place):
            events += map(TextDelta, filter(None, texts))
            place += len(texts)
            continue
        found = decoder.feed(payloads[place])
        frame.learn(payloads[place], found)
        events += found
        place += 1
    return events


@pytest.mark.parametrize("wire", WIRES)
@given(
    rows=st.lists(st.tuples(TEXTS, st.sampled_from([{}, {}, {}, {"extra": "word"}]))),
    ascii_only=st.booleans(),
)
def test_payloads_mean_the_same_with_and_without_a_frame(
    wire: str, rows: list[tuple[str, dict[str, Any]]], ascii_only: bool
) -> None:
    new_decoder, payload = WIRES[wire]
    payloads = [
        json.dumps(payload(text, **fields), ensure_ascii=ascii_only).encode("utf-8", "replace")
        for text, fields in rows
    ]
    plain, framed = new_decoder(), new_decoder()
    for decoder in (plain, framed):
        if wire == "messages":
            start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
            decoder.feed(json.dumps(start).encode())
    one_by_one = [event for each in payloads for event in plain.feed(each)]
    assert read_with_frame(framed, payloads) == one_by_one
    assert framed.usage == plain.usage


def learned(payload: bytes, text: str) -> TextFrame:
    frame = TextFrame()
    frame.learn(payload, [TextDelta(text)])
    return frame


def test_a_frame_reads_all_payloads_that_differ_only_in_their_text() -> None:
    frame = learned(b'{"t":"Hello","n":1}', "Hello")
    payloads = [b'{"t":"a","n":1}', b'{"t":"\\"b\\u00e9","n":1}', b'{"t":"","n":1}']
    assert frame.texts(payloads) == ["a", '"bé', ""]
    assert frame.texts(payloads, 2) == [""]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"t":"a","n":2}',
        b'{"t":null,"n":1}',
        b'{"t":"a","t":"b","n":1}',
        b'{"t":"a"b","n":1}',
        b'{"t":"\\","n":1}',
        b'{"t":"\xff","n":1}',
        b'{"t":"a\nb","n":1}',
        b'{"t":"","n":1}'[:-1],
        b'{"t":","n":1}',
        b"[DONE]",
        b'{"t":"' + b"x" * LARGE + b'","n":1}',
    ],
)
def test_a_payload_that_differs_in_more_is_left_to_the_decoder(payload: bytes) -> None:
    frame = learned(b'{"t":"Hello","n":1}', "Hello")
    assert frame.texts([payload]) == []
    assert frame.texts([b'{"t":"ok","n":1}', payload, b'{"t":"ok","n":1}']) == ["ok"]


@pytest.mark.parametrize(
    ("payload", "events", "following"),
    [
        (b'{"u":"Hi","t":"Hi"}', [TextDelta("Hi")], b'{"u":"more","t":"Hi"}'),
        (b'{"u":"a/b","t":"a\\/b"}', [TextDelta("a/b")], b'{"u":"more","t":"a\\/b"}'),
        (b'{"t":"Hi"}', [TextDelta("Hi", about={"system_fingerprint": "f"})], b'{"t":"more"}'),
        (b'{"t":"Hi"}', [TextDelta("Hi"), TextDelta("there")], b'{"t":"more"}'),
        (b'{"t":"Hi"}', [], b'{"t":"more"}'),
    ],
)
def test_no_frame_is_learned_from_other_payloads(
    payload: bytes, events: list[ModelEvent], following: bytes
) -> None:
    frame = learned(b'{"t":"Hi"}', "Hi")
    frame.learn(payload, events)
    assert frame.texts([following]) == []


@given(st.lists(TEXTS, min_size=1))
def test_framed_texts_are_the_texts_one_by_one(texts: list[str]) -> None:
    written = framed_texts(texts, b"<", b">")
    assert written == b"".join(b"<" + msgspec.json.encode(text) + b">" for text in texts)


def test_half_a_surrogate_pair_is_repaired_as_in_one_text() -> None:
    assert framed_texts(["a\ud83d", "\ude00b"], b"", b",") == '"a�","�b",'.encode()


ENCODERS: dict[str, Callable[[], Any]] = {
    "chat": lambda: ChunkEncoder(CompletionHead("c1", 1, "m"), {}, CallIds("run")),
    "gemini": lambda: GeminiEncoder(AnswerHead("c1", "m"), {}, CallIds("run")),
    "messages": lambda: MessageEncoder(MessageHead("c1", "m"), {}, CallIds("run")),
}


@pytest.mark.parametrize("wire", ENCODERS)
@given(
    rounds=st.lists(
        st.lists(
            st.builds(
                TextDelta,
                TEXTS,
                about=st.sampled_from([None, None, None, {"system_fingerprint": "f"}]),
            )
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_batch_is_written_like_its_events_one_by_one(
    wire: str, rounds: list[list[TextDelta]]
) -> None:
    events: list[RunEvent] = [
        event
        for number, texts in enumerate(rounds, 1)
        for event in (RoundStarted(number, "awaiting_model_call"), *texts)
    ]
    together, apart = ENCODERS[wire](), ENCODERS[wire]()
    assert together.encode(events) == b"".join(apart.encode([event]) for event in events)
