"""Resumes interrupted runs of exited gateways."""

import asyncio
import logging
import time
from collections.abc import Callable

from windlass.client.resume import resume_refusal
from windlass.errors import RunInterrupted, StorageError
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.runs.hidden_turns import HiddenTurns
from windlass.gateway.runs.persistence import GatewayOrigin, RunPersistence, plan_to_end
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.sessions import Sessions
from windlass.loop.history import History
from windlass.runs.event_log import MemoryLog
from windlass.runs.persisted_log import Damaged
from windlass.runs.records import RunRecord
from windlass.wires.errors import InvalidRequest

log = logging.getLogger("windlass.gateway")

RETRY_SECONDS = 60.0
"""How long to wait before trying again to resume a run after an unexpected error."""


class RunResumer:
    """Resumes runs with the models and tools of the current configuration, found by name."""

    def __init__(
        self,
        durable: RunPersistence,
        registry: ModelRegistry,
        sessions: Sessions,
        turns: HiddenTurns,
        on_resumed: Callable[[GatewayRun], None],
    ) -> None:
        """`on_resumed` is called with each run when it is resumed."""
        self._durable, self._registry = durable, registry
        self._sessions, self._turns = sessions, turns
        self._on_resumed = on_resumed
        self._failed: dict[str, float] = {}
        """When resuming a run last failed, by run id."""
        self._tasks: set[asyncio.Task[GatewayRun | None]] = set()

    async def resume_interrupted(self) -> list[asyncio.Task[GatewayRun | None]]:
        """Claims interrupted runs and returns a task that resumes each.

        One task for each run, because some wait for workers to reconnect.
        """
        tasks = [
            asyncio.create_task(self._resume(record))
            for record in await self._durable.claim_interrupted(self._may_try)
        ]
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return tasks

    async def aclose(self) -> None:
        """Abandons the runs that are claimed but not resumed yet."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _resume(self, record: RunRecord) -> GatewayRun | None:
        events: MemoryLog | None = None
        try:
            events, history, origin = await self._durable.reopen(record)
            run = await self._restarted(record, events, history, origin)
        except BaseException as error:
            if events is not None:
                events.close()
            if not isinstance(error, Exception):
                raise
            await self._report_failure(record, error)
            return None
        self._on_resumed(run)
        return run

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
        if damaged:
            try:
                await self._durable.log.give_up(record, "Cannot resume run: its log is damaged.")
            except StorageError as failure:
                log.error("Cannot end run: %s", failure, extra={"run_id": record.id})

    async def _restarted(
        self, record: RunRecord, events: MemoryLog, history: History, origin: GatewayOrigin
    ) -> GatewayRun:
        if history.started is None:
            raise RunInterrupted("the run's log has no start event")
        mode = origin.mode or self._registry.settings.mode
        try:
            served = self._registry.served(record.model, None)
            mode = origin.mode or served.mode
            self._sessions.check_owner(record.owner, origin.session)
            remote = await self._sessions.tools(served, origin.session, origin.tools)
            plan = served.plan(
                origin.request,
                run_id=record.id,
                messages=history.started.messages,
                mode=origin.mode,
                live=origin.live,
                remote=remote,
                offer=await served.offer(origin.request, remote),
            )
            missing = [name for name in origin.tools if name not in plan.tools]
            history.refusal = history.refusal or resume_refusal(history, missing)
        except (Refused, InvalidRequest) as error:  # its model, tool or session is not available
            plan = plan_to_end(record, history)
            history.refusal = RunInterrupted(f"the run was interrupted and cannot resume: {error}")
        # Read last: no other task may run between this and the run's first step.
        orders = await self._durable.log.orders(record.id)
        return GatewayRun(
            plan,
            origin.request,
            owner=record.owner,
            asked_mode=mode,
            turns=self._turns,
            background=origin.background,
            created=record.created,
            log=events,
            history=history,
            orders=orders,
        )
