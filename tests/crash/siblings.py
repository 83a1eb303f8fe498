"""One gateway with several processes: one of them is killed while the others serve."""

import asyncio
import os
import signal

from tests.crash.drill import Drill


class SiblingDrill(Drill):
    """Of seven kills one hits the process that has just replaced another."""

    async def _strike(self, moment: str) -> None:
        [gateway] = self._gateways
        before = await gateway.children()
        os.kill(self._chance.choice(before), signal.SIGKILL)
        self.kills[moment] += 1
        replaced = await self._replacement(before)
        if self._chance.random() < 0.15:
            await asyncio.sleep(self._chance.uniform(0.0, 0.6))
            os.kill(replaced, signal.SIGKILL)
            self.kills["start"] += 1
            await self._replacement([*before, replaced])
        self._tasks.create_task(self._adopt())

    async def _replacement(self, known: list[int]) -> int:
        """The process that the supervisor starts in place of a killed one."""
        [gateway] = self._gateways
        while True:
            for child in await gateway.children():
                if child not in known:
                    return child
            await asyncio.sleep(0.02)
