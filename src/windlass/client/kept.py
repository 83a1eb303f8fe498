"""A run that is looked up in a log: another process runs it, or it has ended."""

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

__all__ = ["KeptEvents", "KeptRun"]

LOOK_SECONDS = 0.5
"""After so long without an event, look whether a process still works on the run."""
TAKEOVER_SECONDS = 2.0
"""How long no process may work on a run before it counts as interrupted: a running gateway resumes
such a run within a second."""
INTERRUPTED = (
    "the run {run_id} was interrupted: its process has exited, and no process has resumed it."
    " client.resume(), a gateway on the same log, or `windlass runs resume {run_id}` resumes it"
)


class KeptEvents:
    """A `Follower` of a run in a log, which does not wait for an interrupted run.

    After the last event of such a run it raises `RunInterrupted`. A run that another process
    resumes is followed further.
    """

    def __init__(self, log: RunLog, run_id: str, after: int = 0) -> None:
        self._log, self._run_id = log, run_id
        self._follower = log.follow(run_id, after)
        self._here: list[RunEvent] = []
        self._woken = False
        self._alone_since: float | None = None
        """Since when no process is known to work on the run."""

    def __aiter__(self) -> "KeptEvents":
        return self

    async def __anext__(self) -> RunEvent:
        while not self._here:
            if self._follower.over:
                raise StopAsyncIteration
            self._here = (await self.some(3600.0))[::-1]
        return self._here.pop()

    async def some(self, seconds: float) -> list[RunEvent]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            events = await self._follower.some(max(0.0, min(end - loop.time(), LOOK_SECONDS)))
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
        return self._follower.over and not self._here

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
        """The events after that number, as they come.

        Raises `RunInterrupted` if the process of the run has exited and none resumes it.
        """
        return KeptEvents(self._log, self.id, after)

    async def result(self) -> Reply:
        """Waits for the end. Raises `WindlassError` if the run failed.

        Raises `RunInterrupted` if the process of the run has exited and none resumes it.
        """
        events = [event async for event in self.events()]
        history = History(events)
        if history.ended is not None and history.ended.reason == "error":
            raise WindlassError(history.ended.error or "the run failed")
        if history.ended is None:  # it was left, and its log closed with it
            raise RunInterrupted(INTERRUPTED.format(run_id=self.id))
        return history.reply(max_result_chars=shown_chars(self.record))

    async def stop(self) -> None:
        """Asks the process that has the run to end it, and waits for that.

        The stop is stored: an interrupted run ends as soon as a process resumes it.
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
        """Stores the decision for the process that has the run.

        False if the run has ended, or another decision about the call is stored.
        """
        order = Order(
            kind="approve", call_id=call_id, approved=approved, arguments=arguments, reason=reason
        )
        return await self._log.order(self.id, order)
