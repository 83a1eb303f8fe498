"""Cached results of `cache=seconds` tools. Identical calls at the same time run once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from windlass.reply import ToolAnswer


@dataclass(slots=True)
class _Execution:
    task: asyncio.Task[ToolAnswer]
    waiters: int = 0


class ResultCache:
    """Caches successful results. When it is full, it evicts the least recently used entry."""

    def __init__(
        self, max_entries: int = 1_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[float, ToolAnswer]] = OrderedDict()
        self._running: dict[Hashable, _Execution] = {}

    async def get(
        self, key: Hashable, seconds: float, execute: Callable[[], Awaitable[ToolAnswer]]
    ) -> tuple[ToolAnswer, bool]:
        """Returns the answer, and whether it comes from the cache or from a concurrent call."""
        entry = self._entries.get(key)
        if entry is not None and entry[0] > self._clock():
            self._entries.move_to_end(key)
            return entry[1], True
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
            self._entries[shared[0]] = (self._clock() + seconds, answer)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        return answer


async def _wait(execution: _Execution) -> ToolAnswer:
    """Waits for the execution. It is cancelled when its last waiter is cancelled."""
    execution.waiters += 1
    try:
        return await asyncio.shield(execution.task)
    finally:
        execution.waiters -= 1
        if not execution.waiters and not execution.task.done():
            execution.task.cancel()
