"""A run from a log: another process runs it, or it has ended."""

import asyncio
import contextlib
from typing import Any

from windlass.client.origin import shown_chars
from windlass.errors import RunInterrupted, WindlassError
from windlass.events import Phase, RunEvent, StopReason
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.event_log import Follower
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, RunRecord

CHECK_SECONDS = 0.5
"""After this time without an event, check whether a process still runs the run."""
TAKEOVER_SECONDS = 2.0
"""How long a run may be without a process before it counts as interrupted. A running gateway
resumes such a run within a second."""
INTERRUPTED = (
    "run {run_id} was interrupted: its process has exited, and no process has resumed it."
    " Resume it with client.resume(), a gateway on the same log, or `windlass runs resume {run_id}`"
)


class KeptEvents:
    """Follows a run in a log, but does not wait for an interrupted run.

    After the last event of such a run it raises `RunInterrupted`, unless another process resumes
    the run.
    """

    def __init__(self, log: RunLog, run_id: str, after: int = 0) -> None:
        self._log, self._run_id = log, run_id
        self._follower = log.follow(run_id, after)
        self._unread: list[RunEvent] = []
        self._woken = False
        self._alone_since: float | None = None
        """Since when no process runs the run."""

    def __aiter__(self) -> "KeptEvents":
        return self

    async def __anext__(self) -> RunEvent:
        while not self._unread:
            if self._follower.over:
                raise StopAsyncIteration
            self._unread = (await self.some(3600.0))[::-1]
        return self._unread.pop()

    async def some(self, seconds: float) -> list[RunEvent]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            events = await self._follower.some(max(0.0, min(end - loop.time(), CHECK_SECONDS)))
            if events:
                self._alone_since = None
                return events
            if not self._follower.over:
                await self._check_process()
            if self._follower.over or self._woken or loop.time() >= end:
                self._woken = False
                return []

    @property
    def over(self) -> bool:
        return self._follower.over and not self._unread

    def wake(self) -> None:
        self._woken = True
        self._follower.wake()

    async def _check_process(self) -> None:
        if not await self._log.is_interrupted(self._run_id):
            self._alone_since = None
            return
        now = asyncio.get_running_loop().time()
        if self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since >= TAKEOVER_SECONDS:
            raise RunInterrupted(INTERRUPTED.format(run_id=self._run_id))


class KeptRun:
    """A run of the log that is not active in this process: ended, or run by another process."""

    def __init__(self, record: RunRecord, log: RunLog) -> None:
        self.id = record.id
        self.record = record
        self._log = log

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
        return KeptEvents(self._log, self.id, after)

    async def result(self) -> Reply:
        """Waits for the end of the run. Raises `WindlassError` if the run failed.

        Raises `RunInterrupted` if the process of the run has exited and none resumes it.
        """
        events = [event async for event in self.events()]
        history = History(events)
        if history.ended is not None and history.ended.reason == "error":
            raise WindlassError(history.ended.error or "the run failed")
        if history.ended is None:  # its process detached it and closed the log
            raise RunInterrupted(INTERRUPTED.format(run_id=self.id))
        return history.reply(max_result_chars=shown_chars(self.record))

    async def stop(self) -> None:
        """Asks the process that owns the run to stop it, and waits for the end.

        The order is stored: an interrupted run stops as soon as a process resumes it.
        """
        await self._log.order(self.id, Order(kind="stop"))
        with contextlib.suppress(RunInterrupted):
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
        """Stores the decision for the process that owns the run.

        Returns False if the run has ended, or another decision about the call is stored.
        """
        order = Order(
            kind="approve", call_id=call_id, approved=approved, arguments=arguments, reason=reason
        )
        return await self._log.order(self.id, order)
