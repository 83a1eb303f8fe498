"""A turn, taken apart into the pieces that a stream brings."""

import re
from collections.abc import Callable, Iterator

import msgspec

from windlass.content import FunctionCall, Text, Thought
from windlass.events import (
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from windlass.testing.script import Pieces, Turn

__all__ = ["events_of", "split", "with_ids"]

ARGUMENT_PIECE = 8
_WORD = re.compile(r"\s*\S+\s?|\s+")


def split(text: str, pieces: Pieces, *, words: bool = True) -> list[str]:
    """The text in pieces that join to it again; text without words goes by characters."""
    match pieces:
        case "whole":
            return [text] if text else []
        case "words" if words:
            return _WORD.findall(text)
        case "words":
            size = ARGUMENT_PIECE
        case size:
            pass
    return [text[start : start + size] for start in range(0, len(text), size)]


def with_ids(turn: Turn, new_id: Callable[[], str]) -> Turn:
    """The turn with an id on every call."""

    def named(made: FunctionCall) -> FunctionCall:
        return made if made.id else msgspec.structs.replace(made, id=new_id())

    return msgspec.structs.replace(
        turn,
        calls=tuple(map(named, turn.calls)),
        parts=tuple(named(p) if isinstance(p, FunctionCall) else p for p in turn.parts),
    )


def events_of(turn: Turn, pieces: Pieces | None = None) -> Iterator[ModelEvent]:
    """What the turn says, without its end. Calls must have their ids."""
    size = turn.pieces if pieces is None else pieces
    index = 0
    for part in turn.content:
        match part:
            case Text(text=text, signature=None):
                yield from map(TextDelta, split(text, size))
            case Thought(text=text, signature=None):
                yield from map(ThoughtDelta, split(text, size))
            case Text(text=text, signature=signature):
                yield TextDelta(text, signature)
            case Thought(text=text, signature=signature):
                yield ThoughtDelta(text, signature)
            case FunctionCall():
                yield ToolCallStarted(index, part.id, part.name)
                for fragment in split(part.json, size, words=False):
                    yield ToolCallDelta(index, fragment)
                yield ToolCallEnded(index, part)
                index += 1
            case _:
                yield PartReceived(part)
