"""A run that is only in the log: another process runs it, or it has ended."""

from collections.abc import Sequence
from typing import Any

from windlass.errors import RunInterrupted, WindlassError
from windlass.events import Phase, RunEvent, StopReason
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.control import INTERRUPTED, RunControl, StoredEvents
from windlass.runs.event_log import Follower
from windlass.runs.origin import shown_chars, with_stored_output
from windlass.runs.records import Order, RunRecord


class StoredRun:
    """A run of the log that is not active in this process: ended, or run by another process."""

    def __init__(self, record: RunRecord, control: RunControl) -> None:
        self.id = record.id
        self.record = record
        self.control = control

    @property
    def phase(self) -> Phase:
        return "awaiting_model_call" if self.record.ended is None else "ended"

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended; None if it had not ended when it was looked up."""
        return self.record.reason

    def events(self, after: int = 0) -> Follower:
        """Follows the events after a number.

        Raises `RunInterrupted` if the process of the run has exited and none resumes it.
        """
        return StoredEvents(self.control.log, self.id, after)

    async def recorded(self) -> Sequence[RunEvent]:
        """Returns the events so far. Raises `RunNotFound` if the run was deleted meanwhile."""
        return await self.control.log.read(self.id)

    async def result(self) -> Reply:
        """Waits for the end of the run. Raises `WindlassError` if the run failed.

        The output of a run with a type is a JSON value.
        Raises `RunInterrupted` if the process of the run has exited and none resumes it.
        """
        history = History([event async for event in self.events()])
        if history.ended is not None and history.ended.reason == "error":
            raise WindlassError(history.ended.error or "the run failed")
        if history.ended is None:  # its process detached it and closed the log
            raise RunInterrupted(INTERRUPTED.format(run_id=self.id))
        reply = history.reply(max_result_chars=shown_chars(self.record))
        return with_stored_output(self.record, reply)

    async def stop(self) -> None:
        """Asks the process that owns the run to stop it, and waits for the end."""
        if self.record.ended is None:
            await self.control.stop(self.record)

    async def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Stores the decision for the process that owns the run.

        Returns False if no such call waits, or another decision about it is stored.
        """
        order = Order(
            kind="approve", call_id=call_id, approved=approved, arguments=arguments, reason=reason
        )
        return await self.control.approve(self.record, order)
