"""Results of `cache=seconds` tools: kept for a time; identical calls at once are run once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from windlass.reply import ToolAnswer

__all__ = ["ResultCache"]


@dataclass(slots=True)
class _Execution:
    task: asyncio.Task[ToolAnswer]
    waiters: int = 0


class ResultCache:
    """Keeps successes only. Bounded: the least recently used entry goes first."""

    def __init__(
        self, max_entries: int = 1_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, ToolAnswer]] = OrderedDict()
        self._running: dict[Hashable, _Execution] = {}

    async def get(
        self, key: Hashable, seconds: float, execute: Callable[[], Awaitable[ToolAnswer]]
    ) -> tuple[ToolAnswer, bool]:
        """The answer, and whether it is somebody else's: kept from before, or running right now."""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > self._clock():
            self._kept.move_to_end(key)
            return kept[1], True
        # Executions are shared within an event loop: a task cannot be awaited from another one.
        shared = (key, asyncio.get_running_loop())
        execution = self._running.get(shared)
        joined = execution is not None
        if execution is None:
            execution = _Execution(asyncio.create_task(self._execute(shared, seconds, execute)))
            self._running[shared] = execution
        return await _wait(execution), joined

    async def _execute(
        self,
        shared: tuple[Hashable, asyncio.AbstractEventLoop],
        seconds: float,
        execute: Callable[[], Awaitable[ToolAnswer]],
    ) -> ToolAnswer:
        try:
            answer = await execute()
        finally:
            self._running.pop(shared, None)
        if answer.ok:
            self._kept[shared[0]] = (self._clock() + seconds, answer)
            if len(self._kept) > self._max_entries:
                self._kept.popitem(last=False)
        return answer


async def _wait(execution: _Execution) -> ToolAnswer:
    """A cancelled waiter leaves the execution to the others; the last one takes it along."""
    execution.waiters += 1
    try:
        return await asyncio.shield(execution.task)
    finally:
        execution.waiters -= 1
        if not execution.waiters and not execution.task.done():
            execution.task.cancel()
