"""The gateway: its models, tools, keys, sessions and active runs."""

import asyncio
import functools
import logging
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from windlass.errors import ConfigError, RunNotFound, StorageError, WindlassError
from windlass.gateway.config import GatewayConfig
from windlass.gateway.config.tool_loading import load_executor, made_executor
from windlass.gateway.http.context import Exchange, Receive, disconnected
from windlass.gateway.http.errors import SHUTTING_DOWN, Refused
from windlass.gateway.http.keys import KeyRing
from windlass.gateway.limits.admission import Admission, LimitCounter, LocalCounter
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.observe.access_log import AccessLog
from windlass.gateway.observe.metrics import Metrics
from windlass.gateway.observe.tracing import Tracing, tracing_from
from windlass.gateway.runs.finished import FinishedRun
from windlass.gateway.runs.hidden_turns import HiddenTurns
from windlass.gateway.runs.lookup import FoundRun, PersistedRun, found_run
from windlass.gateway.runs.persistence import RunPersistence, run_log
from windlass.gateway.runs.planning import Preparation
from windlass.gateway.runs.resume import RunResumer
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.runs.summaries import Summaries
from windlass.gateway.tools.calls import ManualCalls
from windlass.gateway.tools.sessions import Sessions
from windlass.loop.executor import ToolExecutor
from windlass.model import Model
from windlass.runs.active_runs import RunStore
from windlass.runs.event_log import Follower
from windlass.runs.protocol import RunLog
from windlass.wires.chat.read_request import ChatRequest, Limits

log = logging.getLogger("windlass.gateway")

TRACE_HEADERS = ("traceparent", "tracestate")
RESUME_SECONDS = 1.0
"""How often the gateway looks for interrupted runs of exited processes."""
EXPIRE_SECONDS = 60.0
"""The pause between two deletions of old runs."""


