"""Which runs a chat consists of: one takes the place of another and of all after that. Pure."""

import math
from collections.abc import Sequence

from windlass.runs.records import RunRecord

__all__ = ["line"]


def line(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of a chat's runs that lead to where it stands; newest first, as they come.

    A run's origin says when the first of those began whose place it has taken: that is known also
    when they are no longer kept. It goes on from what was there before that.
    """
    kept: list[RunRecord] = []
    before = math.inf
    for run in runs:
        if run.created < before:
            kept.append(run)
            before = run.origin.get("replaced_since") or before
    return kept
