from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ModelError, StreamCut
from windlass.models.retry import Retry
from windlass.wires.upstream_errors import is_retryable, retry_after

BUSY = ModelError("busy", status=503, retryable=True)
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def test_waits_double_and_are_capped() -> None:
    policy = Retry(attempts=9, first_wait=1, longest_wait=5, total_wait=100)
    waits = [policy.wait(BUSY, attempt=n, waited=0, jitter=1.0) for n in range(1, 6)]
    assert waits == [1, 2, 4, 5, 5]


def test_a_wait_is_random_between_zero_and_its_bound() -> None:
    policy = Retry(first_wait=1)
    assert policy.wait(BUSY, attempt=2, waited=0, jitter=0.0) == 0
    assert policy.wait(BUSY, attempt=2, waited=0, jitter=0.25) == 0.5


def test_the_last_attempt_is_the_last() -> None:
    policy = Retry(attempts=3)
    assert policy.wait(BUSY, attempt=2, waited=0, jitter=0.5) is not None
    assert policy.wait(BUSY, attempt=3, waited=0, jitter=0.5) is None
    assert Retry(attempts=1).wait(BUSY, attempt=1, waited=0, jitter=0.5) is None


def test_a_permanent_error_is_not_retried() -> None:
    refused = ModelError("no", status=400)
    assert Retry().wait(refused, attempt=1, waited=0, jitter=0.5) is None


def test_an_interrupted_stream_is_retryable() -> None:
    assert Retry().wait(StreamCut(), attempt=1, waited=0, jitter=0.5) is not None


def test_the_retry_after_of_the_server_is_waited_for_and_a_little_more() -> None:
    told = ModelError("busy", retryable=True, retry_after=7)
    assert Retry(first_wait=1).wait(told, attempt=1, waited=0, jitter=0.0) == 7
    assert Retry(first_wait=1).wait(told, attempt=1, waited=0, jitter=0.5) == 7.5


def test_a_retry_after_above_the_total_wait_is_an_error() -> None:
    told = ModelError("busy", retryable=True, retry_after=3600)
    assert Retry(total_wait=60).wait(told, attempt=1, waited=0, jitter=0.0) is None


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 50))
def test_all_waits_together_stay_within_the_total(jitter: float, attempts: int) -> None:
    policy, waited = Retry(attempts=attempts, total_wait=10), 0.0
    for attempt in range(1, attempts + 1):
        wait = policy.wait(BUSY, attempt=attempt, waited=waited, jitter=jitter)
        if wait is None:
            break
        assert wait >= 0
        waited += wait
    assert waited <= 10


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_retryable_statuses(status: int) -> None:
    assert is_retryable(status, None)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422, 501])
def test_statuses_that_are_not_retryable(status: int) -> None:
    assert not is_retryable(status, "UNAVAILABLE")


def test_an_exhausted_quota_is_not_retried() -> None:
    assert not is_retryable(429, "insufficient_quota")


def test_without_a_status_the_code_decides() -> None:
    assert is_retryable(None, "server_error")
    assert is_retryable(None, "UNAVAILABLE")
    assert not is_retryable(None, "invalid_request_error")
    assert not is_retryable(None, None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:20 GMT"}, 20.0),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:20 -0000"}, 20.0),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, (), NOW) == seconds


def test_the_error_has_googles_details() -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"},
    ]
    assert retry_after({}, details, NOW) == 17.5
    assert retry_after({"retry-after": "2"}, details, NOW) == 2
    assert retry_after({}, ["odd", None, {"retryDelay": "odd"}], NOW) is None
