"""The runs that one process has, and which of them it must take up again itself."""

from windlass.runs.persisted_log import StoredLog

__all__ = ["OwnRuns"]


class OwnRuns:
    """A run of this process whose log has failed stays its own: no other process may resume it.

    It is `free` to be claimed again as soon as its task has ended.
    """

    def __init__(self) -> None:
        self.live: dict[str, StoredLog] = {}
        """Logs that are written."""
        self.claimed: set[str] = set()
        """Runs that are about to be resumed here."""
        self._closed: dict[str, StoredLog] = {}
        """Logs that were closed before the end of the run, whose task may still be ending."""

    def keep(self, run_id: str, log: StoredLog) -> StoredLog:
        self.live[run_id] = log
        self.claimed.discard(run_id)
        self._closed.pop(run_id, None)
        return log

    def let_go(self, run_id: str) -> StoredLog | None:
        """Nothing more is written to this log; returns it if it was live."""
        log = self.live.pop(run_id, None)
        if log is not None and log.closed:
            self._closed[run_id] = log
        return log

    def is_free(self, run_id: str) -> bool:
        """Whether nothing in this process works on the run."""
        closed = self._closed.get(run_id)
        return (
            run_id not in self.live
            and run_id not in self.claimed
            and not (closed is not None and closed.in_use)
        )

    def clear(self) -> None:
        self.claimed.clear()
        self._closed.clear()
