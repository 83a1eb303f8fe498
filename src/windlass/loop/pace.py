"""How much of a turn that comes all at once is handled before others run on the event loop."""

from collections.abc import Iterator

from msgspec.structs import replace

from windlass.events import ModelEvent, TextDelta, ThoughtDelta, ToolCallDelta
from windlass.jsontext.large import text_slices

__all__ = [
    "CHARACTERS_PER_STEP",
    "LONGEST_DELTA",
    "STEPS_AT_ONCE",
    "in_short_pieces",
    "size_of",
]

LONGEST_DELTA = 2**16
"""Characters of one event of a stream: each reader of the stream encodes an event in one call."""
STEPS_AT_ONCE = 64
"""Events without a pause."""
CHARACTERS_PER_STEP = 2**12
"""Characters that take about as long as an event."""


def size_of(event: ModelEvent) -> int:
    """Characters of a piece of text; 0 for other events."""
    if isinstance(event, TextDelta | ThoughtDelta):
        return len(event.text)
    return len(event.json) if isinstance(event, ToolCallDelta) else 0


def in_short_pieces(event: ModelEvent) -> Iterator[ModelEvent]:
    """A long piece of text as several; the event itself if it is signed, or something else."""
    match event:
        case TextDelta(text=text, signature=None, extra=None):
            yield from (replace(event, text=piece) for piece in text_slices(text, LONGEST_DELTA))
        case ThoughtDelta(text=text, signature=None, extra=None):
            yield from (replace(event, text=piece) for piece in text_slices(text, LONGEST_DELTA))
        case ToolCallDelta(json=text):
            yield from (replace(event, json=piece) for piece in text_slices(text, LONGEST_DELTA))
        case _:
            yield event
