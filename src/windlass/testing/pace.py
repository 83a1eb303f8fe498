"""When a step's pieces come: its waits, apart from what it says."""

import asyncio

from windlass.testing.script import Fault, Slow, Turn

__all__ = ["Pace", "unwrapped"]


class Pace:
    """The waits of one step, in the order in which its pieces meet them."""

    def __init__(self, waits: list[Slow]) -> None:
        self._waits = sorted(waits, key=lambda wait: wait.after)

    async def before(self, piece: int) -> None:
        """Waits for what stands before this piece; the first is 0."""
        while self._waits and self._waits[0].after <= piece:
            await _held(self._waits.pop(0))

    async def to_the_end(self) -> None:
        """Waits for everything that is left."""
        while self._waits:
            await _held(self._waits.pop(0))


def unwrapped(step: Turn | Fault) -> tuple[Turn | Fault, Pace]:
    """The step under its `Slow`s, and their waits."""
    waits: list[Slow] = []
    while isinstance(step, Slow):
        waits.append(step)
        step = step.step
    return step, Pace(waits)


async def _held(wait: Slow) -> None:
    if wait.seconds:
        await asyncio.sleep(wait.seconds)
    if wait.gate is not None:
        await wait.gate.passed()
