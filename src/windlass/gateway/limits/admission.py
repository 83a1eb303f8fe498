"""Which requests may start a run now: rate limits, limits on active runs, and the waiting queue."""

import asyncio
import time
from asyncio import FIRST_COMPLETED
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import Refused
from windlass.wires.errors import Problem

MINUTE_SECONDS = 60.0
RETRY_AFTER_SECONDS = 1.0
"""The `Retry-After` of a refusal if the wait cannot be predicted."""


class LimitCounter(Protocol):
    """Counts requests and active runs by key or model."""

    async def spend(self, name: str, per_minute: int) -> float:
        """Counts a request and returns 0, or returns the seconds until one is allowed."""
        ...

    async def acquire(self, name: str, limit: int) -> bool:
        """Takes a slot if fewer than `limit` are taken."""
        ...

    def force_acquire(self, name: str) -> None:
        """Takes a slot even if all are taken."""
        ...

    def release(self, name: str) -> None:
        """Releases a slot that `acquire` or `force_acquire` took."""
        ...

    async def aclose(self) -> None: ...


class TokenBucket(Struct, frozen=True):
    """The requests left of a rate per minute, at one point in time. Pure."""

    left: float
    at: float

    def spend(self, count: int, per_minute: int, now: float) -> "tuple[TokenBucket, int, float]":
        """Spends up to `count` requests.

        Returns the new bucket, the number spent, and the seconds until the next is available.
        """
        # Clocks of a fleet differ: ignore time that runs backwards or is ahead by over a minute.
        since = now if self.at > now + MINUTE_SECONDS else self.at
        refill = max(0.0, now - since) * per_minute / MINUTE_SECONDS
        left = min(float(per_minute), self.left + refill)
        then = max(now, since)
        spent = min(count, int(left))
        left -= spent
        return TokenBucket(left, then), spent, max(0.0, 1 - left) * MINUTE_SECONDS / per_minute


