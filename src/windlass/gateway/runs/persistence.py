"""The gateway's use of its run log: new runs, interrupted runs, and orders to other gateways."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import Message
from windlass.errors import (
    ConfigError,
    RunInterrupted,
    RunNotFound,
    StorageError,
    WindlassError,
)
from windlass.events import ApprovalResolved, RunEvent
from windlass.gateway.config import GatewayConfig, RunsConfig
from windlass.gateway.http.errors import MALFORMED_CALL, NATS_UNREACHABLE, SHUTTING_DOWN, Refused
from windlass.gateway.models.upstream import failure_text
from windlass.gateway.runs.chats import Chats
from windlass.gateway.runs.hidden_turns import HiddenTurns, hidden_turn
from windlass.loop.approval import Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.model import ModelRequest
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.persisted_log import NotWritable
from windlass.runs.protocol import RunLog
from windlass.runs.records import DAMAGED, Order, Retention, RunRecord, title_of
from windlass.settings import Mode
from windlass.wires.call_ids import CallIds, run_of
from windlass.wires.chat.read_request import ChatRequest
from windlass.wires.chat.write_events import CompletionHead, Form, completion_fields, error_fields
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

log = logging.getLogger("windlass.gateway")

KIND = "gateway"
DAY_SECONDS = 86_400.0
STOP_SECONDS = 15.0
"""How long a stop waits for the process that runs the run."""
DECISION_SECONDS = 15.0
"""How long a decision waits for that process."""
OPEN_SECONDS = 5.0
"""How long a starting gateway waits for its log before it serves other requests."""
STORE_SECONDS = 2.0
"""How long a stop of a run without a process waits for a log that cannot be written."""
CLIENT_LOST = "the gateway stopped, which disconnected the client that waited for this answer"
NOT_WRITTEN = "cannot write run log: {cause}"
UNREACHABLE = "NATS cannot be reached"


class GatewayOrigin(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=KIND
):
    """What a gateway stores of a run so that it can resume it."""

    request: ChatRequest
    """The request without its messages, which are in the log."""
    tools: tuple[str, ...] = ()
    """The names of the tools that were offered to the model."""
    session: str = ""
    """The worker session that the request named."""
    mode: Mode | None = None
    background: bool = False
    """Whether the run continues without its client."""
    live: bool = True
    replaced_from: int = 0
    """The number of the first run that this run replaced; 0 if none, or if it has no number."""
    replaced_since: float = 0.0
    """The start time of that run; 0 if none."""


def run_log(config: GatewayConfig) -> RunLog | None:
    """The configured log, or None. Raises `ConfigError` if a package that it needs is missing."""
    runs = config.runs
    if runs.nats:
        try:
            from windlass.runs.jetstream import JetStreamLog
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"runs in NATS need {error.name}: pip install 'windlass[fleet]'"
            ) from None
        options: dict[str, Any] = {"user_credentials": runs.creds} if runs.creds else {}
        return JetStreamLog(list(runs.nats), replicas=runs.replicas, **options)
    if runs.path is None:
        return None
    from windlass.runs.sqlite import SQLiteLog
    from windlass.runs.sqlite.writer import RESERVE_BYTES

    path = config.base / runs.path
    return SQLiteLog(path, synchronous=runs.synchronous, reserve=RESERVE_BYTES)


class RunPersistence:
    """Stores the runs of a gateway in a log, and controls runs of other gateways through it."""

    def __init__(self, log: RunLog, config: RunsConfig) -> None:
        self.log = log
        self.chats = Chats(log)
        self._waiting: set[Follower] = set()
        self._closing = False
        self._unopened = False
        """Whether the log has been unreachable since the start of this gateway."""
        self._lost: dict[str, WindlassError] = {}
        """The errors of runs of this gateway whose log has failed. They are not running."""
        self._stops: dict[str, float] = {}
        """Stop times of lost runs whose stop is not stored yet."""
        log.health.on_change = _log_change
        self._retention = Retention(
            max_age=None if config.keep_days is None else config.keep_days * DAY_SECONDS,
            max_runs=config.max_runs,
            max_bytes=config.max_bytes,
        )

    def begin(self, plan: RunPlan, owner: str, origin: GatewayOrigin) -> MemoryLog:
        """Starts the log of a new run."""
        request = origin.request
        stored = replace(origin, request=replace(request, messages=()))
        return self.log.begin(
            RunRecord(
                id=plan.run_id,
                model=request.model,
                created=time.time(),
                owner=owner,
                chat=request.chat,
                title=title_of(plan.messages),
                origin=msgspec.to_builtins(stored, enc_hook=str),
            )
        )

    async def open(self) -> None:
        """Connects to the log. If it cannot be reached yet, `recover` tries again later.

        Raises `ConfigError` for permanent errors.
        """
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self.log.open()
        except (StorageError, TimeoutError):
            self._unopened = True
            self.log.health.failed(UNREACHABLE)

    def check_opened(self) -> None:
        """Raises `Refused` while the log has not been reached since the start."""
        if self._unopened:
            raise Refused(NATS_UNREACHABLE)

    @property
    def trouble(self) -> str | None:
        """Why the log cannot be written; None while it can."""
        cause = self.log.health.cause
        return None if cause is None else NOT_WRITTEN.format(cause=cause)

    def lose(self, run_id: str, failure: WindlassError) -> None:
        """Notes that the log of this run has failed. `recover` allows the run to be resumed."""
        self._lost[run_id] = failure

    async def recover(self) -> None:
        """Stores pending stops if the log works again. Raises `StorageError` if it does not."""
        if self.trouble is not None:
            await self.log.check()
            self._unopened = False
        await self._store_stops()

    async def claim_interrupted(self, wanted: Callable[[RunRecord], bool]) -> Sequence[RunRecord]:
        """Claims the wanted runs of exited gateways, and runs of this one whose log has failed."""
        return await self.log.claim(
            lambda record: record.origin.get("kind") in (KIND, DAMAGED["kind"]) and wanted(record)
        )

    async def reopen(self, record: RunRecord) -> tuple[MemoryLog, History, GatewayOrigin]:
        """The log, the history and the origin of an interrupted run.

        Sets `history.refusal` if the run cannot be resumed.
        """
        events = await self.log.reopen(record.id)
        lost = self._lost.pop(record.id, None)
        history = History(events.recorded())
        try:
            origin = msgspec.convert(record.origin, GatewayOrigin)
            if lost is not None and (isinstance(lost, NotWritable) or not origin.background):
                history.refusal = RunInterrupted(f"the run log could not be written: {lost}")
            elif not origin.background:
                history.refusal = RunInterrupted(CLIENT_LOST)
        except (msgspec.ValidationError, ConfigError) as error:
            origin = GatewayOrigin(request=ChatRequest(model=record.model, messages=()))
            history.refusal = RunInterrupted(f"the run's record cannot be read: {error}")
        return events, history, origin

    async def find(self, run_id: str, owner: str) -> RunRecord:
        """Raises `RunNotFound`, also for a run of another owner."""
        record = await self.log.status(run_id)
        if record.owner != owner:
            raise RunNotFound(f"run {run_id!r} not found")
        return record

    def known(self, record: RunRecord) -> RunRecord:
        """The record, with a stop that is not stored yet."""
        stopped = self._stops.get(record.id)
        if record.ended is not None or stopped is None:
            return record
        return replace(record, ended=stopped, reason="stopped")

    async def stop(self, record: RunRecord) -> None:
        """Orders the process that runs the run to stop it, and waits for that, up to a timeout.

        A run of this gateway that waits for a writable log stops at once. Raises `Refused` if this
        gateway shuts down meanwhile; the order remains.
        """
        if record.id in self._lost and self.trouble is not None:
            self._stops[record.id] = time.time()
            with contextlib.suppress(StorageError, TimeoutError):  # `recover` stores it later
                async with asyncio.timeout(STORE_SECONDS):
                    await self.log.order(record.id, Order(kind="stop"))
            return
        await self.log.order(record.id, Order(kind="stop"))
        await self._wait_for(record, STOP_SECONDS, lambda _: False)

    async def decide(self, record: RunRecord, decision: Order) -> bool:
        """Sends a decision to the process that runs the run; False if it came too late.

        The decision is stored when this returns. It applies even if that process answers later.
        """
        if not await self.log.order(record.id, decision):
            return False

        def resolves(event: RunEvent) -> bool:
            return isinstance(event, ApprovalResolved) and event.call_id == decision.call_id

        resolved = await self._wait_for(record, DECISION_SECONDS, resolves)
        if resolved is None:
            return (await self.log.status(record.id)).ended is None
        assert isinstance(resolved, ApprovalResolved)
        return (resolved.approved, resolved.arguments, resolved.reason) == (
            decision.approved,
            decision.arguments,
            decision.reason,
        )

    async def _wait_for(
        self, record: RunRecord, seconds: float, wanted: Callable[[RunEvent], bool]
    ) -> RunEvent | None:
        """Waits for the wanted event; None after a timeout, or if the run ends first.

        Raises `Refused` if this gateway shuts down meanwhile.
        """
        events = self.log.follow(record.id, record.events)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self._waiting.add(events)
        try:
            while not events.over and (left := end - loop.time()) > 0:
                if self._closing:
                    raise Refused(SHUTTING_DOWN)
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

    async def aclose(self) -> None:
        """Tries once more to store pending stops, and closes the log."""
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(STORE_SECONDS):
                await self._store_stops()
        await self.log.aclose()

    def close(self) -> None:
        """Ends all waits for other processes."""
        self._closing = True
        for events in self._waiting:
            events.wake()

    async def recall(self, owner: str, messages: Sequence[Message], turns: HiddenTurns) -> None:
        """Loads hidden turns that these messages answer and that are not in `turns`."""
        for message in messages:
            if message.role != "assistant" or not (calls := message.calls):
                continue
            run_id = run_of(calls[0].id)
            if run_id is None or turns.knows(owner, calls[0].id):
                continue
            try:
                record = await self.find(run_id, owner)
            except RunNotFound:
                continue
            if record.ended is None:
                continue
            history = History(await self.log.read(run_id))
            turn = hidden_turn(history.reply(), history.asked, CallIds(run_id))
            if turn is not None:
                turns.keep(owner, turn)

    async def expire(self) -> None:
        """Deletes runs that exceed the configured age, number or size."""
        try:
            deleted = await self.log.expire(self._retention)
        except StorageError as error:
            log.error("Cannot delete old runs: %s", error)
            return
        if deleted:
            log.info("Old runs deleted", extra={"runs": deleted})


def _log_change(cause: str | None) -> None:
    """Logs the start and the end of a failure, each once."""
    if cause is None:
        log.warning("run log can be written again")
    else:
        log.error(NOT_WRITTEN.format(cause=cause))


class UnavailableModel:
    """Replaces a model that the gateway no longer serves."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stream(self, request: ModelRequest) -> NoReturn:
        raise RunInterrupted(f"the model {self.name} is no longer served")

    async def aclose(self) -> None:
        pass


