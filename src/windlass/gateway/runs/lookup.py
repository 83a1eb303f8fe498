"""A run as the runs API sees it: active, finished in this process, or only in the log."""

import weakref
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.errors import clear_frames
from windlass.events import RunEvent, ToolRunEnded
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.runs.run_json import (
    RunState,
    form_of,
    reply_of,
    response_fields,
    run_fields,
    stored_problem,
)
from windlass.jsontext import encode_json, is_larger
from windlass.reply import Reply
from windlass.runs.control import StoredRun
from windlass.runs.encoding import are_large, encoded
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.origin import Origin
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord
from windlass.wires.calls import CallIds
from windlass.wires.fields import JsonObject

MAX_COMPACT_BYTES = 2**18
"""The size of a request, a tool result or all other events above which events are not encoded:
encoding would block the event loop, and would save little, because most of the memory is text."""
RUN_BYTES = 1_200
"""The approximate memory of a run without its events."""

_events = msgspec.json.Decoder(list[RunEvent])
_states = msgspec.json.Decoder(RunState)

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
        """Decides about a waiting call, and waits until that is stored. False if none waits."""
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
        return self._run.control.with_pending_stop(self._run.record)

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


class FinishedRun:
    """The compact form of an ended run: its events as JSON, or none if a log stores them.

    It does not keep the run's plan, request and reply in memory.
    """

    __slots__ = (
        "_count",
        "_events",
        "_log",
        "_origin",
        "_shared",
        "_state",
        "_tools",
        "call_ids",
        "id",
        "in_memory",
        "owner",
        "size",
        "stored",
    )

    def __init__(self, run: GatewayRun, log: RunLog | None) -> None:
        self.id, self.owner = run.id, run.owner
        self._origin, self._tools = run.origin, run.plan.tools
        state = run.state()
        self._state = _exact(encode_json(state))
        self.call_ids = run.call_ids
        self.in_memory = run.in_memory
        """Whether the run is only in memory, and is stored when another process looks for it."""
        self.stored = run.stored
        """Whether every process of this gateway can find the run."""
        self._log = log
        self._count = state.record.events
        self._events = b"" if log is not None else _compact(run.log.recorded(), run.request_size)
        self._shared: weakref.ref[MemoryLog] | None = None
        """The decoded events, shared by all current readers."""
        self.size = RUN_BYTES
        """The approximate memory, in bytes."""
        self.size += len(self._events) if isinstance(self._events, bytes) else run.size
        self.size += run.request_size if run.origin.answer else 0  # it may repeat the request
        clear_frames(run.error)

    @property
    def origin(self) -> Origin:
        return self._origin.with_tools(self._tools)

    async def state(self) -> RunState:
        return _states.decode(self._state)

    async def response(self) -> tuple[Reply, JsonObject]:
        """The reply, and the response."""
        reply = await reply_of(await self.recorded())
        return reply, response_fields(self.record, reply, self.call_ids, form_of(self.origin))

    async def recorded(self) -> Sequence[RunEvent]:
        """Raises `RunNotFound` if the log has deleted them."""
        return self._decoded() if self._log is None else await self._log.read(self.id)

    @property
    def record(self) -> RunRecord:
        """The record that a log would have of the run."""
        return _states.decode(self._state).record

    def content(self) -> tuple[RunRecord, MemoryLog]:
        """The record as of the start of the run, and the events, to store the run."""
        begun = replace(self.record, ended=None, reason=None, error=None, events=0)
        return replace(begun, origin=self.origin.stored()), MemoryLog(self._decoded())

    async def stop(self) -> None:
        """Does nothing: the run has ended."""

    async def approve(self, decision: object) -> bool:
        """Returns False: no call waits for a decision."""
        return False

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there are none."""
        if after >= self._count:
            return None
        if self._log is not None:
            return self._log.follow(self.id, after)
        log = self._shared and self._shared()
        if log is None:
            log = MemoryLog(self._decoded())
            self._shared = weakref.ref(log)
        return log.follow(after)

    def _decoded(self) -> Sequence[RunEvent]:
        return _events.decode(self._events) if isinstance(self._events, bytes) else self._events


def _compact(events: Sequence[RunEvent], request_size: int) -> bytes | Sequence[RunEvent]:
    """The events as JSON, which takes about half the memory; unchanged if that is slow or fails.

    The events of a long run are packed already.
    """
    if not isinstance(events, tuple):
        return events
    results = (event.response.response for event in events if type(event) is ToolRunEnded)
    large = are_large(events)
    if (
        request_size > MAX_COMPACT_BYTES
        or (large and are_large(events, MAX_COMPACT_BYTES))
        or any(is_larger(result, MAX_COMPACT_BYTES) for result in results)
    ):
        return events
    try:
        return _exact(encoded(events, large=large))
    except Exception:  # noqa: BLE001 - a tool's result may contain any object
        return events


def _exact(data: bytes) -> bytes:
    """A copy without spare capacity: encoders allocate up to half more than they use."""
    return memoryview(data).tobytes()


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
