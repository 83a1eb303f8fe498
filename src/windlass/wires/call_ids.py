"""The ids by which a client knows the calls of a run. Pure."""

import hashlib
import re

from windlass.content import new_call_id

_UNIQUE = re.compile(r"call_[A-Za-z0-9]{20,}")
_OF_A_RUN = re.compile(r"call_([0-9a-f]{24})_[0-9a-f]{8}")


class CallIds:
    """The ids by which a client knows its calls: the model's own if no other turn can have them.

    Some servers count their calls from 0 in every answer; such an id would find another's turn.
    Where the run is kept, its id stands in those of its calls: a turn can then be found in its log.
    """

    def __init__(self, kept_run: str = "") -> None:
        self._run = kept_run.removeprefix("run_")
        self._outward: dict[str, str] = {}

    def outward(self, call_id: str) -> str:
        known = self._outward.get(call_id)
        if known is None:
            known = self._outward[call_id] = self._name(call_id)
        return known

    def _name(self, call_id: str) -> str:
        if self._run:
            return f"call_{self._run}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
        return call_id if _UNIQUE.fullmatch(call_id) else new_call_id()


def run_of(call_id: str) -> str | None:
    """The kept run that a call is of, if its id says so."""
    found = _OF_A_RUN.fullmatch(call_id)
    return f"run_{found[1]}" if found else None
