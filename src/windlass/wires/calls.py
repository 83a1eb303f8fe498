"""Calls on any wire: the ids that a client sees, and the order of their results. Pure."""

import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise

from windlass.content import Message, new_call_id

_UNIQUE = re.compile(r"call_[A-Za-z0-9]{20,}")
_OF_A_RUN = re.compile(r"call_([0-9a-f]{24})_[0-9a-f]{8}")


class CallIds:
    """Maps the model's call ids to those that the client sees: the same ids if they are unique.

    Some servers number their calls from 0 in every response, so an id may belong to several turns.
    The call ids of a stored run contain the run's id, so that the turn can be found in its log.
    """

    def __init__(self, stored_run: str = "") -> None:
        self._run = stored_run.removeprefix("run_")
        self._outward: dict[str, str] = {}

    def outward(self, call_id: str) -> str:
        """The id for the client."""
        known = self._outward.get(call_id)
        if known is None:
            known = self._outward[call_id] = self._new(call_id)
        return known

    def _new(self, call_id: str) -> str:
        if self._run:
            return f"call_{self._run}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
        return call_id if _UNIQUE.fullmatch(call_id) else new_call_id()


def run_of(call_id: str) -> str | None:
    """The id of the stored run that a call id contains, if any."""
    found = _OF_A_RUN.fullmatch(call_id)
    return f"run_{found[1]}" if found else None


def in_call_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Sorts the results of each turn in call order: some services match them by position."""
    ordered = list(messages)
    for place, (turn, results) in enumerate(pairwise(messages), start=1):
        if results.role == "tool" and len(results.parts) > 1:
            places = {call.id: number for number, call in enumerate(turn.calls)}
            parts = sorted(results.responses, key=lambda result: places.get(result.id, len(places)))
            ordered[place] = Message("tool", tuple(parts), results.extra)
    return tuple(ordered)
