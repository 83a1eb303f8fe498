"""Splits large turns into steps, so that other tasks of the event loop run in between."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from windlass.events import ModelEvent, RunEvent, TextDelta, ThoughtDelta, ToolCallDelta
from windlass.jsontext import text_slices

E = TypeVar("E", bound=RunEvent)

LONGEST_DELTA = 2**16
"""Maximum characters of one stream event: each reader encodes an event in one call."""
STEPS_AT_ONCE = 256
"""Events that are handled without a pause."""
ITEMS_AT_ONCE = 256
"""Calls or answers that are handled without a pause."""
CHARACTERS_PER_STEP = 2**10
"""Characters that take about as long as one event."""


class Pace:
    """Counts the steps of a turn since the last pause."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    def is_over(self, events: int, characters: int) -> bool:
        """Counts events with this many characters. Whether a pause is due, which starts again."""
        self._steps += events + characters // CHARACTERS_PER_STEP
        if self._steps <= STEPS_AT_ONCE:
            return False
        self._steps = 0
        return True


def size_of(event: RunEvent) -> int:
    """Characters of a text delta; 0 for other events."""
    # Compares types, which is several times faster than `isinstance` with a union.
    if type(event) is TextDelta or type(event) is ThoughtDelta:
        return len(event.text)
    return len(event.json) if type(event) is ToolCallDelta else 0


def in_slices(events: Sequence[E]) -> Iterator[Sequence[E]]:
    """Splits the events into slices that are handled without a pause; at least one slice."""
    # Most events are texts, and most slices have all events.
    sizes = [len(each.text) if type(each) is TextDelta else size_of(each) for each in events]
    if len(events) + sum(sizes) // CHARACTERS_PER_STEP <= STEPS_AT_ONCE:
        yield events
        return
    start = steps = 0
    for place, size in enumerate(sizes):
        steps += 1 + size // CHARACTERS_PER_STEP
        if steps > STEPS_AT_ONCE and place > start:
            yield events[start:place]
            start, steps = place, 1 + size // CHARACTERS_PER_STEP
    yield events[start:]


def in_short_pieces(event: ModelEvent) -> Iterator[ModelEvent]:
    """Splits a long text delta into several. Signed and other events stay whole."""
    match event:
        case TextDelta(text=text, signature=None, extra=None):
            yield from (replace(event, text=piece) for piece in text_slices(text, LONGEST_DELTA))
        case ThoughtDelta(text=text, signature=None, extra=None):
            yield from (replace(event, text=piece) for piece in text_slices(text, LONGEST_DELTA))
        case ToolCallDelta(json=text):
            yield from (replace(event, json=piece) for piece in text_slices(text, LONGEST_DELTA))
        case _:
            yield event
