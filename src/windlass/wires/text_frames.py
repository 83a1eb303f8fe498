"""Streamed texts that share everything but the text: decoded and encoded many at a time. Pure.

Nearly all payloads of a stream are pieces of text, and nearly all of their bytes are the same.
"""

import operator
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from windlass.events import ModelEvent, TextDelta
from windlass.jsontext import LARGE, STEP
from windlass.wires.encoding import json_text

_MARK = "\x7f"
"""Joins texts. JSON writes it as this one byte, and texts hardly ever contain it."""
_MARK_BYTE = _MARK.encode()

_text = msgspec.json.Decoder(str).decode


def framed_texts(texts: Sequence[str], before: bytes, after: bytes) -> bytes:
    """Each text as JSON, between `before` and `after`."""
    joined = _MARK.join(texts)
    if joined.count(_MARK) < len(texts) and len(joined) <= STEP:
        between = b'"' + after + before + b'"'
        return before + json_text(joined).replace(_MARK_BYTE, between) + after
    return b"".join([before + json_text(text) + after for text in texts])


class TextFrame:
    """Reads the payloads of a stream that repeat an earlier one, except for its text.

    Equal bytes before and after the text mean equal fields, so only the text is decoded.
    """

    __slots__ = ("_after", "_before")

    def __init__(self) -> None:
        self._before = self._after = b""

    def learn(self, payload: bytes, events: Sequence[ModelEvent]) -> None:
        """Remembers the frame of this payload if its events are one plain text delta.

        Forgets it otherwise: another payload may change what the next ones mean.
        """
        self.forget()
        if len(events) != 1 or type(event := events[0]) is not TextDelta:
            return
        text = event.text
        # Other characters can be escaped, so that their bytes cannot be found.
        if not text.isascii() or not text.strip(" ").isalnum() or event != TextDelta(text):
            return
        literal = b'"%s"' % text.encode()
        if payload.count(literal) == 1:
            before, _, after = payload.partition(literal)
            self._before, self._after = before + b'"', b'"' + after

    def forget(self) -> None:
        self._before = b""

    def texts(self, payloads: Sequence[bytes], start: int = 0) -> list[str]:
        """The texts of the payloads from `start` on, up to the first that has another frame."""
        if not (self._before and (literals := self._literals(payloads[start:]))):
            return []
        try:
            texts = _text(b'"%s"' % _MARK_BYTE.join(literals)).split(_MARK)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _one_by_one(literals)
        return texts if len(texts) == len(literals) else _one_by_one(literals)

    def _literals(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """What is between the quotes, up to the first payload with another frame."""
        before, after = self._before, self._after
        if len(payloads) == 1:  # a live stream: the usual way is made for many
            payload = payloads[0]
            literal = payload.removeprefix(before).removesuffix(after)
            is_framed = len(payload) - len(literal) == len(before) + len(after)
            return [literal] if is_framed and len(payload) <= LARGE else []
        while sum(map(len, payloads)) > LARGE:
            payloads = payloads[: len(payloads) // 2]
        literals = [each.removeprefix(before).removesuffix(after) for each in payloads]
        # Of a payload with another frame, less was removed.
        removed = map(operator.sub, map(len, payloads), map(len, literals))
        both = len(before) + len(after)
        return literals[: len(list(takewhile(both.__eq__, removed)))]


def _one_by_one(literals: Sequence[bytes]) -> list[str]:
    """The texts up to the first that cannot be decoded."""
    texts: list[str] = []
    for literal in literals:
        try:
            texts.append(_text(b'"%s"' % literal))
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
    return texts
