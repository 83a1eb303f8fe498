"""When to ask again, how long to wait first, and when to give up. Pure: no clock, no dice."""

from msgspec import Struct

from windlass.errors import ModelError


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


class Timeouts(Struct, frozen=True):
    """Seconds: to connect, and to wait for the next byte. Models think long before they speak."""

    connect: float = 10.0
    read: float = 600.0


DEFAULT_RETRY = Retry()
DEFAULT_TIMEOUTS = Timeouts()
