"""A run as the runs API sees it: in this process, or only in the log."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from windlass.events import RunEnded, RunEvent
from windlass.gateway.runs.finished import FinishedRun
from windlass.gateway.runs.persistence import RunPersistence, stored_run_fields
from windlass.gateway.runs.run import GatewayRun, run_fields
from windlass.loop.history import History
from windlass.runs.event_log import Follower
from windlass.runs.records import Order, RunRecord
from windlass.wires.fields import JsonObject

RunStatus = Literal["running", "ended", "failed"]


class Decision(Struct, forbid_unknown_fields=True):
    """The body of `approve`."""

    call_id: str
    approved: bool = True
    arguments: dict[str, Any] | None = None
    reason: str | None = None


class ActiveRun:
    """A run of this process: active, or left to another process before its end."""

    def __init__(self, run: GatewayRun) -> None:
        self._run = run
        self.id = run.id

    async def fields(self, *, whole: bool = True) -> JsonObject:
        await self._run.up_to_date()
        return run_fields(self._run, whole=whole)

    async def events(self) -> Sequence[RunEvent]:
        """The events so far."""
        return self._run.run.log.recorded()

    @property
    def record(self) -> RunRecord:
        """The record that a log would have of the run."""
        run, events = self._run, self._run.run.log.recorded()
        end = events[-1] if events and isinstance(events[-1], RunEnded) else None
        return RunRecord(
            id=run.id,
            model=run.head.model,
            created=float(run.head.created),
            owner=run.owner,
            chat=run.request.chat,
            title=run.title,
            ended=end.time if end else None,
            reason=end.reason if end else None,
            error=end.error if end else None,
            events=len(events),
            size=run.size,
        )

    async def stop(self) -> None:
        self._run.check_here()
        await self._run.run.stop()

    async def approve(self, decision: Decision) -> bool:
        """Decides a waiting call, and waits until that is stored. False if no such call waits."""
        self._run.check_here()
        decided = self._run.run.approve(
            decision.call_id,
            decision.approved,
            arguments=decision.arguments,
            reason=decision.reason,
        )
        await self._run.settled()
        return decided

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there will be none."""
        log = self._run.run.log
        events = log.recorded()
        if events and after >= events[-1].seq and events[-1].done:
            return None
        # A client of another gateway may have read events there that are not emitted here yet.
        return log.follow(min(after, log.numbered))


class PersistedRun:
    """A run of the log: it has ended, or another process runs it."""

    def __init__(self, record: RunRecord, durable: RunPersistence) -> None:
        self.record = record
        self._durable = durable
        self.id = record.id

    async def fields(self, *, whole: bool = True) -> JsonObject:
        record = self._durable.known(self.record)
        # The events of a failed run add nothing, and may be damaged.
        if not whole or record.ended is None or record.reason == "error":
            return stored_run_fields(record)
        return stored_run_fields(record, History(await self._durable.log.read(self.id)))

    async def events(self) -> Sequence[RunEvent]:
        """The events so far. Raises `RunNotFound` if the run was deleted meanwhile."""
        return await self._durable.log.read(self.id)

    @property
    def open(self) -> bool:
        """Whether the run has not ended."""
        return self.record.ended is None

    async def stop(self) -> None:
        if self.open:
            await self._durable.stop(self.record)

    async def approve(self, decision: Decision) -> bool:
        """Sends the decision to the process that runs it. False if no such call waits."""
        history = History(await self._durable.log.read(self.id))
        calls = [calls for record in history.rounds.values() for calls in record.calls.items()]
        call = dict(calls).get(decision.call_id)
        if self.record.ended or call is None or call.asked_at is None:
            return False
        if call.decision is not None or call.answer is not None:
            return False
        order = Order(
            kind="approve",
            call_id=decision.call_id,
            approved=decision.approved,
            arguments=decision.arguments,
            reason=decision.reason,
        )
        return await self._durable.decide(self.record, order)

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there will be none."""
        if after >= self.record.events and self.record.ended is not None:
            return None
        return self._durable.log.follow(self.id, min(after, self.record.events))


FoundRun: TypeAlias = ActiveRun | FinishedRun | PersistedRun


def found_run(run: GatewayRun | FinishedRun) -> ActiveRun | FinishedRun:
    """Wraps a run of this process for the runs API."""
    return run if isinstance(run, FinishedRun) else ActiveRun(run)