class Gateway:
    """The state of a gateway. Belongs to one event loop.

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
    ) -> None:
        """Raises `ConfigError` for an invalid configuration."""
        self.config = config
        self.limits = Limits(
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
        self._opened = False
        self.draining = False
        self.drained = False
        """Whether all runs have ended or were cancelled after `draining`."""
        self._expiry: asyncio.Task[None] | None = None
        self.followers: set[Follower] = set()
        """The readers that wait for events of runs."""
        self.durable = self._durable(log)
        executor = made_executor(executor) if executor is not None else _executor(config)
        self.registry = ModelRegistry(config, self.limits, models or {}, tools, environ, executor)
        self.sessions = Sessions(config, self.registry, executor)
        self._preparation = Preparation(self.sessions, self.turns, self.durable)
        self._resumer = (
            RunResumer(self.durable, self.registry, self.sessions, self.turns, self._add_resumed)
            if self.durable
            else None
        )
        self.metrics = Metrics(models=self.registry.models, tools=self.registry.tools)
        self.registry.servers.on_tools = self.metrics.add_tools
        self.manual_calls = ManualCalls(self.metrics, executor)
        self.summaries = Summaries()
        self._counter = self._limit_counter()
        self.admission = Admission(config.limits, self.metrics.refused, self._counter)
        self.access_log = AccessLog() if config.server.access_log else None
        content = config.server.log_content
        self._tracing = tracing or tracing_from(environ, content=content)

    async def start(
        self,
        request: ChatRequest,
        exchange: Exchange,
        receive: Receive,
        *,
        live: bool,
        background: bool = False,
    ) -> GatewayRun:
        """Starts a run, after waiting for a slot. Raises `Refused` and `ClientGone`.

        A run in the `background` continues without its client, and after a restart.
        """
        served = self.registry.served(request.model, exchange.key)
        exchange.model = served.name
        if self.durable is not None:
            self.durable.check_opened()
        with ExitStack() as entered:
            if self.durable is not None and request.chat:
                chats = self.durable.chats
                entered.enter_context(chats.only_run_of(exchange.owner, request.chat))
            prepared = await self._preparation.of(
                request,
                exchange,
                served,
                run_id=f"run_{secrets.token_hex(12)}",
                live=live,
                background=background,
            )
            leaves = functools.partial(disconnected, receive)
            entered.callback(await self.admission.enter(exchange.key, served.config, leaves))
            if self.draining:  # the shutdown began while the run waited
                raise Refused(SHUTTING_DOWN)
            run = GatewayRun(
                prepared.plan,
                request,
                owner=exchange.owner,
                asked_mode=prepared.origin.mode or served.mode,
                turns=self.turns,
                background=background,
                log=self._preparation.log_of(prepared, exchange.owner),
            )
            leave = entered.pop_all().close
        run.task.add_done_callback(lambda _: leave())
        self._observe(run, served, exchange)
        self._add(run)
        exchange.run_id = run.id
        return run

    async def find(self, run_id: str, owner: str) -> FoundRun:
        """A run of this owner, in this process or in the log. Raises `RunNotFound`."""
        try:
            run = self.runs.get(run_id)
        except RunNotFound:
            if self.durable is None:
                raise
            return PersistedRun(await self.durable.find(run_id, owner), self.durable)
        if run.owner != owner:
            raise RunNotFound(f"run {run_id!r} not found")
        return found_run(run)

    async def forget(self, run_id: str) -> None:
        """Deletes an ended run from this process and from the log."""
        self.runs.forget(run_id)
        self.summaries.forget(run_id)
        if self.durable is not None:
            await self.durable.log.delete(run_id)

    async def resume(self) -> list[GatewayRun]:
        """Resumes the interrupted runs of exited gateways, and returns them."""
        if self._resumer is None:
            return []
        runs = await asyncio.gather(*await self._resumer.resume_interrupted())
        return [run for run in runs if run is not None]

    async def maintain_log(self) -> None:
        """Resumes interrupted runs and deletes old ones, until the gateway shuts down."""
        if self.durable is None:
            return
        # A task of its own: interrupted runs must not wait for long deletions.
        self._expiry = asyncio.create_task(self._expire(self.durable))
        try:
            await self._resume_repeatedly(self.durable)
        finally:
            self._expiry.cancel()

    async def _expire(self, durable: RunPersistence) -> None:
        while True:
            try:
                if durable.trouble is None:
                    await durable.expire()
            except Exception:  # any error: the next attempt may succeed
                log.exception("Cannot delete old runs")
            await asyncio.sleep(EXPIRE_SECONDS)

    async def _resume_repeatedly(self, durable: RunPersistence) -> None:
        trouble = ""
        while not self.draining:
            try:
                await self._resume_once(durable)
                trouble = ""
            except Exception as error:  # any error: without another attempt, runs would be lost
                known = isinstance(error, StorageError) and durable.trouble is not None
                if not known and repr(error) != trouble:  # log it once, not every time
                    trouble = repr(error)
                    unexpected = None if isinstance(error, WindlassError) else error
                    log.error("Cannot resume interrupted runs: %s", error, exc_info=unexpected)
            await asyncio.sleep(RESUME_SECONDS)

    async def _resume_once(self, durable: RunPersistence) -> None:
        await durable.recover()
        if self.sessions.trouble is not None:
            return  # runs may need workers: resume them when workers can be reached
        if self._resumer is not None and (runs := await self._resumer.resume_interrupted()):
            log.info("Resuming interrupted runs", extra={"runs": len(runs)})

    async def open(self) -> None:
        """Connects workers and the log, once. Raises `ConfigError`.

        Retries in the background while a NATS server cannot be reached.
        """
        if not self._opened:
            self._opened = True
            await self.sessions.start()
            if self.durable is not None:
                await self.durable.open()

    async def drain(self, seconds: float) -> None:
        """Refuses new runs, waits up to `seconds` for active ones, and cancels the rest."""
        self.draining = True
        runs = [run.task for run in self.runs.running() if not run.task.done()]
        running = [*runs, *self.manual_calls.active]
        if running:
            log.info("Waiting for runs to end", extra={"runs": len(running)})
            await asyncio.wait(running, timeout=seconds)
        left = [run for run in self.runs.running() if not run.task.done()]
        await asyncio.gather(*(run.cancel(SHUTTING_DOWN) for run in left))
        self.manual_calls.cancel()
        if left:
            log.warning("Shutdown cancelled runs", extra={"runs": len(left)})
        self.drained = True
        for follower in self.followers:
            follower.wake()
        if self.durable is not None:
            self.durable.close()

    async def aclose(self) -> None:
        """Cancels active runs and closes all connections."""
        await self.drain(0)
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)
        if self._resumer is not None:
            await self._resumer.aclose()
        await self.registry.aclose()
        await self.sessions.aclose()
        if self._tracing is not None:
            await self._tracing.aclose()
        await self._counter.aclose()
        if self.durable is not None:
            await self.durable.aclose()

    def _add_resumed(self, run: GatewayRun) -> None:
        self._count_resumed(run)
        self._add(run)

    def _add(self, run: GatewayRun) -> None:
        """Adds the run to the store. If its log fails, it is resumed when the log works again."""
        self.runs.add(run)
        if self.durable is not None:
            run.task.add_done_callback(lambda _: self._check_log(run))

    def _check_log(self, run: GatewayRun) -> None:
        failure = run.run.log.failure
        if self.durable is not None and failure is not None:
            self.runs.forget(run.id)
            if run.run.log.recorded():  # otherwise none of its events is stored
                self.durable.lose(run.id, failure)

    def _finished(self, run: GatewayRun) -> GatewayRun | FinishedRun:
        """The compact form of a done run; the run itself if its log was closed before its end."""
        log = run.run.log
        if log.closed or not log.ended:
            return run
        return FinishedRun(run, self.durable.log if self.durable else None)

    def _durable(self, given: RunLog | None) -> RunPersistence | None:
        log = given or run_log(self.config)
        return None if log is None else RunPersistence(log, self.config.runs)

    def _limit_counter(self) -> LimitCounter:
        runs = self.config.runs
        if self.durable is None or not runs.nats:
            return LocalCounter()
        from windlass.gateway.limits.fleet import fleet_counter

        return fleet_counter(runs, self.durable.log)

    def _count_resumed(self, run: GatewayRun) -> None:
        """Counts and observes a resumed run like a new one."""
        served = self.registry.find(run.request.model)
        self._observe(run, served)
        if served is not None:
            key = next((key for key in self.config.keys if key.name == run.owner), None)
            leave = self.admission.force_enter(key, served.config)
            run.task.add_done_callback(lambda _: leave())

    def _observe(
        self, run: GatewayRun, served: ServedModel | None, exchange: Exchange | None = None
    ) -> None:
        """Records metrics and traces; the exchange may name the trace that the run belongs to."""
        run.observe(self.metrics.run(model=run.request.model, live=run.plan.live))
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
