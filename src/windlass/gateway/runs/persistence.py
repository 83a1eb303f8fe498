"""Runs and chats of a gateway that are kept in a log: begun, found, taken up again."""

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
from windlass.wires.chat.write_events import Form, Head, completion_fields, error_fields
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

__all__ = ["RunPersistence", "Origin", "head_of", "stored_run_fields", "plan_to_end", "run_log"]

log = logging.getLogger("windlass.gateway")

KIND = "gateway"
A_DAY = 86_400.0
STOP_SECONDS = 15.0
"""How long a stop waits for the process that has the run."""
DECISION_SECONDS = 15.0
"""How long a decision waits for it."""
OPEN_SECONDS = 5.0
"""How long a starting gateway waits for its log, before it serves what needs none."""
STORE_SECONDS = 2.0
"""How long a stop of a run that nothing works on waits for a log that cannot be written."""
CLIENT_LOST = "the gateway ended, and the client that waited for this answer was gone with it"
NOT_WRITTEN = "cannot write run log: {cause}"
UNREACHABLE = "NATS cannot be reached"


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=KIND):
    """What a gateway writes down of a run so that it can be made again."""

    request: ChatRequest
    """Without its messages: they stand in the log."""
    tools: tuple[str, ...] = ()
    """What was offered to the model."""
    session: str = ""
    """The session of workers that the request named."""
    mode: Mode | None = None
    background: bool = False
    """Whether it goes on without the client that asked for it."""
    live: bool = True
    replaced_from: int = 0
    """The number of the first run of its chat that it replaced; 0 if none, or without a number."""
    replaced_since: float = 0.0
    """When that run began; 0 if it replaced none."""


def run_log(config: GatewayConfig) -> RunLog | None:
    """The log that is configured, if one is. Raises `ConfigError` without what it needs."""
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
    from windlass.runs.sqlite.reserve import RESERVE_BYTES

    path = config.base / runs.path
    return SQLiteLog(path, synchronous=runs.synchronous, reserve=RESERVE_BYTES)


