"""The order of tool results in a conversation. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from windlass.content import Message


def in_call_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Sorts the results of each turn in call order: some services match them by position."""
    ordered = list(messages)
    for place, (turn, results) in enumerate(pairwise(messages), start=1):
        if results.role == "tool" and len(results.parts) > 1:
            places = {call.id: number for number, call in enumerate(turn.calls)}
            parts = sorted(results.responses, key=lambda result: places.get(result.id, len(places)))
            ordered[place] = Message("tool", tuple(parts), results.extra)
    return tuple(ordered)
