"""Retries of model requests: when to retry, how long to wait, and when to give up."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct

from windlass.errors import ModelError

log = logging.getLogger("windlass.models")


class Retry(Struct, frozen=True):
    """How often a request is tried, and how long to wait between attempts (seconds).

    A wait is a random part of `first_wait`, which doubles at each attempt up to `longest_wait`.
    A server's `Retry-After` replaces it. No wait exceeds `total_wait` in sum.
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
            # Add jitter: a busy server gives all its clients the same time.
            backoff = problem.retry_after + self.first_wait * jitter
        return backoff if waited + backoff <= self.total_wait else None


class Waiting:
    """The waits between the attempts of one request."""

    def __init__(
        self,
        retry: Retry,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._retry, self._sleep, self._jitter = retry, sleep, jitter
        self._attempt, self._waited = 0, 0.0

    async def after(self, problem: ModelError) -> None:
        """Waits as long as the policy requires. Raises `problem` if it gives up."""
        self._attempt += 1
        seconds = self._retry.wait(
            problem, attempt=self._attempt, waited=self._waited, jitter=self._jitter()
        )
        if seconds is None:
            try:
                raise problem
            finally:
                del problem  # its traceback holds this frame
        self._waited += seconds
        log.info(
            "model request failed%s: retrying in %.1f s (attempt %d of %d)",
            f" ({', '.join(problem.facts)})" if problem.facts else "",
            seconds,
            self._attempt + 1,
            self._retry.attempts,
            extra={"status": problem.status, "wait": round(seconds, 3), "attempt": self._attempt},
        )
        await self._sleep(seconds)


class Timeouts(Struct, frozen=True):
    """Seconds to connect, and to wait for the next byte. Models can think for minutes."""

    connect: float = 10.0
    read: float = 600.0


DEFAULT_RETRY = Retry()
DEFAULT_TIMEOUTS = Timeouts()