class RunPersistence:
    """What the gateway does with its log."""

    def __init__(self, kept: RunLog, config: RunsConfig) -> None:
        self.log = kept
        self.chats = Chats(kept)
        self._waiting: set[Follower] = set()
        self._closing = False
        self._unopened = False
        """Whether the log could not be reached since the start of this gateway."""
        self._lost: dict[str, WindlassError] = {}
        """Runs of this gateway whose log has failed, and how: nothing works on them."""
        self._stops: dict[str, float] = {}
        """When those of them were stopped whose stop is not stored yet."""
        kept.health.on_change = _log_change
        self._retention = Retention(
            max_age=None if config.keep_days is None else config.keep_days * A_DAY,
            max_runs=config.max_runs,
            max_bytes=config.max_bytes,
        )

    def begin(self, plan: RunPlan, owner: str, origin: Origin) -> MemoryLog:
        """The log of a new run."""
        request = origin.request
        bare = replace(origin, request=replace(request, messages=()))
        return self.log.begin(
            RunRecord(
                id=plan.run_id,
                model=request.model,
                created=time.time(),
                owner=owner,
                chat=request.chat,
                title=title_of(plan.messages),
                origin=msgspec.to_builtins(bare, enc_hook=str),
            )
        )

    async def open(self) -> None:
        """Connects to the log, or notes that it cannot be reached yet: `recover` tries again.

        Raises `ConfigError` for what cannot heal.
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
        """The log of this run has failed: the run is resumed, or ended, when writing works."""
        self._lost[run_id] = failure

    async def recover(self) -> None:
        """Stores what could not be stored, if writing works. Raises `StorageError` if not."""
        if self.trouble is not None:
            await self.log.check()
            self._unopened = False
        await self._store_stops()

    async def claim_interrupted(self, wanted: Callable[[RunRecord], bool]) -> Sequence[RunRecord]:
        """The wanted runs of exited gateways, and those whose log has failed here. They are ours
        now."""
        return await self.log.claim(
            lambda record: record.origin.get("kind") in (KIND, DAMAGED["kind"]) and wanted(record)
        )

    async def reopen(self, record: RunRecord) -> tuple[MemoryLog, History, Origin]:
        """All that is known of a run that was left open."""
        kept = await self.log.reopen(record.id)
        lost = self._lost.pop(record.id, None)
        history = History(kept.recorded())
        try:
            origin = msgspec.convert(record.origin, Origin)
            if lost is not None and (isinstance(lost, NotWritable) or not origin.background):
                history.refusal = RunInterrupted(f"the run log could not be written: {lost}")
            elif not origin.background:
                history.refusal = RunInterrupted(CLIENT_LOST)
        except (msgspec.ValidationError, ConfigError) as error:
            origin = Origin(request=ChatRequest(model=record.model, messages=()))
            history.refusal = RunInterrupted(f"what is written of the run cannot be read: {error}")
        return kept, history, origin

    async def find(self, run_id: str, owner: str) -> RunRecord:
        """Raises `RunNotFound`, also for a run of another owner."""
        record = await self.log.status(run_id)
        if record.owner != owner:
            raise RunNotFound(f"no run {run_id!r} is known here")
        return record

    def known(self, record: RunRecord) -> RunRecord:
        """The record as the gateway knows it: a stop may not be stored yet."""
        stopped = self._stops.get(record.id)
        if record.ended is not None or stopped is None:
            return record
        return replace(record, ended=stopped, reason="stopped")

    async def stop(self, record: RunRecord) -> None:
        """Asks the process that has the run to end it, and waits for that, up to a bound.

        A run of this gateway that waits for its log to be writable is stopped at once. Raises
        `Refused` if this gateway ends before: the run is stopped all the same.
        """
        if record.id in self._lost and self.trouble is not None:
            self._stops[record.id] = time.time()
            with contextlib.suppress(StorageError, TimeoutError):  # then it is stored later
                async with asyncio.timeout(STORE_SECONDS):
                    await self.log.order(record.id, Order(kind="stop"))
            return
        await self.log.order(record.id, Order(kind="stop"))
        await self._heard(record, STOP_SECONDS, lambda _: False)

    async def decide(self, record: RunRecord, decision: Order) -> bool:
        """Passes a decision on to the process that has the run; False if it came too late.

        It is stored when this returns, and obeyed unless that process has been quiet for long.
        """
        if not await self.log.order(record.id, decision):
            return False

        def resolves(event: RunEvent) -> bool:
            return isinstance(event, ApprovalResolved) and event.call_id == decision.call_id

        heard = await self._heard(record, DECISION_SECONDS, resolves)
        if heard is None:
            return (await self.log.status(record.id)).ended is None
        assert isinstance(heard, ApprovalResolved)
        said = (heard.approved, heard.arguments, heard.reason)
        return said == (decision.approved, decision.arguments, decision.reason)

    async def _heard(
        self, record: RunRecord, seconds: float, wanted: Callable[[RunEvent], bool]
    ) -> RunEvent | None:
        """The wanted event, if it comes in time; None also if the run ends first.

        Raises `Refused` if this gateway ends before.
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
        """Closes the log; stops that could not be stored are tried once more."""
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(STORE_SECONDS):
                await self._store_stops()
        await self.log.aclose()

    def close(self) -> None:
        """Nobody waits here any longer for what others do."""
        self._closing = True
        for events in self._waiting:
            events.wake()

    async def recall(self, owner: str, messages: Sequence[Message], turns: HiddenTurns) -> None:
        """Reads turns back that these messages answer and that this process does not know."""
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
        """Forgets what is too old or too much."""
        try:
            gone = await self.log.expire(self._retention)
        except StorageError as error:
            log.error("Old runs cannot be deleted: %s", error)
            return
        if gone:
            log.info("Old runs were deleted", extra={"runs": gone})


def _log_change(cause: str | None) -> None:
    """Once while it lasts, and once when it is over."""
    if cause is None:
        log.warning("run log can be written again")
    else:
        log.error(NOT_WRITTEN.format(cause=cause))


class UnavailableModel:
    """Stands for a model that is not served any more."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stream(self, request: ModelRequest) -> NoReturn:
        raise RunInterrupted(f"the model {self.name} is gone")

    async def aclose(self) -> None:
        pass


def plan_to_end(record: RunRecord, history: History) -> RunPlan:
    """With this a run that cannot go on comes to its end."""
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


def head_of(record: RunRecord) -> Head:
    return Head(f"chatcmpl-{record.id.removeprefix('run_')}", int(record.created), record.model)


def stored_run_fields(record: RunRecord, history: History | None = None) -> JsonObject:
    """What is told of a run that does not go in this process; with its history, its answer too."""
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
    if (problem := _kept_problem(record)) is not None:
        fields |= {"status": "failed", "error": error_fields(problem)}
    elif history is not None:
        reply = history.reply()
        fields["mode"] = reply.mode
        asked: JsonObject = record.origin.get("request", {})
        form = Form(asked.get("legacy_functions", False), asked.get("all_text", True))
        fields["response"] = completion_fields(head_of(record), reply, CallIds(record.id), form)
    return fields


def _kept_problem(record: RunRecord) -> Problem | None:
    """What an ended run failed with, as far as its record tells; None if it has an answer."""
    match record.reason:
        case "error":
            return Problem(500, record.error or "The run failed.", "run_failed")
        case "deadline":
            return Problem(504, "The run took longer than it may.", "run_timeout")
        case "malformed_call":
            return MALFORMED_CALL
        case _:
            return None
