"""Two gateways on one file: one is paused with SIGSTOP while the other works, or is killed."""

import asyncio
from collections.abc import Sequence

import aiohttp
from tests.crash.drill import Drill
from tests.support.gateway_process import GatewayProcess

PAUSE_SECONDS = (1.2, 3.0)
"""Longer than a gateway takes to look for orders (0.2 s) and for interrupted runs (1 s)."""
LONG_PAUSE_SECONDS = (10.5, 12.0)
"""Longer than SQLite waits for a lock, which a paused gateway may hold."""


class PauseDrill(Drill):
    """`pause_share` of the strikes are pauses, and `long_share` of these are long."""

    pause_share = 0.5

    def __init__(
        self,
        gateways: Sequence[GatewayProcess],
        session: aiohttp.ClientSession,
        seed: int,
        long_share: float = 0.0,
    ) -> None:
        super().__init__(gateways, session, seed)
        self._long_share = long_share
        self._may_fail = long_share > 0

    async def _strike(self, moment: str) -> None:
        """Of three pauses one beside a kill of the other gateway; of four one ends with a kill."""
        victim, other = self._chance.sample(self._gateways, 2)
        if self.pauses and self._chance.random() >= self.pause_share:
            await self._kill_or_end(victim, moment)
            await self._start_again(victim)
            return
        long = self._chance.random() < self._long_share
        await victim.pause()
        self.pauses["gateway, long" if long else "gateway"] += 1
        if long:
            self.faults["pauses longer than the wait for a lock"] += 1
        async with asyncio.TaskGroup() as group:
            if self._chance.random() < 0.3:
                await asyncio.sleep(self._chance.uniform(0.0, 0.5))
                await other.kill()
                self.kills["beside a paused gateway"] += 1
                # Not waited for here: the paused gateway may hold the lock that it needs.
                group.create_task(self._start_again(other))
            await asyncio.sleep(
                self._chance.uniform(*LONG_PAUSE_SECONDS if long else PAUSE_SECONDS)
            )
            if self._chance.random() < 0.25:
                await victim.kill()
                self.kills["paused gateway"] += 1
                group.create_task(self._start_again(victim))
            else:
                await victim.resume()
        self._tasks.create_task(self._adopt())
