"""Which runs of a chat are current: a run may replace an earlier run and all after it. Pure."""

import math
from collections.abc import Sequence

from windlass.runs.records import RunRecord


def current_runs(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The current runs of a chat: those that no later run replaced. Newest first, like `runs`.

    A run's origin has the number of the first run that it replaced, which is still known after that
    run was deleted. Older versions stored the start time of that run instead.
    """
    current: list[RunRecord] = []
    before = since = math.inf
    for run in runs:
        if run.number < before and run.created < since:
            current.append(run)
            number, started = first_replaced(run)
            before = number or before
            since = started if started and not number else since
    return current


def first_replaced(run: RunRecord) -> tuple[int, float]:
    """The number and the start time of the first run that this one replaced; 0 if none."""
    return run.origin.get("replaced_from", 0), run.origin.get("replaced_since", 0.0)
