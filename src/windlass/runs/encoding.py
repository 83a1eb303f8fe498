"""Encodes events for storage, as a JSON array. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.content import size_of_message, size_of_part
from windlass.events import (
    RunEvent,
    RunStarted,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
)
from windlass.jsontext import LARGE, encode_any_json, encode_json
from windlass.runs.event_log import PAGE_BYTES, PAGE_EVENTS

_EVENT = 64
SLICE = 4_096
"""The number of events of a long log that are encoded at a time."""


def encoded(events: Sequence[RunEvent], *, large: bool | None = None) -> bytes:
    """Encodes the events as JSON. Raises if a tool's result cannot be encoded.

    `large` is the result of `are_large`, if the caller has it. Progress data that cannot be encoded
    is replaced: it must not end the run.
    """
    if not isinstance(events, list | tuple):  # a long log, which is unpacked in slices
        starts = range(0, len(events), SLICE)
        return b"[" + b",".join(encoded(events[n : n + SLICE])[1:-1] for n in starts) + b"]"
    large = are_large(events) if large is None else large
    encode = _encoded_in_steps if large else encode_json
    try:
        return encode(events)
    except Exception:  # noqa: BLE001 - encoding an arbitrary object may raise anything
        return encode([_plain(event) for event in events])


def in_pages(events: Iterable[RunEvent]) -> list[list[RunEvent]]:
    """Splits events into the batches to store. Readers read whole batches, so each is one page."""
    pages: list[list[RunEvent]] = []
    room = 0
    for event in events:
        size = _size_of(event)
        if not pages or len(pages[-1]) == PAGE_EVENTS or size > room:
            pages.append([])
            room = PAGE_BYTES
        pages[-1].append(event)
        room -= size
    return pages


def are_large(events: Iterable[RunEvent], limit: int = LARGE) -> bool:
    """Whether the events are so large that they must be encoded off the event loop."""
    size = 0
    for event in events:
        # Nearly all events are texts, and comparing the type is the fastest test.
        size += _EVENT + len(event.text) if type(event) is TextDelta else _size_of(event)
        if size > limit:
            return True
    return False


def _size_of(event: RunEvent) -> int:
    """The approximate number of characters."""
    size = _SIZES.get(type(event))
    return _EVENT if size is None else _EVENT + size(event)


def _size_of_messages(event: RunStarted) -> int:
    return sum(map(size_of_message, event.messages))


def _size_of_result(event: ToolRunEnded) -> int:
    return size_of_part(event.response)


_SIZES: dict[type[RunEvent], Callable[[Any], int]] = {
    TextDelta: lambda event: len(event.text),
    ThoughtDelta: lambda event: len(event.text),
    ToolCallDelta: lambda event: len(event.json),
    ToolCallEnded: lambda event: len(event.call.json),
    ToolRunStarted: lambda event: len(event.call.json),
    ToolRunEnded: _size_of_result,
    RunStarted: _size_of_messages,
}
"""The events whose size depends on their content: looking them up is faster than a match."""


def _encoded_in_steps(events: Sequence[RunEvent]) -> bytes:
    pieces = [b"["]
    for event in events:
        is_large = _size_of(event) > LARGE
        pieces += (encode_in_steps(event) if is_large else encode_json(event), b",")
    pieces[-1] = b"]"
    return b"".join(pieces)


def encode_in_steps(value: object) -> bytes:
    """Does the same as `encode_json`, without one long call into C for a large value."""
    return encode_any_json(msgspec.to_builtins(value, str_keys=True, enc_hook=str))


def _plain(event: RunEvent) -> RunEvent:
    if not isinstance(event, ToolRunProgress):
        return event
    try:
        encode_json(event)
    except Exception:  # noqa: BLE001 - as above
        return replace(event, data=f"<{type(event.data).__name__}>")
    return event
