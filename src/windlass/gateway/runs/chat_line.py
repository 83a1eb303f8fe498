"""Which runs a chat consists of: one takes the place of another and of all after that. Pure."""

import math
from collections.abc import Sequence

from windlass.runs.records import RunRecord

__all__ = ["line", "replaced_by"]


def line(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of a chat's runs that lead to where it stands; newest first, as they come.

    A run's origin names the first of the runs that it replaced, by number: so that is known also
    when they are no longer stored. It continues what was there before that run. Older versions
    stored when that run began instead.
    """
    kept: list[RunRecord] = []
    before = since = math.inf
    for run in runs:
        if run.number < before and run.created < since:
            kept.append(run)
            number, began = replaced_by(run)
            before = number or before
            since = began if began and not number else since
    return kept


def replaced_by(run: RunRecord) -> tuple[int, float]:
    """The number of the first run that this one replaced, and when that began; 0 if none."""
    return run.origin.get("replaced_from", 0), run.origin.get("replaced_since", 0.0)
