"""Decodes server-sent events: bytes in, the `data` of each event out, for any chunk size. Pure."""

from contextlib import suppress

from windlass.errors import ModelError, StreamCut
from windlass.jsontext import decode_json

MAX_EVENT = 64 * 2**20
"""Bytes. An image in a Gemini stream is one event of many megabytes."""

_BOM = b"\xef\xbb\xbf"
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")


class SseDecoder:
    """Decodes chunks of any size and returns complete payloads, in linear time.

    Complete lines are parsed at once; only the incomplete line is buffered, in pieces.
    """

    __slots__ = ("_begun", "_cr", "_data", "_limit", "_pieces", "_size", "_waiting")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []  # of the incomplete line
        self._waiting = 0  # their size
        self._data: list[bytes] = []  # the data lines of the incomplete event
        self._size = 0  # their size
        self._cr = False  # the last byte was a CR: a LF that follows belongs to it
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completes. Raises `ModelError` for an oversized event."""
        if self._cr or b"\r" in chunk:
            chunk = self._unified(chunk)
        if b"\n" not in chunk:
            self._wait(chunk)
            return []
        if self._pieces:
            chunk = b"".join([*self._pieces, chunk])
            self._pieces.clear()
            self._waiting = 0
        if not self._data and chunk.startswith(b"data: ") and len(chunk) <= self._limit:
            # Usually a chunk is only whole events of one line each: `data: {...}`.
            whole = chunk[6:-2].split(b"\n\ndata: ")
            if chunk.endswith(b"\n\n") and b"\n" not in b"".join(whole):
                self._begun = True
                return whole
        payloads: list[bytes] = []
        if not self._data:
            *blocks, chunk = chunk.split(b"\n\n")
            for block in blocks:
                # The common event is one line: `data: {...}`.
                if block.startswith(b"data: ") and b"\n" not in block and len(block) <= self._limit:
                    payloads.append(block[6:])
                    self._begun = True
                    continue
                # So is its form with a name: `event: ...`, then the data.
                name, _, data = block.partition(b"\n")
                if (
                    name.startswith(b"event: ")
                    and data.startswith(b"data: ")
                    and b"\n" not in data
                    and len(block) <= self._limit
                ):
                    payloads.append(data[6:])
                    self._begun = True
                else:
                    self._lines([*block.split(b"\n"), b""], payloads)
        if chunk:
            *lines, unfinished = chunk.split(b"\n")
            self._lines(lines, payloads)
            self._wait(unfinished)
        return payloads

    def finish(self) -> list[bytes]:
        """The payload of an event without its final blank line, if any.

        The specification drops such an event, but some servers end this way. It counts if it is
        complete JSON or `[DONE]`.
        """
        payloads: list[bytes] = []
        with suppress(StreamCut):  # ignore an incomplete line
            self._lines([b"".join(self._pieces)], payloads)
        self._lines([b""], payloads)
        self._pieces.clear()
        return [payload for payload in payloads if payload == b"[DONE]" or _is_json(payload)]

    def _unified(self, chunk: bytes) -> bytes:
        """The chunk with LF line ends, even for a CRLF split between two chunks."""
        if self._cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._cr = False
        if chunk:
            self._cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _lines(self, lines: list[bytes], payloads: list[bytes]) -> None:
        for whole_line in lines:
            line = whole_line
            if not self._begun:
                line = line.removeprefix(_BOM)
                self._begun = True
            self._check(len(line))
            if not line:
                if self._data:
                    payloads.append(b"\n".join(self._data))
                    self._data.clear()
                self._size = 0
            elif (data := _data_of(line)) is not None:
                self._data.append(data)
                self._size += len(line)
                self._check(self._size)

    def _wait(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._waiting += len(piece)
            self._check(self._waiting)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ModelError(f"an event of the model's stream is larger than {self._limit} bytes")


def _data_of(line: bytes) -> bytes | None:
    """The data of a line; None for other fields and comments.

    Beyond the specification: bare JSON is data (some servers write errors this way), and JSON after
    an unknown field means that the stream lost some bytes.
    """
    if line.startswith(b"data:"):
        return line[6:] if line.startswith(b"data: ") else line[5:]
    if line.startswith(_OTHER_FIELDS):
        return None
    if line.lstrip().startswith(b"{"):
        return line
    if line == b"data" or b"{" in line:
        raise StreamCut("the framing of the model's stream is broken")
    return None


def _is_json(payload: bytes) -> bool:
    try:
        decode_json(payload)
    except ValueError:
        return False
    return True
