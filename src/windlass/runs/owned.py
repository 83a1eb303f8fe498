"""The runs that this process owns."""

from windlass.runs.persisted_log import StoredLog


class OwnRuns:
    """The runs that this process owns. If the log of a run fails, the process still owns the run.

    No other process may resume it. This process may claim it again after its task has ended.
    """

    def __init__(self) -> None:
        self.live: dict[str, StoredLog] = {}
        """The logs of active runs."""
        self.claimed: set[str] = set()
        """Claimed runs that have not been reopened yet."""
        self._closed: dict[str, StoredLog] = {}
        """Logs that were closed before the run ended. The run's task may still be ending."""

    def add(self, run_id: str, log: StoredLog) -> StoredLog:
        self.live[run_id] = log
        self.claimed.discard(run_id)
        self._closed.pop(run_id, None)
        return log

    def remove(self, run_id: str) -> StoredLog | None:
        """Removes a run that has ended or whose log was closed; returns its log if it was live."""
        log = self.live.pop(run_id, None)
        if log is not None and log.closed:
            self._closed[run_id] = log
        return log

    def is_free(self, run_id: str) -> bool:
        """Whether no task of this process works on the run."""
        closed = self._closed.get(run_id)
        return (
            run_id not in self.live
            and run_id not in self.claimed
            and not (closed is not None and closed.in_use)
        )

    def clear(self) -> None:
        self.claimed.clear()
        self._closed.clear()
