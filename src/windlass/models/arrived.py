"""Reads what has arrived of an HTTP response, at once.

aiohttp hands over the HTTP chunks of a body one by one and resumes its parser after each. A model's
server sends each token as one chunk, so for a stream this took longer than to decode the tokens.
"""

# pyright: reportPrivateUsage=false

import aiohttp

_USED = {
    "_buffer",
    "_buffer_offset",
    "_cursor",
    "_eof",
    "_exception",
    "_http_chunk_splits",
    "_protocol",
    "_size",
}
_IS_KNOWN = set(getattr(aiohttp.StreamReader, "__slots__", ())) >= _USED
"""Whether this version of aiohttp has the reader that `read_arrived` knows."""


async def read_arrived(content: aiohttp.StreamReader) -> bytes:
    """Returns all bytes that have arrived, like `readany`: waits for the first, empty at the end.

    Raises what `readany` raises.
    """
    if not _IS_KNOWN or content._buffer_offset:
        return await content.readany()
    if content._exception is not None:
        raise content._exception
    while not content._buffer and not content._eof:
        await content._wait("readany")
    buffer, splits = content._buffer, content._http_chunk_splits
    if len(buffer) < 2:
        return content.read_nowait()
    data = b"".join(buffer)
    buffer.clear()
    content._size = 0
    content._cursor += len(data)
    if splits is not None:
        splits.clear()
    content._protocol.resume_reading()
    return data
