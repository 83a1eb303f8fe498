"""When to ask again, how long to wait first, and when to give up. Pure: no clock, no dice."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from windlass.errors import ModelError
from windlass.models.fields import as_object, as_text

__all__ = [
    "DEFAULT_RETRY",
    "DEFAULT_TIMEOUTS",
    "Retry",
    "Timeouts",
    "is_retryable",
    "retry_after",
]

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
"""Besides every 5xx other than 501."""

TRANSIENT_CODES = frozenset(
    {
        "api_error",
        "bad_gateway",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "service_unavailable",
        "timeout",
        "too_many_requests",
        "ABORTED",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)
"""An error in the middle of a stream has no status, only a code."""

FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""A 429 that no waiting cures."""


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


def is_retryable(status: int | None, code: str | None) -> bool:
    if code in FINAL_CODES:
        return False
    if status is not None:
        return status in RETRYABLE_STATUS or (status >= 500 and status != 501)
    return code in TRANSIENT_CODES


def retry_after(
    headers: Mapping[str, str], details: Iterable[object], now: datetime | None = None
) -> float | None:
    """The wait that the server asks for, in a header (seconds or a date) or in the body."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after", "")
    for seconds in (_seconds(after), _until(after, now)):
        if seconds is not None:
            return seconds
    return _google_delay(details)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(text: str, now: datetime | None) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def _google_delay(details: Iterable[object]) -> float | None:
    """Google's RetryInfo among an error's details: `{"@type": ..., "retryDelay": "17.5s"}`."""
    for detail in details:
        delay = as_text((as_object(detail) or {}).get("retryDelay"))
        if delay is not None:
            return _seconds(delay.removesuffix("s"))
    return None
