"""A run as the runs API sees it: in this process, or only in the log."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from windlass.events import RunEvent
from windlass.gateway.runs.finished import FinishedRun
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.runs.run_json import (
    RunState,
    form_of,
    reply_of,
    response_fields,
    run_fields,
    stored_problem,
)
from windlass.reply import Reply
from windlass.runs.event_log import Follower
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.runs.stored_run import StoredRun
from windlass.wires.calls import CallIds
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
        self.id, self.call_ids = run.id, run.call_ids

    @property
    def origin(self) -> Origin:
        """What the run was started with."""
        return self._run.origin.with_tools(self._run.plan.tools)

    async def state(self) -> RunState:
        await self._run.up_to_date()
        return self._run.state()

    async def response(self) -> tuple[Reply, JsonObject]:
        """The reply of a run that has ended, and its response."""
        run, reply = self._run, self._run.reply
        return reply, response_fields(run.record, reply, run.call_ids, form_of(run.origin))

    async def recorded(self) -> Sequence[RunEvent]:
        """The events so far."""
        return self._run.log.recorded()

    @property
    def record(self) -> RunRecord:
        """The record that a log would have of the run."""
        return self._run.state().record

    async def stop(self) -> None:
        self._run.check_here()
        await self._run.stop()

    async def approve(self, decision: Decision) -> bool:
        """Decides a waiting call, and waits until that is stored. False if no such call waits."""
        self._run.check_here()
        decided = self._run.approve(
            decision.call_id,
            decision.approved,
            arguments=decision.arguments,
            reason=decision.reason,
        )
        await self._run.settled()
        return decided

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there will be none."""
        log = self._run.log
        events = log.recorded()
        if events and after >= events[-1].seq and events[-1].done:
            return None
        # A client of another gateway may have read events there that are not emitted here yet.
        return log.follow(min(after, log.numbered))


class PersistedRun:
    """A run of the log: it has ended, or another process runs it."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self.id, self.call_ids = run.id, CallIds(run.id)

    @property
    def origin(self) -> Origin:
        """What the run was started with. Raises `RunInterrupted` if its record is invalid."""
        return Origin.read(self._run.record.origin)

    @property
    def record(self) -> RunRecord:
        """Its record when it was looked up, with a stop that is not stored yet."""
        return self._run.control.known(self._run.record)

    async def state(self) -> RunState:
        record = self.record
        if record.ended is None:
            return RunState(record=record, phase="awaiting_model_call")
        problem = stored_problem(record)
        return RunState(record=record, phase="ended", done=True, problem=problem)

    async def response(self) -> tuple[Reply, JsonObject]:
        """The reply of a run that has ended, and its response."""
        record = self.record
        reply = await reply_of(await self.recorded())
        return reply, response_fields(record, reply, self.call_ids, form_of(self.origin))

    async def recorded(self) -> Sequence[RunEvent]:
        """The events so far. Raises `RunNotFound` if the run was deleted meanwhile."""
        return await self._run.recorded()

    @property
    def open(self) -> bool:
        """Whether the run has not ended."""
        return self._run.record.ended is None

    async def stop(self) -> None:
        await self._run.stop()

    async def approve(self, decision: Decision) -> bool:
        """Sends the decision to the process that runs it. False if no such call waits."""
        return await self._run.approve(
            decision.call_id,
            decision.approved,
            arguments=decision.arguments,
            reason=decision.reason,
        )

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there will be none."""
        record = self._run.record
        if after >= record.events and record.ended is not None:
            return None
        return self._run.control.log.follow(self.id, min(after, record.events))


FoundRun: TypeAlias = ActiveRun | FinishedRun | PersistedRun


def found_run(run: GatewayRun | FinishedRun | StoredRun) -> FoundRun:
    """Wraps a run for the runs API."""
    match run:
        case FinishedRun():
            return run
        case GatewayRun():
            return ActiveRun(run)
        case StoredRun():
            return PersistedRun(run)


async def fields_of(run: FoundRun, *, whole: bool = True) -> JsonObject:
    """The run as JSON; with `whole`, also the response of a run that has one."""
    state = await run.state()
    fields = run_fields(state)
    if whole and state.done and state.problem is None:
        reply, fields["response"] = await run.response()
        fields["mode"] = state.mode or reply.mode
    return fields
