"""Who may start a run now: rates and numbers, for each key, each model and the whole gateway."""

import asyncio
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import Refused
from windlass.gateway.limits.counters import LocalTally, Tally
from windlass.wires.errors import Problem

__all__ = ["Admission"]

RETRY_SOON = 1.0


class _Limit(NamedTuple):
    """How many runs something may have at once."""

    name: str
    most: int
    who: str


class Admission:
    """Lets runs in. Those that find the gateway full wait in a line, in order, for a time.

    What keys and models may do is counted by the `tally`, which may be a fleet's. The line, and the
    number of runs that this process takes on, are its own.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        refused: Callable[[str], None],
        tally: Tally | None = None,
    ) -> None:
        self._limits, self._refused = limits, refused
        self._tally: Tally = tally or LocalTally()
        self._running = 0
        self._line: deque[asyncio.Future[None]] = deque()

    async def count(self, key: KeyConfig | None) -> None:
        """Counts a request of this key. Raises `Refused` (429) when there are too many."""
        if key is None or key.requests_per_minute is None:
            return
        if seconds := await self._tally.spend(f"key {key.name}", key.requests_per_minute):
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
        held: list[str] = []
        try:
            # Counted while they wait, too: a line is not a way around one's own limit.
            for limit in _limits_of(key, model):
                if not await self._tally.take(limit.name, limit.most):
                    raise self._too_many(limit)
                held.append(limit.name)
            if self._running < self._limits.max_running:
                self._running += 1
            else:
                await self._stand_in_line(gone)
        except BaseException:
            self._give_back(held)
            raise
        return lambda: self._leave(held)

    def hold(self, key: KeyConfig | None, model: ModelConfig) -> Callable[[], None]:
        """A place for a run that was begun elsewhere: it counts, and is never refused.

        Returns the call that gives it back.
        """
        held = [limit.name for limit in _limits_of(key, model)]
        for name in held:
            self._tally.hold(name)
        self._running += 1
        return lambda: self._leave(held)

    def _too_many(self, limit: _Limit) -> Refused:
        message = f"{limit.who} may have {limit.most} runs at once, and they are running."
        return self._refusal("concurrency", Problem(429, message, "too_many_runs"), RETRY_SOON)

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

    def _leave(self, held: Iterable[str]) -> None:
        self._give_back(held)
        self._pass_on()

    def _give_back(self, held: Iterable[str]) -> None:
        for name in held:
            self._tally.give_back(name)

    def _pass_on(self) -> None:
        """Gives a place to the first in the line, or back; of those that were too many, back."""
        if self._line and self._running <= self._limits.max_running:
            self._line.popleft().set_result(None)
        else:
            self._running -= 1

    def _refusal(self, reason: str, problem: Problem, seconds: float) -> Refused:
        self._refused(reason)
        return Refused(Problem(problem.status, problem.message, problem.code, retry_after=seconds))


def _limits_of(key: KeyConfig | None, model: ModelConfig) -> list[_Limit]:
    """Those that there are: what has no limit is not counted."""
    limits: list[_Limit] = []
    if key is not None and key.max_running is not None:
        limits.append(_Limit(f"key {key.name}", key.max_running, "This key"))
    if model.max_running is not None:
        limits.append(_Limit(f"model {model.name}", model.max_running, "This model"))
    return limits
