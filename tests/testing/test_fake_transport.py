"""The bytes on the connection: every oddity that a fake upstream can add, and its own life."""

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.thoroughness import examples
from tests.testing.helpers import HELLO, turns

from windlass.testing import (
    FakeGemini,
    FakeOpenAI,
    Gate,
    Turn,
    calls,
    cut,
    disconnect,
    hang,
    malformed_sse,
    raw_call,
    refuse,
    say,
    slow,
)
from windlass.testing.exchange import Frames, Transport, writes_of
from windlass.testing.fake_anthropic import MessageWriter
from windlass.testing.fake_gemini import GenerateWriter
from windlass.testing.fake_openai import ChatWriter

Fake = FakeOpenAI | FakeGemini
GEMINI_BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def asking(fake: Fake, *, stream: bool = True) -> tuple[str, dict[str, Any]]:
    if isinstance(fake, FakeOpenAI):
        url = f"{fake.base_url}/chat/completions"
        return url, {"model": "m", "messages": HELLO, "stream": stream}
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"{fake.base_url}/v1beta/models/gemini-2.5-flash:{verb}", GEMINI_BODY


async def answer(
    session: aiohttp.ClientSession, fake: Fake, *, stream: bool = True
) -> tuple[aiohttp.ClientResponse, bytes]:
    url, body = asking(fake, stream=stream)
    async with session.post(url, json=body) as response:
        return response, await response.read()


def payloads(raw: bytes) -> list[bytes]:
    events = raw.replace(b"\r\n", b"\n").split(b"\n\n")
    return [event.removeprefix(b"data: ") for event in events if event.startswith(b"data: ")]


def texts(raw: bytes) -> str:
    chunks = [msgspec.json.decode(p) for p in payloads(raw) if p != b"[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def test_an_openai_stream_ends_with_done_and_a_gemini_stream_does_not(
    session: aiohttp.ClientSession,
):
    for fake in (FakeOpenAI("Hi"), FakeGemini("Hi")):
        async with fake:
            response, raw = await answer(session, fake)
        assert response.content_type == "text/event-stream"
        assert (payloads(raw)[-1] == b"[DONE]") == isinstance(fake, FakeOpenAI)


async def test_a_stream_can_end_without_done(session: aiohttp.ClientSession):
    async with FakeOpenAI("Hi", done=False) as fake:
        _, raw = await answer(session, fake)
    assert b"[DONE]" not in raw
    assert texts(raw) == "Hi"


async def test_lines_may_end_in_crlf_with_heartbeats_between(session: aiohttp.ClientSession):
    async with FakeOpenAI("one two", crlf=True, heartbeats=True) as fake:
        _, raw = await answer(session, fake)
    assert raw.count(b"\n") == raw.count(b"\r\n")
    assert raw.count(b": keep-alive\r\n\r\n") == len(payloads(raw))
    assert texts(raw) == "one two"


async def test_the_stream_can_be_split_at_every_byte(session: aiohttp.ClientSession):
    async with FakeOpenAI("Grüße an alle", write_size=1) as fake:
        url, body = asking(fake)
        async with session.post(url, json=body) as response:
            chunks = [chunk async for chunk, _ in response.content.iter_chunks()]
    raw = b"".join(chunks)
    assert texts(raw) == "Grüße an alle"
    assert len(chunks) > len(raw) / 2


@pytest.mark.parametrize("kind", [FakeOpenAI, FakeGemini])
async def test_a_stream_request_can_be_answered_with_a_body_and_the_other_way_round(
    session: aiohttp.ClientSession, kind: type[Fake]
):
    async with kind("Hi", answer_in="json") as fake:
        response, raw = await answer(session, fake, stream=True)
    assert (response.content_type, type(msgspec.json.decode(raw))) == ("application/json", dict)
    async with kind("Hi", answer_in="sse") as fake:
        response, raw = await answer(session, fake, stream=False)
    assert response.content_type == "text/event-stream"
    assert len(payloads(raw)) > 1


async def test_the_content_type_can_be_wrong(session: aiohttp.ClientSession):
    async with FakeOpenAI("Hi", content_type="text/plain") as fake:
        response, _ = await answer(session, fake)
    assert response.content_type == "text/plain"


async def test_a_gemini_stream_without_sse_is_a_json_array(session: aiohttp.ClientSession):
    async with FakeGemini("one two") as fake:
        url = f"{fake.base_url}/v1beta/models/m:streamGenerateContent"
        async with session.post(url, json=GEMINI_BODY) as response:
            assert len(await response.json()) == 3


async def test_a_missing_gemini_key_is_forbidden(session: aiohttp.ClientSession):
    async with FakeGemini("Hi", api_key="k") as fake:
        response, raw = await answer(session, fake, stream=False)
        assert (response.status, b"PERMISSION_DENIED" in raw) == (403, True)
        url, body = asking(fake, stream=False)
        for headers in ({"x-goog-api-key": "k"}, {"Authorization": "Bearer k"}):
            async with session.post(url, json=body, headers=headers) as response:
                assert response.status == 200


