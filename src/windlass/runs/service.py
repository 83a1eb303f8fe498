"""The run service: starts, finds, resumes, lists and forgets the runs of one process and its log.

`Client`, the gateway and the command line are faces of it. Each has its own kind of handle, with
which it follows, approves and stops a run: `AsyncRun` or a subclass for a run of this process, and
`StoredRun` for any other run of the log.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, Unpack

from windlass.content import Message
from windlass.errors import RunInterrupted, RunNotFound, StorageError
from windlass.events import RunEnded, RunStarted
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.runs.active_runs import KnownRun, RunStore
from windlass.runs.control import RunControl, StoredRun
from windlass.runs.event_log import MemoryLog
from windlass.runs.origin import ADDED, Origin
from windlass.runs.persisted_log import Damaged, NotWritable
from windlass.runs.planning import ending_plan, resume_refusal
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, RunFilters, RunRecord, title_of
from windlass.runs.run import AsyncRun

log = logging.getLogger("windlass.runs")

RETRY_SECONDS = 60.0
"""How long to wait before trying again to resume a run after an unexpected error."""
OPEN_SECONDS = 5.0
"""How long a starting process waits for its log before it serves other requests."""
UNREACHABLE = "NATS cannot be reached"
CLIENT_LOST = "the gateway stopped, which disconnected the client that waited for this answer"

R = TypeVar("R", bound=AsyncRun)
F = TypeVar("F", bound=KnownRun)


class InterruptedRun(NamedTuple):
    """An interrupted run that this process has claimed."""

    record: RunRecord
    origin: Origin
    history: History


class ResumedRun(NamedTuple):
    """An interrupted run that is ready to be resumed."""

    plan: RunPlan
    record: RunRecord
    origin: Origin
    log: MemoryLog
    history: History
    orders: Sequence[Order]
    """The orders that waited for it."""


Replan: TypeAlias = Callable[[InterruptedRun], Awaitable[RunPlan]]
"""Plans an interrupted run again. Raises `RunInterrupted` if it cannot be resumed."""


def new_run_id() -> str:
    return f"run_{secrets.token_hex(12)}"


class RunService(Generic[R, F]):
    """The runs of one process, in memory and in its log, if it has one.

    `R` is the handle of a run of this process, and `F` what `active` keeps of an ended one.
    """

    def __init__(self, active: RunStore[R, F], control: RunControl | None) -> None:
        """`control` has the log; without it, runs are only in memory."""
        self.active = active
        self.control = control
        self.is_opened = True
        """False while the log has been unreachable since the start."""
        self._failed: dict[str, float] = {}
        """When resuming a run last failed, by run id."""
        self._resuming: set[asyncio.Task[R | None]] = set()

    @property
    def log(self) -> RunLog | None:
        return None if self.control is None else self.control.log

    async def open(self) -> None:
        """Connects to the log. If it cannot be reached yet, `recover` tries again later.

        Raises `ConfigError` for permanent errors.
        """
        if self.log is None:
            return
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self.log.open()
        except (StorageError, TimeoutError):
            self.is_opened = False
            self.log.health.failed(UNREACHABLE)

    def begin(
        self,
        plan: RunPlan,
        origin: Origin,
        *,
        model: str,
        owner: str = "",
        chat: str = "",
        store: bool = True,
    ) -> tuple[RunRecord, MemoryLog | None]:
        """The record of a new run, and its log if it is stored. Its handle starts the run."""
        log = self.log if store else None
        record = RunRecord(
            id=plan.run_id,
            model=model,
            created=time.time(),
            owner=owner,
            chat=chat,
            title=title_of(plan.messages),
            origin={} if log is None else origin.with_tools(plan.tools).stored(),
        )
        return record, None if log is None else log.begin(record)

    def add(self, run: R) -> None:
        """Adds a run, so that it is found. A run whose log fails is resumed when it works again."""
        self.active.add(run)
        if self.control is not None:
            run.task.add_done_callback(lambda _: self._check_log(run))

    def _check_log(self, run: R) -> None:
        failure = run.log.failure
        if self.control is not None and failure is not None:
            self.active.forget(run.id)
            if run.log.recorded():  # otherwise none of its events is stored
                self.control.log_failed(run.id, failure)

    async def store_messages(
        self,
        messages: tuple[Message, ...],
        model: str,
        chat: str,
        *,
        owner: str = "",
        answer: dict[str, Any] | None = None,
    ) -> str:
        """Stores a chat with messages that a person added or removed, if there is a log.

        `answer` is stored in the record's origin. Returns the id of the record.
        """
        origin = Origin(kind=ADDED, policy=Policy(), answer=answer or {})
        record = RunRecord(
            id=new_run_id(),
            model=model,
            created=time.time(),
            owner=owner,
            chat=chat,
            title=title_of(messages),
            origin=origin.stored(),
        )
        if self.log is None:
            return record.id
        events = self.log.begin(record)
        events.append(RunStarted(record.id, record.model, messages))
        events.append(RunEnded("stopped"))
        if events.settled is not None:
            await events.settled()
        return record.id

    async def find(self, run_id: str, owner: str | None = None) -> R | F | StoredRun:
        """A run in this process or in the log. Raises `RunNotFound`.

        `owner` restricts it to the runs of one owner.
        """
        try:
            return self.active.get(run_id)
        except RunNotFound:
            if self.control is None:
                raise
        return StoredRun(await self.record(run_id, owner), self.control)

    async def record(self, run_id: str, owner: str | None = None) -> RunRecord:
        """The stored record of a run. Raises `RunNotFound`, also for a run of another owner."""
        if self.log is None:
            raise RunNotFound(f"run {run_id!r} not found")
        record = await self.log.status(run_id)
        if owner not in (None, record.owner):
            raise RunNotFound(f"run {run_id!r} not found")
        return record

    async def newest(
        self,
        *,
        before: RunRecord | None = None,
        limit: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> "list[tuple[R | F | StoredRun, RunRecord]]":
        """The stored runs with their records, newest first, as `RunLog.list` returns them.

        While the log cannot be written, it lacks the end of some runs. Then the filter `reasons`
        is not applied.
        """
        if self.control is None:
            return []
        if self.control.trouble:
            filters["reasons"] = None
        records = await self.control.log.list(before=before, limit=limit, **filters)
        here = {run.id: run for run in self.active.all()}
        return [
            (here.get(record.id) or StoredRun(record, self.control), record) for record in records
        ]

    async def forget(self, run_id: str) -> None:
        """Deletes an ended run from this process and from the log."""
        self.active.forget(run_id)
        if self.log is not None:
            await self.log.delete(run_id)

    async def recover(self) -> None:
        """Stores pending stops if the log works again. Raises `StorageError` if it does not."""
        if self.control is not None:
            await self.control.recover()
            self.is_opened = True

    async def resume(
        self, wanted: Callable[[RunRecord], bool], replan: Replan, revive: Callable[[ResumedRun], R]
    ) -> list[asyncio.Task[R | None]]:
        """Claims the wanted interrupted runs, and returns a task that resumes each.

        These are runs of exited processes, and runs of this one whose log has failed. A task
        returns None if its run could not be resumed; then the log has the reason. One task for
        each run, because some wait for workers to reconnect. `revive` makes the handle of a run,
        which starts it.
        """
        if self.log is None:
            return []
        records = await self.log.claim(lambda record: wanted(record) and self._may_try(record))
        tasks = [asyncio.create_task(self._resume(record, replan, revive)) for record in records]
        for task in tasks:
            self._resuming.add(task)
            task.add_done_callback(self._resuming.discard)
        return tasks

    async def _resume(
        self, record: RunRecord, replan: Replan, revive: Callable[[ResumedRun], R]
    ) -> R | None:
        assert self.log is not None
        events: MemoryLog | None = None
        try:
            events = await self.log.reopen(record.id)
            run = revive(await self._planned_again(record, events, replan))
        except BaseException as error:
            if events is not None:
                events.close()
            if not isinstance(error, Exception):
                raise
            await self._report_failure(record, error)
            return None
        self.add(run)
        return run

    async def _planned_again(
        self, record: RunRecord, events: MemoryLog, replan: Replan
    ) -> ResumedRun:
        assert self.log is not None
        history, origin = History(events.recorded()), Origin(policy=Policy())
        if history.started is None:
            raise RunInterrupted("the run's log has no start event")
        try:
            origin = Origin.read(record.origin)
            history.refusal = self._client_refusal(record, origin)
            plan = await replan(InterruptedRun(record, origin, history))
            missing = [name for name in origin.tools if name not in plan.tools]
            history.refusal = history.refusal or resume_refusal(history, missing)
        except RunInterrupted as error:
            plan = ending_plan(record.id, origin, history)
            history.refusal = error
        # Read last: no order may arrive between this and the run's first step.
        orders = await self.log.orders(record.id)
        return ResumedRun(plan, record, origin, events, history, orders)

    def _client_refusal(self, record: RunRecord, origin: Origin) -> RunInterrupted | None:
        """Why the run may do nothing new: its client is gone, or it cannot be stored."""
        lost = self.control.forget_failure(record.id) if self.control is not None else None
        if lost is not None and (isinstance(lost, NotWritable) or origin.needs_client):
            return RunInterrupted(f"the run log could not be written: {lost}")
        return RunInterrupted(CLIENT_LOST) if origin.needs_client else None

    def _may_try(self, record: RunRecord) -> bool:
        failed = self._failed.get(record.id)
        return failed is None or time.monotonic() - failed > RETRY_SECONDS

    async def _report_failure(self, record: RunRecord, error: Exception) -> None:
        """Logs the error. Delays the next attempt, except after a storage error.

        Ends a run whose log is damaged: no process can resume it.
        """
        damaged = isinstance(error, Damaged)
        if damaged or not isinstance(error, StorageError):
            self._failed[record.id] = time.monotonic()
        log.error(
            "Cannot resume run: %s",
            error,
            exc_info=None if isinstance(error, StorageError) else error,
            extra={"run_id": record.id},
        )
        if damaged and self.log is not None:
            try:
                await self.log.give_up(record, "Cannot resume run: its log is damaged.")
            except StorageError as failure:
                log.error("Cannot end run: %s", failure, extra={"run_id": record.id})

    async def leave_claimed(self) -> None:
        """Abandons the runs that are claimed but not resumed yet."""
        for task in self._resuming:
            task.cancel()
        await asyncio.gather(*self._resuming, return_exceptions=True)

    async def aclose(self) -> None:
        """Closes the log. Does not stop runs."""
        await self.leave_claimed()
        if self.control is not None:
            await self.control.aclose()
