"""The gateway: its models, tools, keys, sessions and active runs."""

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from windlass.content import FunctionCall
from windlass.errors import ConfigError, RunNotFound, StorageError, WindlassError
from windlass.gateway.config import GatewayConfig, KeyConfig
from windlass.gateway.config.keys import KeyRing
from windlass.gateway.config.tool_loading import load_executor, made_executor
from windlass.gateway.http.context import Exchange, Receive, disconnected
from windlass.gateway.http.errors import NATS_UNREACHABLE, SHUTTING_DOWN, Refused
from windlass.gateway.limits.admission import Admission, LimitCounter, LocalCounter
from windlass.gateway.limits.budgets import (
    FileSpending,
    KeyBudgets,
    MemorySpending,
    RunSpending,
    SharedCounters,
    SpendingStore,
    has_cost_budget,
)
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.observe.access_log import AccessLog
from windlass.gateway.observe.metrics import Metrics
from windlass.gateway.observe.tracing import Tracing, tracing_from
from windlass.gateway.processes.member import Member, SharedPlaces
from windlass.gateway.runs.chats import Chats
from windlass.gateway.runs.hidden_turns import HiddenTurns
from windlass.gateway.runs.lookup import FinishedRun, FoundRun, found_run
from windlass.gateway.runs.planning import PlannedRun, RunPlanning, planned_call
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.runs.storage import configured_log, control_of, expire
from windlass.gateway.runs.summaries import Summaries
from windlass.gateway.tools.calls import ManualCalls
from windlass.gateway.tools.sessions import HEADER as SESSION_HEADER
from windlass.gateway.tools.sessions import Sessions
from windlass.loop.executor import ToolExecutor
from windlass.model import Model
from windlass.request import RequestLimits, RunRequest
from windlass.runs.active_runs import RunStore
from windlass.runs.control import RunControl, StoredRun
from windlass.runs.event_log import Follower
from windlass.runs.protocol import RunLog
from windlass.runs.records import DAMAGED
from windlass.runs.service import ResumedRun, RunService
from windlass.tool import Tool
from windlass.wires.errors import Problem

if TYPE_CHECKING:
    from windlass.gateway.limits.fleet import FleetCounter
    from windlass.gateway.processes.shared_runs import SharedRuns

log = logging.getLogger("windlass.gateway")

TRACE_HEADERS = ("traceparent", "tracestate")
RESUME_SECONDS = 1.0
"""How often the gateway looks for interrupted runs of exited processes."""
RESUMED_KINDS = ("gateway", DAMAGED["kind"])
"""The kinds of records that a gateway resumes, or ends if they are damaged."""
EXPIRE_SECONDS = 60.0
"""The pause between two deletions of old runs."""


