"""Whether an interrupted run may be resumed. Pure."""

from collections.abc import Sequence

from windlass.errors import RunInterrupted
from windlass.loop.history import History

MAX_RESUMPTIONS = 20
"""The maximum number of resumptions in a row without progress: such a run crashes its process.

A run that only waits for approvals is exempt: any number of restarts may interrupt it.
"""


def resume_refusal(history: History, missing_tools: Sequence[str]) -> RunInterrupted | None:
    """Returns why the run cannot be resumed; None if it can."""
    if missing_tools:
        names = ", ".join(missing_tools)
        return RunInterrupted(f"the run was interrupted, and its tools are missing: {names}")
    if history.resumptions >= MAX_RESUMPTIONS and not history.only_waits:
        return RunInterrupted(
            f"the run was interrupted {history.resumptions} times without progress"
        )
    return None