async def test_a_missing_openai_key_is_refused(session: aiohttp.ClientSession):
    async with FakeOpenAI("Hi", api_key="k") as fake:
        response, raw = await answer(session, fake)
    assert (response.status, b"You didn't provide an API key" in raw) == (401, True)


async def test_a_body_that_is_no_json_is_refused(session: aiohttp.ClientSession):
    async with FakeOpenAI("Hi") as fake:
        url, _ = asking(fake)
        async with session.post(url, data=b"{") as response:
            assert response.status == 400


async def test_a_body_of_many_megabytes_is_accepted(session: aiohttp.ClientSession):
    async with FakeOpenAI("Hi") as fake:
        url, body = asking(fake, stream=False)
        body["messages"] = [{"role": "user", "content": "x" * 5_000_000}]
        data = io.BytesIO(msgspec.json.encode(body))
        async with session.post(url, data=data) as response:
            assert response.status == 200


@pytest.mark.parametrize("retry_after", [0.5, 2])
async def test_retry_after_is_a_header(session: aiohttp.ClientSession, retry_after: float):
    async with FakeOpenAI([refuse(429, retry_after=retry_after)]) as fake:
        response, raw = await answer(session, fake)
    assert (response.status, response.headers["Retry-After"]) == (429, str(retry_after))
    assert msgspec.json.decode(raw)["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.sweep
@pytest.mark.sweep
async def test_a_stream_can_be_cut_at_every_byte(session: aiohttp.ClientSession):
    turn = raw_call("f", '{"a":1}', id="call_1")
    async with FakeGemini(turn) as fake:
        _, whole = await answer(session, fake)
    async with FakeGemini(cut(turn, byte=n) for n in range(1, len(whole) + 1)) as fake:
        url, body = asking(fake)
        for size in range(1, len(whole) + 1):
            raw = b""
            with pytest.raises(aiohttp.ClientPayloadError):
                async with session.post(url, json=body) as response:
                    async for data in response.content.iter_any():
                        raw += data
            assert len(raw) == size


async def test_framing_can_be_broken_at_every_byte(session: aiohttp.ClientSession):
    async with FakeOpenAI(malformed_sse("Hi", byte=n) for n in range(300)) as fake:
        for place in range(300):
            response, raw = await answer(session, fake)
            assert response.status == 200
            assert raw[place : place + 2] == b"\n\n"


async def test_a_cut_keeps_the_finish_back_however_late_it_comes(session: aiohttp.ClientSession):
    async with FakeOpenAI(cut("one two", 99)) as fake:
        url, body = asking(fake)
        raw = b""
        with pytest.raises(aiohttp.ClientPayloadError):
            async with session.post(url, json=body) as response:
                async for data in response.content.iter_any():
                    raw += data
    assert b"two" in raw
    assert b'"finish_reason":"stop"' not in raw


def frames_of(turn: Turn, wire: str) -> Frames:
    if wire == "openai":
        return ChatWriter(model="m", streams=True, include_usage=True).frames(turn)
    if wire == "gemini":
        return GenerateWriter(model="m", streams=True).frames(turn)
    return MessageWriter(model="m", streams=True).frames(turn)


@given(turns())
def test_openai_chunks_together_are_the_turn(turn: Turn):
    frames = frames_of(turn, "openai")
    chunks = [msgspec.json.decode(p) for p in (*frames.head, *frames.pieces, *frames.tail[:-1])]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(d.get("content") or "" for d in deltas) == turn.text
    assert "".join(d.get("reasoning_content") or "" for d in deltas) == turn.thoughts
    made: dict[int, list[str]] = {}
    for delta in deltas:
        for piece in delta.get("tool_calls", ()):
            whole = made.setdefault(piece["index"], ["", "", ""])
            whole[0] += piece.get("id", "")
            whole[1] += piece["function"].get("name", "")
            whole[2] += piece["function"]["arguments"]
    assert list(made.values()) == [[c.id, c.name, c.json] for c in turn.calls]
    assert chunks[-1]["usage"]["total_tokens"] == turn.usage.total_tokens
    assert chunks[-2]["choices"][0]["finish_reason"] == turn.finish_word


@given(turns())
def test_gemini_chunks_together_are_the_turn_and_count_up(turn: Turn):
    frames = frames_of(turn, "gemini")
    chunks = [msgspec.json.decode(p) for p in (*frames.pieces, *frames.tail)]
    parts = [part for c in chunks for part in c["candidates"][0]["content"]["parts"]]
    said = [p for p in parts if "text" in p]
    assert "".join(p["text"] for p in said if not p.get("thought")) == turn.text
    assert "".join(p["text"] for p in said if p.get("thought")) == turn.thoughts
    made = [p["functionCall"] for p in parts if "functionCall" in p]
    assert made == [{"id": c.id, "name": c.name, "args": c.arguments} for c in turn.calls]
    totals = [chunk["usageMetadata"]["totalTokenCount"] for chunk in chunks]
    assert totals == sorted(totals)
    assert totals[-1] == turn.usage.total_tokens


@given(turns())
def test_anthropic_events_together_are_the_turn(turn: Turn):
    frames = frames_of(turn, "anthropic")
    lines = [line for p in (*frames.head, *frames.pieces, *frames.tail) for line in p.split(b"\n")]
    events = [msgspec.json.decode(line) for line in lines]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(d.get("text", "") for d in deltas) == turn.text
    assert "".join(d.get("thinking", "") for d in deltas) == turn.thoughts
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": "", "open": True})
            case "content_block_delta":
                assert event["index"] == len(blocks) - 1
                blocks[-1]["json"] += event["delta"].get("partial_json", "")
            case "content_block_stop":
                assert blocks[event["index"]].pop("open")
    assert not any("open" in block for block in blocks)
    made = [(b["id"], b["name"], b["json"]) for b in blocks if b["type"] == "tool_use"]
    assert made == [(c.id, c.name, c.json) for c in turn.calls]
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]


