import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_wires import splits

from windlass.errors import ModelError, StreamCut
from windlass.wires.sse import SseDecoder


def payloads(chunks: list[bytes], limit: int = 2**20) -> list[bytes]:
    decoder = SseDecoder(limit)
    return [*(p for chunk in chunks for p in decoder.feed(chunk)), *decoder.finish()]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'data: {"a":1}\n\ndata: {"b":2}\n\n', [b'{"a":1}', b'{"b":2}']),
        (b'data:{"a":1}\n\n', [b'{"a":1}']),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\n\r\ndata: b\r\n\ndata: c\r\n\r", [b"a", b"b", b"c"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": a comment\n\ndata: a\n: another\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\nid: 7\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data: a\nevent: x\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data:\n\n", [b""]),
        (b"database: no\n\ndata: a\n\n", [b"a"]),
        (b'{"error": 1}\n\ndata: a\n\n', [b'{"error": 1}', b"a"]),
        (b'event: {"a":1}\n: {"a":1}\n\n', []),
        (b"", []),
    ],
)
def test_events_are_read_by_the_specification(stream: bytes, expected: list[bytes]) -> None:
    assert payloads([stream]) == expected
    assert payloads([stream[i : i + 1] for i in range(len(stream))]) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (b'data: {"a":1}', [b'{"a":1}']),
        (b'data: {"a":1}\n', [b'{"a":1}']),
        (b"data: [DONE]", [b"[DONE]"]),
        (b'data: {"a":', []),
        (b"data: half a wor", []),
        (b'{"a":1}', [b'{"a":1}']),
    ],
)
def test_a_last_event_without_its_blank_line_counts_if_it_is_whole(
    end: bytes, expected: list[bytes]
) -> None:
    assert payloads([b"data: 1\n\n" + end]) == [b"1", *expected]


lines = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data:",
        b"data: ",
        b": hi",
        b"event: e",
        b"",
        b"",
        b"x",
        b"\xef\xbb\xbf",
    ]
)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
streams = st.lists(st.tuples(lines, ends), max_size=12).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


@given(streams, st.lists(st.integers(0, 300), max_size=20))
def test_any_split_gives_the_same_payloads(stream: bytes, cuts: list[int]) -> None:
    whole = payloads([stream])
    assert payloads(splits(stream, cuts)) == whole
    assert payloads([stream[i : i + 1] for i in range(len(stream))]) == whole


def outcome(chunks: list[bytes]) -> list[bytes] | str:
    try:
        return payloads(chunks)
    except StreamCut as error:
        return error.message


@given(
    st.lists(st.binary(max_size=9) | st.sampled_from([b"data", b": ", b"{", b"\n", b"\r"])),
    st.lists(st.integers(0, 200), max_size=9),
)
def test_no_bytes_make_the_decoder_fail(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    assert outcome(splits(stream, cuts)) == outcome([stream])


@pytest.mark.parametrize("place", range(1, 7))
def test_a_stream_with_broken_framing_never_drops_an_event_silently(place: int) -> None:
    event = b'data: {"a":1}\n\n'
    stream = b"data: 1\n\n" + event[:place] + b"\n\n" + event[place:]
    found = outcome([stream])
    assert isinstance(found, str) or b'{"a":1}' in found or b' {"a":1}' in found


@pytest.mark.parametrize(
    "event", [b"data: " + b"x" * 200, b"x" * 200, b"data: " + b"x" * 60 + b"\ndata: " + b"y" * 60]
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_oversized_event_is_an_error_however_it_arrives(event: bytes, size: int) -> None:
    stream = b"data: a\n\n" + event + b"\n\n"
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        payloads(chunks, limit=100)


def test_an_event_of_the_maximum_size_is_no_error() -> None:
    stream = b"data: " + b"x" * 94 + b"\n\n"
    assert payloads([stream], limit=100) == payloads([stream[:50], stream[50:]], limit=100)


def test_the_time_of_decoding_is_linear() -> None:
    def seconds(size: int) -> float:
        stream = b"data: " + b"x" * size + b"\n" + b"data: y\n" * (size // 8) + b"\n"
        chunks = [stream[i : i + 1] for i in range(len(stream))]
        started = time.process_time()
        assert len(payloads(chunks)) == 1
        return time.process_time() - started

    small, large = min(seconds(20_000) for _ in range(3)), seconds(160_000)
    assert large < small * 8 * 4
