"""Controls runs through their log; `StoredRun` is a run that is only in the log.

They serve the runs of other processes, and those whose log has failed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from windlass.errors import RunInterrupted, RunNotFound, StorageError, WindlassError
from windlass.events import ApprovalResolved, Phase, RunEvent, StopReason
from windlass.loop.history import History
from windlass.reply import Reply
from windlass.runs.event_log import BatchFollower, Follower
from windlass.runs.origin import shown_chars, with_stored_output
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, RunRecord

CHECK_SECONDS = 0.5
"""After this time without an event, check whether a process still runs the run."""
TAKEOVER_SECONDS = 2.0
"""How long a run may be without a process before it counts as interrupted. A running gateway
resumes such a run within a second."""
STORE_SECONDS = 2.0
"""How long a stop of a run without a process waits for a log that cannot be written."""
NOT_WRITTEN = "cannot write run log: {cause}"
INTERRUPTED = (
    "run {run_id} was interrupted: its process has exited, and no process has resumed it."
    " Resume it with client.resume(), a gateway on the same log, or `windlass runs resume {run_id}`"
)


class ServiceClosing(WindlassError):
    """The run service closes while a caller waits for another process. The order is stored."""


class StoredEvents(BatchFollower):
    """Follows a run in a log, but does not wait for an interrupted run.

    After the last event of such a run it raises `RunInterrupted`, unless another process resumes
    the run.
    """

    def __init__(self, log: RunLog, run_id: str, after: int = 0) -> None:
        super().__init__()
        self._log, self._run_id = log, run_id
        self._follower = log.follow(run_id, after)
        self._woken = False
        self._alone_since: float | None = None
        """When the run was first seen without a process; None while it has one."""

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
    def _ended(self) -> bool:
        return self._follower.over

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


class RunControl:
    """Sends orders to runs through the log, and remembers the runs whose log has failed here."""

    def __init__(
        self, log: RunLog, *, stop_seconds: float | None = None, decision_seconds: float = 0.0
    ) -> None:
        """The maximum times that a stop or a decision waits for the process that runs the run.

        With None, a stop waits until that process has stopped the run, or has exited.
        """
        self.log = log
        self._stop_seconds, self._decision_seconds = stop_seconds, decision_seconds
        self._waiting: set[Follower] = set()
        self._closing = False
        self._lost: dict[str, WindlassError] = {}
        """The errors of runs of this process whose log has failed. They are not running."""
        self._stops: dict[str, float] = {}
        """Stop times of lost runs whose stop is not stored yet."""

    @property
    def trouble(self) -> str | None:
        """Why the log cannot be written; None while it can."""
        cause = self.log.health.cause
        return None if cause is None else NOT_WRITTEN.format(cause=cause)

    def log_failed(self, run_id: str, failure: WindlassError) -> None:
        """Records that the log of this run has failed. The run resumes when the log works again."""
        self._lost[run_id] = failure

    def forget_failure(self, run_id: str) -> WindlassError | None:
        """Forgets that the log of this run had failed, and returns the failure if it had."""
        return self._lost.pop(run_id, None)

    async def recover(self) -> None:
        """Stores pending stops if the log works again. Raises `StorageError` if it does not."""
        if self.trouble is not None:
            await self.log.check()
        await self._store_stops()

    def with_pending_stop(self, record: RunRecord) -> RunRecord:
        """The record, with a stop that is not stored yet."""
        stopped = self._stops.get(record.id)
        if record.ended is not None or stopped is None:
            return record
        return replace(record, ended=stopped, reason="stopped")

    async def stop(self, record: RunRecord) -> None:
        """Orders the process of a run to stop it, and waits until it has.

        The order is stored: an interrupted run stops as soon as a process resumes it. A run of this
        process that waits for a writable log stops at once. Raises `ServiceClosing`.
        """
        if record.id in self._lost and self.trouble is not None:
            self._stops[record.id] = time.time()
            with contextlib.suppress(StorageError, TimeoutError):  # `recover` stores it later
                async with asyncio.timeout(STORE_SECONDS):
                    await self.log.order(record.id, Order(kind="stop"))
            return
        await self.log.order(record.id, Order(kind="stop"))
        with contextlib.suppress(RunInterrupted):
            await self._wait_for(record, self._stop_seconds, lambda _: False)

    async def approve(self, record: RunRecord, decision: Order) -> bool:
        """Stores a decision for the process that runs the run, and waits until it has effect.

        Returns False if no such call waits for a decision, or another one came first.
        """
        history = History(await self.log.read(record.id))
        if record.ended is not None or not history.waits_for(decision.call_id):
            return False
        if not await self.log.order(record.id, decision):
            return False
        if not self._decision_seconds:
            return True

        def resolves(event: RunEvent) -> bool:
            return isinstance(event, ApprovalResolved) and event.call_id == decision.call_id

        resolved = await self._wait_for(record, self._decision_seconds, resolves)
        if resolved is None:
            return (await self.log.status(record.id)).ended is None
        assert isinstance(resolved, ApprovalResolved)
        return (resolved.approved, resolved.arguments, resolved.reason) == (
            decision.approved,
            decision.arguments,
            decision.reason,
        )

    async def _wait_for(
        self, record: RunRecord, seconds: float | None, wanted: Callable[[RunEvent], bool]
    ) -> RunEvent | None:
        """Waits for the wanted event; None after the time, or if the run ends first.

        Raises `ServiceClosing`; without a time limit also `RunInterrupted`.
        """
        events: Follower = (
            StoredEvents(self.log, record.id, record.events)
            if seconds is None
            else self.log.follow(record.id, record.events)
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + (3600.0 if seconds is None else seconds)
        self._waiting.add(events)
        try:
            while not events.over and (left := end - loop.time()) > 0:
                if self._closing:
                    raise ServiceClosing("the run service is closing")
                for event in await events.some(left):
                    if wanted(event):
                        return event
        finally:
            self._waiting.discard(events)
        return None

    async def _store_stops(self) -> None:
        for run_id in list(self._stops):
            with contextlib.suppress(RunNotFound):  # it was deleted meanwhile
                await self.log.order(run_id, Order(kind="stop"))
            del self._stops[run_id]

    def close(self) -> None:
        """Ends all waits for other processes."""
        self._closing = True
        for events in self._waiting:
            events.wake()

    async def aclose(self) -> None:
        """Tries once more to store pending stops, and closes the log."""
        self.close()
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(STORE_SECONDS):
                await self._store_stops()
        await self.log.aclose()


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
