"""How long the event loop is held at a time, in units of work rather than in seconds.

A heartbeat on the loop notes how much CPU time the process has used since the beat before. That is
what one callback takes, and also what a thread takes that does not let go of the interpreter. Time
that other processes take from this one does not count.
"""

import asyncio
import time
from typing import TypeVar

T = TypeVar("T")

BEAT = 0.001
_LOOPS = 800_000


class Watchdog:
    """`async with Watchdog() as held:` ... `held.longest` are CPU seconds, `held.units` units."""

    def __init__(self, *, trace_above: float | None = None) -> None:
        self.longest = 0.0
        self.beats = 0
        self.holds: list[float] = []
        self._last = 0.0
        self._handle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Watchdog":
        await asyncio.sleep(0)
        self._last = time.process_time()
        self._beat()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._note()
        if self._handle is not None:
            self._handle.cancel()

    @property
    def units(self) -> float:
        return self.longest / unit()

    def _beat(self) -> None:
        self._note()
        self._handle = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def _note(self) -> None:
        now = time.process_time()
        self.holds.append(now - self._last)
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self.beats += 1


def unit() -> float:
    """CPU seconds of the work that a callback may do: 20 ms on the machine it was chosen on."""
    start = time.thread_time()
    total = 0
    for number in range(_LOOPS):
        total += number
    return time.thread_time() - start