class Gateway:
    """The state of a gateway, for one event loop.

    `models`, `tools` and `executor` replace those of the configuration. The executor runs every
    call: of models, of clients (`/v1/tools/NAME/call`) and of workers.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        models: Mapping[str, Model] | None = None,
        tools: Iterable[Any] | None = None,
        executor: ToolExecutor | None = None,
        tracing: Tracing | None = None,
        log: RunLog | None = None,
        environ: Mapping[str, str] = os.environ,
        member: Member | None = None,
    ) -> None:
        """`member` connects it to the other processes of this gateway, which share its limits.

        Raises `ConfigError` for an invalid configuration.
        """
        self.config = config
        self.member = member
        self.limits = RequestLimits(
            max_json_depth=config.limits.max_json_depth,
            max_messages=config.limits.max_messages,
            max_tools=config.limits.max_tools,
        )
        self.keys = KeyRing(config.keys)
        self.turns = HiddenTurns()
        self.runs: RunStore[GatewayRun, FinishedRun] = RunStore(
            keep=self._finished,
            max_running=config.limits.max_running,
            keep_finished=config.limits.keep_finished,
            max_finished=config.limits.max_kept_runs,
            max_finished_bytes=config.limits.max_kept_bytes,
            size_of=lambda run: run.size,
        )
        self._shared = self._shared_runs()
        run_log = log or self._shared or configured_log(config)
        self.service = RunService(self.runs, control_of(run_log))
        self.chats = None if run_log is None else Chats(run_log)
        self._opened = False
        self.draining = False
        self.handing_over = False
        """Whether new processes serve new connections, while this one finishes its own."""
        self.drained = False
        """Whether all runs have ended or were cancelled after `draining`."""
        self.on_drained = asyncio.Event()
        """Set when `drained` becomes true."""
        self._expiry: asyncio.Task[None] | None = None
        self.followers: set[Follower] = set()
        """The readers that wait for events of runs."""
        executor = made_executor(executor) if executor is not None else _executor(config)
        self.registry = ModelRegistry(config, self.limits, models or {}, tools, environ, executor)
        self.sessions = Sessions(config, self.registry, executor)
        self.planning = RunPlanning(
            self.registry, self.sessions, self.turns, self.chats, self.service
        )
        self.metrics = Metrics(models=self.registry.models, tools=self.registry.tools)
        self.registry.servers.on_tools = self.metrics.add_tools
        self.manual_calls = ManualCalls(self.metrics, executor)
        self.summaries = Summaries()
        self._counter = self._limit_counter()
        places = None if member is None else SharedPlaces(member)
        self.admission = Admission(config.limits, self.metrics.refused, self._counter, places)
        self.budgets = KeyBudgets(self._spending_store(), self.metrics.refused)
        self.access_log = AccessLog() if config.server.access_log else None
        content = config.server.log_content
        self._tracing = tracing or tracing_from(environ, content=content)

    async def start(self, request: RunRequest, exchange: Exchange, receive: Receive) -> GatewayRun:
        """Starts a run, after waiting for a slot. Raises `Refused` and `ClientGone`.

        A run in the background continues without its client, and after a restart.
        """
        served = self.registry.served(request.model, exchange.key)
        exchange.model = served.name
        if not self.service.is_opened:
            raise Refused(NATS_UNREACHABLE)
        waits = not (request.live or request.background)
        if waits and (problem := served.refusal()) is not None:
            raise Refused(problem)
        with ExitStack() as entered:
            if self.chats is not None and request.chat:
                entered.enter_context(self.chats.only_run_of(exchange.owner, request.chat))
            self._check_price(exchange.key, served)
            await self.budgets.check(exchange.key)
            planned = await self.planning.new(request, exchange, served)
            leaves = functools.partial(disconnected, receive)
            return await self._begin(planned, served, exchange, leaves, entered, request)

    async def start_call(
        self, call: FunctionCall, tool: Tool, served: ServedModel, exchange: Exchange, wire: str
    ) -> GatewayRun:
        """Starts a run that only makes this call. Raises `Refused`.

        To withdraw a call whose client disconnects before a slot is free, cancel this coroutine.
        """
        exchange.model = served.name
        if not self.service.is_opened:
            raise Refused(NATS_UNREACHABLE)
        planned = planned_call(call, tool, served, wire, exchange.header(SESSION_HEADER))
        with ExitStack() as entered:
            return await self._begin(planned, served, exchange, _never, entered)

    async def _begin(
        self,
        planned: PlannedRun,
        served: ServedModel,
        exchange: Exchange,
        leaves: Callable[[], Coroutine[Any, Any, None]],
        entered: ExitStack,
        request: RunRequest | None = None,
    ) -> GatewayRun:
        """Starts a planned run when a slot is free. Closes `entered` when the run ends."""
        plan, origin = planned
        budget = self.budgets.of(exchange.key, plan.run_id)
        if budget is not None:
            plan = replace(plan, shared_budget=budget)
        entered.callback(await self.admission.enter(exchange.key, served.config, leaves))
        if self.refuses_runs:  # the shutdown began while the run waited
            raise Refused(SHUTTING_DOWN)
        store = request.store if request else True
        chat = request.chat if request else ""
        in_memory = self._shared is not None and store and origin.needs_client and not chat
        record, events = self.service.begin(
            plan,
            origin,
            model=served.name,
            owner=exchange.owner,
            chat=chat,
            store=store and not in_memory,
        )
        run = GatewayRun(
            plan,
            record,
            origin,
            asked_mode=origin.mode or served.mode,
            turns=self.turns,
            request_size=request.size if request else 0,
            log=events,
            in_memory=in_memory,
        )
        leave = entered.pop_all().close
        run.task.add_done_callback(lambda _: leave())
        _forget_at_end(budget, run)
        self._observe(run, served, exchange)
        self.service.add(run)
        exchange.run_id = run.id
        return run

    async def find(self, run_id: str, owner: str) -> FoundRun:
        """A run of this owner, in this process or in the log. Raises `RunNotFound`."""
        run = await self.service.find(run_id, owner)
        if not isinstance(run, StoredRun) and run.owner != owner:
            raise RunNotFound(f"run {run_id!r} not found")
        if isinstance(run, FinishedRun) and run.stored and not run.in_memory:
            await self._check_stored(run_id)
        return found_run(run)

    async def _check_stored(self, run_id: str) -> None:
        """Raises `RunNotFound` if another process has deleted this run of the log."""
        assert self.service.log is not None
        try:
            await self.service.log.status(run_id)
        except RunNotFound:
            self.runs.forget(run_id)
            self.summaries.forget(run_id)
            raise
        except StorageError:
            log.debug("Cannot check whether a run is still stored", extra={"run_id": run_id})

    async def forget(self, run_id: str) -> None:
        """Deletes an ended run from this process and from the log."""
        self.summaries.forget(run_id)
        await self.service.forget(run_id)

    async def resume(self) -> list[GatewayRun]:
        """Resumes the interrupted runs of exited gateways, and returns them."""
        runs = await asyncio.gather(*await self._resume_interrupted())
        return [run for run in runs if run is not None]

    async def _resume_interrupted(self) -> "list[asyncio.Task[GatewayRun | None]]":
        return await self.service.resume(
            lambda record: record.origin.get("kind") in RESUMED_KINDS,
            self.planning.plan_again,
            self._revive,
        )

    def _revive(self, resumed: ResumedRun) -> GatewayRun:
        """Starts a resumed run. Limits, metrics and traces treat it like a new one."""
        record, origin = resumed.record, resumed.origin
        served = self.registry.find(record.model)
        key = next((key for key in self.config.keys if key.name == record.owner), None)
        budget = self.budgets.of(key, record.id)
        run = GatewayRun(
            replace(resumed.plan, shared_budget=budget),
            record,
            origin,
            asked_mode=origin.mode or (served or self.registry.settings).mode,
            turns=self.turns,
            log=resumed.log,
            history=resumed.history,
            orders=resumed.orders,
        )
        _forget_at_end(budget, run)
        self._observe(run, served)
        if served is not None:
            leave = self.admission.force_enter(key, served.config)
            run.task.add_done_callback(lambda _: leave())
        return run

    async def maintain_log(self) -> None:
        """Resumes interrupted runs and deletes old ones, until the gateway shuts down."""
        control = self.service.control
        if control is None:
            return
        # A separate task: interrupted runs must not wait for long deletions.
        self._expiry = asyncio.create_task(self._expire(control))
        try:
            await self._resume_repeatedly(control)
        finally:
            self._expiry.cancel()

    async def _expire(self, control: RunControl) -> None:
        while True:
            try:
                if control.trouble is None:
                    await expire(control.log, self.config.runs)
            except Exception:  # any error: the next attempt may succeed
                log.exception("Cannot delete old runs")
            await asyncio.sleep(EXPIRE_SECONDS)

    async def _resume_repeatedly(self, control: RunControl) -> None:
        trouble = ""
        while not self.draining:
            try:
                await self._resume_once()
                trouble = ""
            except Exception as error:  # any error: without another attempt, runs would be lost
                known = isinstance(error, StorageError) and control.trouble is not None
                if not known and repr(error) != trouble:  # log it once, not every time
                    trouble = repr(error)
                    unexpected = None if isinstance(error, WindlassError) else error
                    log.error("Cannot resume interrupted runs: %s", error, exc_info=unexpected)
            await asyncio.sleep(RESUME_SECONDS)

    async def _resume_once(self) -> None:
        await self.service.recover()
        if self.sessions.trouble is not None:
            return  # runs may need workers: resume them when workers can be reached
        if runs := await self._resume_interrupted():
            log.info("Resuming interrupted runs", extra={"runs": len(runs)})

    async def open(self) -> None:
        """Connects workers and the log, once. Raises `ConfigError`.

        Retries in the background while a NATS server cannot be reached.
        """
        if not self._opened:
            self._opened = True
            if self.member is not None:
                await self.member.open()
            await self.sessions.start()
            await self.service.open()

    @property
    def refuses_runs(self) -> bool:
        return self.draining and not self.handing_over

    async def drain(self, seconds: float) -> None:
        """Refuses new runs, waits up to `seconds` for active ones, and cancels the rest.

        If it is `handing_over`, it waits without a limit for the runs that have a client, also for
        those that start on connections of this process.
        """
        self.draining = True
        runs = [run.task for run in self.runs.running() if not run.task.done()]
        running = [*runs, *self.manual_calls.active]
        if running:
            log.info("Waiting for runs to end", extra={"runs": len(running)})
            await asyncio.wait(running, timeout=seconds)
        while self.handing_over and (attached := self._attached()):
            await asyncio.wait(attached)
        if self.handing_over and self._shared is not None:
            await self._shared.store_unstored()
        left = [run for run in self.runs.running() if not run.task.done()]
        await asyncio.gather(*(run.cancel(SHUTTING_DOWN) for run in left))
        self.manual_calls.cancel()
        if left:
            log.warning("Shutdown cancelled runs", extra={"runs": len(left)})
        self.drained = True
        self.on_drained.set()
        for follower in self.followers:
            follower.wake()
        if self.service.control is not None:
            self.service.control.close()

    def _attached(self) -> list[asyncio.Task[None]]:
        """The active runs whose client waits for the answer."""
        running = self.runs.running()
        return [run.task for run in running if not run.background and not run.task.done()]

    async def aclose(self) -> None:
        """Cancels active runs and closes all connections."""
        self.handing_over = False
        await self.drain(0)
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)
        await self.service.leave_claimed()
        await self.registry.aclose()
        await self.sessions.aclose()
        if self._tracing is not None:
            await self._tracing.aclose()
        self.metrics.flush()
        if self.access_log is not None:
            self.access_log.flush()
        await self.budgets.aclose()
        await self._counter.aclose()
        await self.service.aclose()
        if self.member is not None:
            await self.member.aclose()

    def _finished(self, run: GatewayRun) -> GatewayRun | FinishedRun:
        """The compact form of a finished run; the run itself if its log closed before its end."""
        if run.log.closed or not run.log.ended:
            return run
        return FinishedRun(run, None if run.log.settled is None else self.service.log)

    def _shared_runs(self) -> "SharedRuns | None":
        """The temporary file of runs, if the gateway has several processes and no log."""
        member, path = self.member, self.config.runs.path
        if member is None or path is None or member.runs != path:
            return None
        from windlass.gateway.processes.shared_runs import SharedRuns

        return SharedRuns(path, member, self._runs_here)

    def _runs_here(self, run_id: str) -> Sequence[GatewayRun | FinishedRun]:
        """The run of this process with this id, or all of them for an empty id."""
        if not run_id:
            return self.runs.all()
        with contextlib.suppress(RunNotFound):
            return [self.runs.get(run_id)]
        return []

    def _limit_counter(self) -> LimitCounter:
        runs = self.config.runs
        if self.service.log is None or not runs.nats:
            return self.member or LocalCounter()
        from windlass.gateway.limits.fleet import fleet_counter

        return fleet_counter(runs, self.service.log)

    def _spending_store(self) -> SpendingStore:
        """The store of what keys have spent, which is that of the runs."""
        if not isinstance(self._counter, LocalCounter | Member):
            return cast("FleetCounter", self._counter)
        log = self.service.log
        return FileSpending(log) if isinstance(log, SharedCounters) else MemorySpending()

    def _check_price(self, key: KeyConfig | None, served: ServedModel) -> None:
        """Refuses a model without prices if the key has a cost budget."""
        if has_cost_budget(key) and served.config.prices is None:
            message = f"model: this key has a budget of cost, and {served.name!r} has no prices"
            raise Refused(Problem(403, message, "no_prices", "model"))

    def _observe(
        self, run: GatewayRun, served: ServedModel | None, exchange: Exchange | None = None
    ) -> None:
        """Records metrics and traces; the exchange may name the trace that the run belongs to."""
        run.observe(
            self.metrics.run(model=run.record.model, live=run.plan.live, key=run.owner or None)
        )
        if self._tracing is not None and served is not None:
            headers = exchange and {name: exchange.header(name.encode()) for name in TRACE_HEADERS}
            run.observe(
                self._tracing.run(
                    model=served.config.target.partition("/")[2],
                    provider=served.provider,
                    key=run.owner or None,
                    traceparent=headers,
                )
            )


def _forget_at_end(budget: RunSpending | None, run: GatewayRun) -> None:
    def forget(_: object) -> None:
        # A run that was left to another process has not ended.
        if budget is not None and run.log.ended and not run.log.closed:
            budget.end()

    if budget is not None:
        run.task.add_done_callback(forget)


async def _never() -> None:
    """Waits forever: nothing reports when this client disconnects."""
    await asyncio.Event().wait()


def _executor(config: GatewayConfig) -> ToolExecutor:
    match config.executor:
        case None:
            return ToolExecutor()
        case ToolExecutor() as executor:
            return executor
        case str(path):
            try:
                return load_executor(path, config.base, config.tool_modules)
            except ConfigError as error:
                raise ConfigError(f"tools.executor: {error}") from error
