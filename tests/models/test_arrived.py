"""What has arrived of a response is read at once, and is the same as with aiohttp's own reader."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.support.model_wires import raw_server

from windlass.models import arrived
from windlass.models.arrived import read_arrived

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECES = [b"piece %d;" % number * (number + 1) for number in range(300)]


@asynccontextmanager
async def content_of(answer: bytes) -> AsyncIterator[aiohttp.StreamReader]:
    async with (
        raw_server(answer) as server,
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/x", data=b"{}") as response,
    ):
        yield response.content


async def all_of(content: aiohttp.StreamReader) -> tuple[bytes, int]:
    """The whole body, and the number of reads."""
    pieces: list[bytes] = []
    while piece := await read_arrived(content):
        pieces.append(piece)
        await asyncio.sleep(0)
    assert await read_arrived(content) == b""
    return b"".join(pieces), len(pieces)


async def test_chunks_that_arrived_together_are_one_read() -> None:
    assert arrived._IS_KNOWN, "this version of aiohttp is not known: streams take more CPU"
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in PIECES)
    async with content_of(HEAD + chunked + b"0\r\n\r\n") as content:
        body, reads = await all_of(content)
    assert body == b"".join(PIECES)
    assert reads < len(PIECES) / 2


async def test_a_body_that_is_larger_than_the_buffer_arrives_whole() -> None:
    large = [b"x" * 50_000, b"y" * 400_000, b"z" * 70_000] * 4
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in large)
    async with content_of(HEAD + chunked + b"0\r\n\r\n") as content:
        assert (await all_of(content))[0] == b"".join(large)


async def test_a_body_that_is_cut_raises_as_with_aiohttp() -> None:
    async with content_of(HEAD + b"5\r\nhello\r\n5\r\nwo") as content:
        with pytest.raises(aiohttp.ClientPayloadError):
            await all_of(content)


async def test_another_reader_is_read_by_its_own_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrived, "_IS_KNOWN", False)
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in PIECES)
    async with content_of(HEAD + chunked + b"0\r\n\r\n") as content:
        assert (await all_of(content))[0] == b"".join(PIECES)