def plan_to_end(record: RunRecord, history: History) -> RunPlan:
    """The plan that ends a run that cannot be resumed."""
    return RunPlan(
        run_id=record.id,
        model=UnavailableModel(record.model),
        messages=history.started.messages if history.started else (),
        tools={},
        declarations=(),
        policy=Policy(),
        executor=ToolExecutor(),
        approvals=Approvals(None, wait=False, timeout=1.0),
        error_text=functools.partial(failure_text, record.id),
    )


def head_of(record: RunRecord) -> CompletionHead:
    return CompletionHead(
        f"chatcmpl-{record.id.removeprefix('run_')}", int(record.created), record.model
    )


def stored_run_fields(record: RunRecord, history: History | None = None) -> JsonObject:
    """The fields of a run that is not in this process; with its history, also its response."""
    fields: dict[str, Any] = {
        "id": record.id,
        "object": "run",
        "created": int(record.created),
        "ended": None if record.ended is None else int(record.ended),
        "model": record.model,
        "status": "running",
        "phase": "awaiting_model_call",
        "mode": None,
        "events": record.events,
        "title": record.title,
        "chat_id": record.chat or None,
    }
    if record.ended is None:
        return fields
    fields |= {"status": "ended", "phase": "ended", "stop_reason": record.reason}
    if (problem := _stored_problem(record)) is not None:
        fields |= {"status": "failed", "error": error_fields(problem)}
    elif history is not None:
        reply = history.reply()
        fields["mode"] = reply.mode
        request: JsonObject = record.origin.get("request", {})
        form = Form(request.get("legacy_functions", False), request.get("all_text", True))
        fields["response"] = completion_fields(head_of(record), reply, CallIds(record.id), form)
    return fields


def _stored_problem(record: RunRecord) -> Problem | None:
    """Why an ended run failed, according to its record; None if it has an answer."""
    match record.reason:
        case "error":
            return Problem(500, record.error or "The run failed.", "run_failed")
        case "deadline":
            return Problem(504, "The run exceeded its time limit.", "run_timeout")
        case "malformed_call":
            return MALFORMED_CALL
        case _:
            return None
