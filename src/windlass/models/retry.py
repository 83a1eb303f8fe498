"""When to ask again, how long to wait first, and when to give up. Pure: no clock, no dice."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct

from windlass.errors import ModelError

log = logging.getLogger("windlass.models")


class Retry(Struct, frozen=True):
    """How often a request is tried, and how long is waited in between (seconds).

    A wait is random between nothing and `first_wait`, doubled at each attempt, or `longest_wait`.
    A server that names a time (`Retry-After`) is waited for, if `total_wait` has room for it.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 20.0
    total_wait: float = 60.0

    def wait(
        self, problem: ModelError, *, attempt: int, waited: float, jitter: float
    ) -> float | None:
        """The seconds to wait after attempt number `attempt` (from 1); None means give up.

        `jitter` is a random number in [0, 1).
        """
        if not problem.retryable or attempt >= self.attempts:
            return None
        backoff = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 30)) * jitter
        if problem.retry_after is not None:
            # The jitter comes on top: all clients of a busy server are told the same second.
            backoff = problem.retry_after + self.first_wait * jitter
        return backoff if waited + backoff <= self.total_wait else None


class Waiting:
    """The waits between the attempts of one request."""

    def __init__(
        self,
        retry: Retry,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._retry, self._sleep, self._dice = retry, sleep, dice
        self._attempt, self._waited = 0, 0.0

    async def after(self, problem: ModelError) -> None:
        """Waits as long as the policy says. Raises `problem` when it says to give up."""
        self._attempt += 1
        seconds = self._retry.wait(
            problem, attempt=self._attempt, waited=self._waited, jitter=self._dice()
        )
        if seconds is None:
            try:
                raise problem
            finally:
                del problem  # its traceback holds this frame
        self._waited += seconds
        log.info(
            "model request failed%s: trying again in %.1f s (attempt %d of %d)",
            f" ({', '.join(problem.facts)})" if problem.facts else "",
            seconds,
            self._attempt + 1,
            self._retry.attempts,
            extra={"status": problem.status, "wait": round(seconds, 3), "attempt": self._attempt},
        )
        await self._sleep(seconds)


class Timeouts(Struct, frozen=True):
    """Seconds: to connect, and to wait for the next byte. Models think long before they speak."""

    connect: float = 10.0
    read: float = 600.0


DEFAULT_RETRY = Retry()
DEFAULT_TIMEOUTS = Timeouts()
