"""Runs that a gateway which is gone has left open: made again, and gone on with."""

import logging

from windlass.client.resume import refusal_of
from windlass.errors import RunInterrupted, WindlassError
from windlass.gateway.catalog import Catalog
from windlass.gateway.durable import DurableRuns, plan_of_the_gone
from windlass.gateway.problems import Refused
from windlass.gateway.run import GatewayRun
from windlass.gateway.sessions import Sessions
from windlass.gateway.turns import KeptTurns
from windlass.runs.records import RunRecord

__all__ = ["Takeover"]

log = logging.getLogger("windlass.gateway")


class Takeover:
    """Finds a run's model and tools by their names, as they are configured now."""

    def __init__(
        self, durable: DurableRuns, catalog: Catalog, sessions: Sessions, turns: KeptTurns
    ) -> None:
        self._durable, self._catalog = durable, catalog
        self._sessions, self._turns = sessions, turns

    async def left_open(self) -> list[GatewayRun]:
        """The runs that were left, and go on now."""
        runs: list[GatewayRun] = []
        for record in await self._durable.left_open():
            try:
                runs.append(await self._resumed(record))
            except WindlassError as error:  # damaged, which is no other run's trouble
                log.error("A run cannot be gone on with: %s", error, extra={"run_id": record.id})
        return runs

    async def _resumed(self, record: RunRecord) -> GatewayRun:
        kept, history, origin = await self._durable.take_up(record)
        assert history.started is not None
        mode = origin.mode or self._catalog.settings.mode
        try:
            served = self._catalog.served(record.model, None)
            mode = origin.mode or served.mode
            plan = served.plan(
                origin.request,
                run_id=record.id,
                messages=history.started.messages,
                mode=origin.mode,
                live=origin.live,
                remote=await self._sessions.tools(served, origin.session, origin.tools),
            )
            gone = [name for name in origin.tools if name not in plan.tools]
            history.refusal = history.refusal or refusal_of(history, gone)
        except Refused as error:  # there is no such model any more, or no such tool to choose
            plan = plan_of_the_gone(record, history)
            history.refusal = RunInterrupted(f"the run was cut off, and cannot go on: {error}")
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
        )
