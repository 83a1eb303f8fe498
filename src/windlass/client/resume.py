"""Whether a run that was cut off may go on. Pure."""

from collections.abc import Sequence

from windlass.errors import RunInterrupted
from windlass.loop.history import History

__all__ = ["refusal_of"]

MOST_RESUMPTIONS = 20
"""In a row, without a turn or a tool's end in between: such a run ends its process itself.

One that only waits for somebody does not: it waits as long as it may, over any number of restarts.
"""


def refusal_of(history: History, gone: Sequence[str]) -> RunInterrupted | None:
    """Why the run may not go on; None if it may. `gone` are its tools that nobody has any more."""
    if gone:
        return RunInterrupted(f"the run was cut off, and its tools are gone: {', '.join(gone)}")
    if history.resumptions >= MOST_RESUMPTIONS and not history.only_waits:
        return RunInterrupted(
            f"the run was cut off {history.resumptions} times without coming any further"
        )
    return None