@given(turns(), st.booleans(), st.booleans(), st.sampled_from(["openai", "gemini"]))
@settings(max_examples=examples(50))
def test_comments_and_line_ends_leave_the_payloads_alone(
    turn: Turn, crlf: bool, heartbeats: bool, wire: str
):
    frames = frames_of(turn, wire)
    writes = writes_of(frames, Transport(crlf=crlf, heartbeats=heartbeats))
    assert len(writes) == len(frames.pieces) + 1
    assert payloads(b"".join(writes)) == [*frames.head, *frames.pieces, *frames.tail]


async def test_a_gate_is_seen_from_another_thread(session: aiohttp.ClientSession):
    gate = Gate()
    async with FakeOpenAI([slow("Hi", gate)]) as fake:
        waiting = asyncio.ensure_future(answer(session, fake))
        await gate.reached.wait()
        assert not waiting.done()
        gate.open()
        assert texts((await waiting)[1]) == "Hi"


async def test_a_slow_body_and_a_slow_refusal_wait_too(session: aiohttp.ClientSession):
    gate = Gate()
    async with FakeOpenAI([slow("Hi", gate, after=3), slow(refuse(500), gate)]) as fake:
        waiting = asyncio.ensure_future(answer(session, fake, stream=False))
        await gate.reached.wait()
        gate.open()
        assert (await waiting)[0].status == 200
        assert (await answer(session, fake))[0].status == 500


async def test_a_disconnect_ends_a_hanging_answer(session: aiohttp.ClientSession):
    async with FakeOpenAI([hang(), "Hi"]) as fake:
        url, body = asking(fake)
        with pytest.raises(TimeoutError):
            await session.post(url, json=body, timeout=aiohttp.ClientTimeout(0.02))
        assert (await answer(session, fake))[0].status == 200


async def test_a_client_that_disconnects_during_an_answer_logs_nothing(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
):
    async with FakeOpenAI(say("word " * 5000)) as fake:
        url, body = asking(fake)
        for _ in range(5):
            async with session.post(url, json=body) as response:
                await response.content.readany()
                response.close()
    assert caplog.records == []


async def test_closing_is_fast_and_leaves_no_thread(session: aiohttp.ClientSession):
    before = threading.active_count()
    gates = [Gate(), Gate()]
    fake = FakeOpenAI([slow(hang(), gates[0]), slow("Hi", gates[1], after=1)]).start()
    hanging = [asyncio.ensure_future(answer(session, fake)) for _ in gates]
    for gate in gates:
        await gate.reached.wait()
    gates[0].open()
    started = time.perf_counter()
    fake.close()
    assert time.perf_counter() - started < 30  # the server waits 60 seconds by default
    results = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientError) for result in results)
    assert threading.active_count() == before
    fake.close()


def test_an_address_needs_a_start():
    with pytest.raises(RuntimeError, match="not running"):
        _ = FakeOpenAI().base_url


def test_a_taken_port_is_an_error_and_a_closed_fake_starts_again():
    with FakeOpenAI("Hi") as first:
        port = int(first.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        with pytest.raises(OSError, match="address already in use"):
            FakeOpenAI("Hi", port=port).start()
        assert first.start() is first
    with first:
        assert first.base_url


@pytest.mark.sweep
@pytest.mark.sweep
async def test_thousands_of_requests_over_kept_connections(session: aiohttp.ClientSession):
    turn = calls(raw_call("f", "{}"), text="Hi")
    async with FakeOpenAI(turn) as fake:
        url, body = asking(fake, stream=False)

        async def ask_often() -> None:
            for _ in range(100):
                async with session.post(url, json=body) as response:
                    assert response.status == 200
                    await response.read()

        await asyncio.gather(*(ask_often() for _ in range(20)))
    assert len(fake.requests) == 2000


async def test_disconnects_and_answers_can_alternate_for_long(session: aiohttp.ClientSession):
    async with FakeOpenAI([disconnect(), say("Hi")] * 100) as fake:
        for _ in range(100):
            with pytest.raises(aiohttp.ClientError):
                await answer(session, fake)
            assert (await answer(session, fake))[0].status == 200