class LocalCounter:
    """Counts the requests and runs of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}
        self.slots: Counter[str] = Counter()
        """The number of slots taken, by name; names without any are removed."""

    async def spend(self, name: str, per_minute: int) -> float:
        now = self._clock()
        bucket = self._buckets.get(name) or TokenBucket(per_minute, now)
        self._buckets[name], spent, seconds = bucket.spend(1, per_minute, now)
        return 0.0 if spent else seconds

    async def acquire(self, name: str, limit: int) -> bool:
        if self.slots[name] >= limit:
            return False
        self.force_acquire(name)
        return True

    def force_acquire(self, name: str) -> None:
        self.slots[name] += 1

    def release(self, name: str) -> None:
        self.slots[name] -= 1
        if not self.slots[name]:
            del self.slots[name]

    async def aclose(self) -> None:
        pass


class RunPlaces(Protocol):
    """The places for active runs of the whole gateway, and the queue for them."""

    def request(self, limits: LimitsConfig) -> "asyncio.Future[bool]":
        """Requests a place: True when one is free, False if the queue is full."""
        ...

    def withdraw(self, turn: "asyncio.Future[bool]") -> None:
        """Leaves the queue, or releases a place that was assigned at the same moment."""
        ...

    def force(self) -> None:
        """Takes a place even if all are taken."""
        ...

    def leave(self) -> None:
        """Gives up a place."""
        ...


class LocalPlaces:
    """The places of this process."""

    def __init__(self) -> None:
        self.running = 0
        """How many places are taken."""
        self._queue: deque[asyncio.Future[bool]] = deque()
        self._max_running = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def request(self, limits: LimitsConfig) -> "asyncio.Future[bool]":
        self._max_running = limits.max_running
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.running < limits.max_running:
            self.running += 1
            turn.set_result(True)
        elif len(self._queue) >= limits.max_queued:
            turn.set_result(False)
        else:
            self._queue.append(turn)
        return turn

    def withdraw(self, turn: "asyncio.Future[bool]") -> None:
        if turn.done():
            self.leave()
        else:
            self._queue.remove(turn)

    def force(self) -> None:
        self.running += 1

    def leave(self) -> None:
        """Passes the place to the first run in the queue.

        Removes the place if no run waits, or if resumed runs exceed the limit.
        """
        if self._queue and self.running <= self._max_running:
            self._queue.popleft().set_result(True)
        else:
            self.running -= 1


class _RunLimit(NamedTuple):
    """The maximum number of active runs of a key or a model."""

    name: str
    max_runs: int
    subject: str


class Admission:
    """Admits runs. While the gateway is full, runs wait in a queue, in order, up to a timeout.

    The `counter` counts the requests and runs of keys and models, possibly for a whole fleet.
    `places` are those of all runs: of this process, or of all processes of this gateway.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        refused: Callable[[str], None],
        counter: LimitCounter | None = None,
        places: RunPlaces | None = None,
    ) -> None:
        """`refused` is called with the reason of each refusal."""
        self._limits, self._refused = limits, refused
        self._counter: LimitCounter = counter or LocalCounter()
        self.places: RunPlaces = places or LocalPlaces()

    async def count(self, key: KeyConfig | None) -> None:
        """Counts a request of this key. Raises `Refused` (429) if it exceeds the key's rate."""
        if key is None or key.requests_per_minute is None:
            return
        if seconds := await self._counter.spend(f"key {key.name}", key.requests_per_minute):
            message = f"This key may make {key.requests_per_minute} requests a minute."
            raise self._refusal("rate_limit", Problem(429, message, "rate_limit_exceeded"), seconds)

    async def enter(
        self,
        key: KeyConfig | None,
        model: ModelConfig,
        disconnected: Callable[[], Coroutine[Any, Any, None]],
    ) -> Callable[[], None]:
        """Waits for a slot and returns the function that releases it.

        `disconnected` returns when the client has left; it is called only if the run must queue.
        Raises `Refused` and `ClientGone`.
        """
        acquired: list[str] = []
        try:
            # Queued runs count too: otherwise a key could exceed its limit by queueing.
            for limit in _limits_of(key, model):
                if not await self._counter.acquire(limit.name, limit.max_runs):
                    raise self._too_many(limit)
                acquired.append(limit.name)
            turn = self.places.request(self._limits)
            if not turn.done():
                await self._wait_in_queue(turn, disconnected)
            if not turn.result():
                problem = Problem(503, "The gateway is full, and so is its queue.", "overloaded")
                raise self._refusal("queue_full", problem, RETRY_AFTER_SECONDS)
        except BaseException:
            self._release(acquired)
            raise
        return lambda: self._leave(acquired)

    def force_enter(self, key: KeyConfig | None, model: ModelConfig) -> Callable[[], None]:
        """Takes a slot for a resumed run, which is counted and never refused.

        Returns the function that releases the slot.
        """
        acquired = [limit.name for limit in _limits_of(key, model)]
        for name in acquired:
            self._counter.force_acquire(name)
        self.places.force()
        return lambda: self._leave(acquired)

    def _too_many(self, limit: _RunLimit) -> Refused:
        message = f"{limit.subject} already has {limit.max_runs} active runs, which is its limit."
        problem = Problem(429, message, "too_many_runs")
        return self._refusal("concurrency", problem, RETRY_AFTER_SECONDS)

    async def _wait_in_queue(
        self,
        turn: "asyncio.Future[bool]",
        disconnected: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Waits for a queued run's place, or its refusal. Raises `Refused` and `ClientGone`."""
        leaving = asyncio.create_task(disconnected())
        entered = False
        try:
            seconds = self._limits.queue_timeout
            await asyncio.wait((turn, leaving), timeout=seconds, return_when=FIRST_COMPLETED)
            entered = turn.done() and not leaving.done()
        finally:
            leaving.cancel()
            if not entered and (not turn.done() or turn.result()):
                self.places.withdraw(turn)
        if leaving.done():
            raise ClientGone
        if not entered:
            problem = Problem(
                503, "The gateway is full; no run ended before the queue timeout.", "overloaded"
            )
            raise self._refusal("queue_timeout", problem, RETRY_AFTER_SECONDS)

    def _leave(self, acquired: Iterable[str]) -> None:
        self._release(acquired)
        self.places.leave()

    def _release(self, acquired: Iterable[str]) -> None:
        for name in acquired:
            self._counter.release(name)

    def _refusal(self, reason: str, problem: Problem, seconds: float) -> Refused:
        self._refused(reason)
        return Refused(Problem(problem.status, problem.message, problem.code, retry_after=seconds))


def _limits_of(key: KeyConfig | None, model: ModelConfig) -> list[_RunLimit]:
    """The configured limits on active runs."""
    limits: list[_RunLimit] = []
    if key is not None and key.max_running is not None:
        limits.append(_RunLimit(f"key {key.name}", key.max_running, "This key"))
    if model.max_running is not None:
        limits.append(_RunLimit(f"model {model.name}", model.max_running, "This model"))
    return limits
