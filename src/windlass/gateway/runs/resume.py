"""Runs that a gateway which is gone has left open: made again, and gone on with."""

import asyncio
import logging
import time
from collections.abc import Callable

from windlass.client.resume import refusal_of
from windlass.errors import RunInterrupted, StorageError
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.runs.hidden_turns import HiddenTurns
from windlass.gateway.runs.persistence import Origin, RunPersistence, plan_to_end
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.sessions import Sessions
from windlass.loop.history import History
from windlass.runs.event_log import MemoryLog
from windlass.runs.persisted_log import Damaged
from windlass.runs.records import RunRecord
from windlass.wires.errors import InvalidRequest

__all__ = ["RunResumer"]

log = logging.getLogger("windlass.gateway")

REST_SECONDS = 60.0
"""A run that could not be made again, for a reason that nobody has thought of, rests so long."""


class RunResumer:
    """Finds a run's model and tools by their names, as they are configured now."""

    def __init__(
        self,
        durable: RunPersistence,
        registry: ModelRegistry,
        sessions: Sessions,
        turns: HiddenTurns,
        began: Callable[[GatewayRun], None],
    ) -> None:
        """`began` is told of each run when it goes on."""
        self._durable, self._registry = durable, registry
        self._sessions, self._turns = sessions, turns
        self._began = began
        self._failed: dict[str, float] = {}
        """When runs could not be made again, by their ids."""
        self._tasks: set[asyncio.Task[GatewayRun | None]] = set()

    async def resume_interrupted(self) -> list[asyncio.Task[GatewayRun | None]]:
        """Claims the runs that were left. Each goes on when its task is done: some wait for workers
        to come back, which is no reason for the others to wait."""
        tasks = [
            asyncio.create_task(self._taken_up(record))
            for record in await self._durable.claim_interrupted(self._may_try)
        ]
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return tasks

    async def aclose(self) -> None:
        """What has been claimed and does not go yet is left again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _taken_up(self, record: RunRecord) -> GatewayRun | None:
        kept: MemoryLog | None = None
        try:
            kept, history, origin = await self._durable.reopen(record)
            run = await self._resumed(record, kept, history, origin)
        except BaseException as error:
            if kept is not None:
                kept.close()
            if not isinstance(error, Exception):
                raise
            await self._cannot(record, error)
            return None
        self._began(run)
        return run

    def _may_try(self, record: RunRecord) -> bool:
        failed = self._failed.get(record.id)
        return failed is None or time.monotonic() - failed > REST_SECONDS

    async def _cannot(self, record: RunRecord, error: Exception) -> None:
        """A log that is away can be read as soon as it is back; anything else may last.

        A run whose log is damaged is ended: no process could ever resume it.
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

    async def _resumed(
        self, record: RunRecord, kept: MemoryLog, history: History, origin: Origin
    ) -> GatewayRun:
        if history.started is None:
            raise RunInterrupted("its log has no beginning")
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
            gone = [name for name in origin.tools if name not in plan.tools]
            history.refusal = history.refusal or refusal_of(history, gone)
        except (Refused, InvalidRequest) as error:  # its model, tool or session is not available
            plan = plan_to_end(record, history)
            history.refusal = RunInterrupted(f"the run was cut off, and cannot go on: {error}")
        # At last: nothing may happen between this and the run's first step.
        orders = await self._durable.log.orders(record.id)
        return GatewayRun(
            plan,
            origin.request,
            owner=record.owner,
            asked_mode=mode,
            turns=self._turns,
            background=origin.background,
            created=record.created,
            log=kept,
            history=history,
            orders=orders,
        )
