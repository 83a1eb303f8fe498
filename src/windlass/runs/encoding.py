"""Events as they are kept: a JSON array. Pure."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from windlass.content import size_of_part
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
from windlass.jsontext import LARGE, encode_any_json, encode_json, is_larger
from windlass.runs.event_log import PAGE_BYTES, PAGE_EVENTS

__all__ = ["are_large", "encode_in_steps", "encoded", "in_pages"]

_EVENT = 64
SLICE = 4_096
"""Events of a long log that are encoded at a time."""


def encoded(events: Sequence[RunEvent]) -> bytes:
    """The events as JSON. Raises whatever a tool's result fails with; a report of progress never
    does, since it is no reason to end a run."""
    if not isinstance(events, list | tuple):  # a long log, which is unpacked piece by piece
        starts = range(0, len(events), SLICE)
        return b"[" + b",".join(encoded(events[n : n + SLICE])[1:-1] for n in starts) + b"]"
    encode = _encoded_in_steps if are_large(events) else encode_json
    try:
        return encode(events)
    except Exception:  # noqa: BLE001 - an object may fail as it likes when it is looked at
        return encode([_plain(event) for event in events])


def in_pages(events: Iterable[RunEvent]) -> list[list[RunEvent]]:
    """The events as they are to be stored: a reader reads whole batches, so each is a page."""
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


def are_large(events: Iterable[RunEvent]) -> bool:
    """Whether to encode the events off the event loop."""
    size = 0
    for event in events:
        size += _size_of(event)
        if size > LARGE:
            return True
    return False


def _size_of(event: RunEvent) -> int:
    """Characters, about."""
    match event:
        case TextDelta(text=text) | ThoughtDelta(text=text) | ToolCallDelta(json=text):
            return _EVENT + len(text)
        case ToolCallEnded(call=call) | ToolRunStarted(call=call):
            return _EVENT + len(call.json)
        case ToolRunEnded(response=response):
            return LARGE + 1 if is_larger(response.response, LARGE) else _EVENT
        case RunStarted(messages=messages):
            return sum(_EVENT + size_of_part(part) for each in messages for part in each.parts)
        case _:
            return _EVENT


def _encoded_in_steps(events: Sequence[RunEvent]) -> bytes:
    pieces = [b"["]
    for event in events:
        is_large = _size_of(event) > LARGE
        pieces += (encode_in_steps(event) if is_large else encode_json(event), b",")
    pieces[-1] = b"]"
    return b"".join(pieces)


def encode_in_steps(value: object) -> bytes:
    """The same as `encode_json`, without a long call into C if the value is large."""
    return encode_any_json(msgspec.to_builtins(value, str_keys=True, enc_hook=str))


def _plain(event: RunEvent) -> RunEvent:
    if not isinstance(event, ToolRunProgress):
        return event
    try:
        encode_json(event)
    except Exception:  # noqa: BLE001 - as above
        return replace(event, data=f"<{type(event.data).__name__}>")
    return event
