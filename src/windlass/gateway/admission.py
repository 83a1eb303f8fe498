"""Who may start a run now: rates and numbers, for each key, each model and the whole gateway."""

import asyncio
import time
from asyncio import FIRST_COMPLETED
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.exchange import ClientGone
from windlass.gateway.problems import Problem, Refused

__all__ = ["Admission", "RateLimit"]

RETRY_SOON = 1.0


class RateLimit:
    """So many a minute, and not more than that many at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity, self._clock = float(per_minute), clock
        self._tokens, self._filled = float(per_minute), clock()

    def wait(self) -> float:
        """Takes one, and returns 0; or takes none, and returns the seconds until there is one."""
        now = self._clock()
        rate = self._capacity / 60
        self._tokens = min(self._capacity, self._tokens + (now - self._filled) * rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / rate


class Admission:
    """Lets runs in. Those that find the gateway full wait in a line, in order, for a time."""

    def __init__(
        self,
        limits: LimitsConfig,
        refused: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._refused, self._clock = limits, refused, clock
        self._rates: dict[str, RateLimit] = {}
        self._of_key: Counter[str] = Counter()
        self._of_model: Counter[str] = Counter()
        self._running = 0
        self._line: deque[asyncio.Future[None]] = deque()

    def count(self, key: KeyConfig | None) -> None:
        """Counts a request of this key. Raises `Refused` (429) when there are too many."""
        if key is None or key.requests_per_minute is None:
            return
        if key.name not in self._rates:
            self._rates[key.name] = RateLimit(key.requests_per_minute, self._clock)
        if seconds := self._rates[key.name].wait():
            message = f"This key may make {key.requests_per_minute} requests a minute."
            raise self._refusal("rate_limit", Problem(429, message, "rate_limit_exceeded"), seconds)

    async def enter(
        self,
        key: KeyConfig | None,
        model: ModelConfig,
        gone: Callable[[], Coroutine[Any, Any, None]],
    ) -> Callable[[], None]:
        """Waits for a place and returns the call that gives it back.

        `gone` ends when the client has left, and is asked only where there is a line to leave.
        Raises `Refused`, and `ClientGone`.
        """
        self._check(self._of_key, key.name if key else "", key and key.max_running, "This key")
        self._check(self._of_model, model.name, model.max_running, "This model")
        # Counted while they wait, too: a line is not a way around one's own limit.
        names = (key.name if key else "", model.name)
        self._of_key[names[0]] += 1
        self._of_model[names[1]] += 1
        try:
            if self._running < self._limits.max_running:
                self._running += 1
            else:
                await self._stand_in_line(gone)
        except BaseException:
            self._uncount(*names)
            raise
        return lambda: self._leave(*names)

    def _check(self, counts: Counter[str], name: str, most: int | None, who: str) -> None:
        if most is not None and counts[name] >= most:
            message = f"{who} may have {most} runs at once, and they are running."
            problem = Problem(429, message, "too_many_runs")
            raise self._refusal("concurrency", problem, RETRY_SOON)

    async def _stand_in_line(self, gone: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if len(self._line) >= self._limits.max_queued:
            problem = Problem(503, "The gateway is full, and so is its line.", "overloaded")
            raise self._refusal("queue_full", problem, RETRY_SOON)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        leaving = asyncio.create_task(gone())
        self._line.append(turn)
        entered = False
        try:
            seconds = self._limits.queue_timeout
            await asyncio.wait((turn, leaving), timeout=seconds, return_when=FIRST_COMPLETED)
            entered = turn.done() and not leaving.done()
        finally:
            leaving.cancel()
            if not entered:
                self._step_out(turn)
        if leaving.done():
            raise ClientGone
        if not entered:
            problem = Problem(503, "The gateway is full; no place came free in time.", "overloaded")
            raise self._refusal("queue_timeout", problem, RETRY_SOON)

    def _step_out(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self._pass_on()  # the place came in the moment of giving up
        else:
            self._line.remove(turn)

    def _leave(self, key: str, model: str) -> None:
        self._uncount(key, model)
        self._pass_on()

    def _uncount(self, key: str, model: str) -> None:
        for counts, name in ((self._of_key, key), (self._of_model, model)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def _pass_on(self) -> None:
        """Gives a place to the first in the line, or back."""
        if self._line:
            self._line.popleft().set_result(None)
        else:
            self._running -= 1

    def _refusal(self, reason: str, problem: Problem, seconds: float) -> Refused:
        self._refused(reason)
        return Refused(Problem(problem.status, problem.message, problem.code, retry_after=seconds))
