"""Measures how long the event loop is blocked, in units of work instead of seconds.

A heartbeat on the loop notes how much CPU time the process has used since the beat before: the
time of callbacks, and of threads that do not release the interpreter. Time that
other processes take from this one does not count, and a slow machine has a longer unit.
"""

import asyncio
import gc
import time

BEAT_SECONDS = 0.001
_LOOPS = 750_000


class Watchdog:
    """Measures a block, `async with Watchdog() as held:`. At most 1 of `held.units` is allowed."""

    def __init__(self) -> None:
        self._longest = self._last = self._unit = 0.0
        self._handle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Watchdog":
        self._unit = unit()
        gc.collect()
        gc.disable()  # the time of a collection depends on all objects of the process
        await asyncio.sleep(0)
        self._last = time.process_time()
        self._beat()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._note()
        gc.enable()
        if self._handle is not None:
            self._handle.cancel()
        self._unit = max(self._unit, unit())

    @property
    def units(self) -> float:
        """The longest time for which the loop was blocked, in units."""
        return self._longest / self._unit

    def _beat(self) -> None:
        self._note()
        self._handle = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _note(self) -> None:
        now = time.process_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now


def unit() -> float:
    """Returns the CPU seconds of a fixed piece of work, about 20 ms."""
    start = time.thread_time()
    total = 0
    for number in range(_LOOPS):
        total += number
    return time.thread_time() - start
