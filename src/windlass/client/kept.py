"""A run that is looked up in a log: it goes in another process, or has ended."""

from typing import Any

from windlass.client.origin import shown_chars
from windlass.errors import WindlassError
from windlass.events import Phase, StopReason
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.event_log import Follower
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, RunRecord

__all__ = ["KeptRun"]


class KeptRun:
    """A run that does not go in this process: one that has ended, or that another one holds."""

    def __init__(self, record: RunRecord, log: RunLog) -> None:
        self.id = record.id
        self.record = record
        self._log = log

    @property
    def phase(self) -> Phase:
        return "awaiting_model_call" if self.record.ended is None else "ended"

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended; None if it was going when it was looked up."""
        return self.record.reason

    def events(self, after: int = 0) -> Follower:
        return self._log.follow(self.id, after)

    async def result(self) -> Reply:
        """Waits for the end. Raises `WindlassError` if the run failed."""
        events = [event async for event in self.events()]
        history = History(events)
        if history.ended is not None and history.ended.reason == "error":
            raise WindlassError(history.ended.error or "the run failed")
        return history.reply(max_result_chars=shown_chars(self.record))

    async def stop(self) -> None:
        """Asks the process that it goes in to end it, and waits for that."""
        await self._log.order(self.id, Order(kind="stop"))
        async for _ in self.events(self.record.events):
            pass

    async def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Stores the decision for the process that has the run.

        False if the run has ended, or another decision about the call is stored.
        """
        order = Order(
            kind="approve", call_id=call_id, approved=approved, arguments=arguments, reason=reason
        )
        return await self._log.order(self.id, order)
