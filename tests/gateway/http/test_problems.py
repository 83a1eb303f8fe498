"""Errors as clients receive them."""

import json
from typing import Any

import pytest

from windlass.errors import (
    ConfigError,
    ModelError,
    NativeModeUnavailable,
    RoundLimitExceeded,
    RunNotFound,
    StreamCut,
    TooManyRuns,
)
from windlass.gateway.http.errors import OVERLOADED, Refused, problem_headers, problem_of
from windlass.gateway.openapi.document import PROBLEMS
from windlass.wires.errors import InvalidRequest, Problem, error_body

PASSED_ON = {400, 404, 408, 409, 413, 422, 429, 503, 504}


def told(problem: Problem) -> dict[str, Any]:
    return json.loads(error_body(problem))["error"]


@pytest.mark.parametrize("status", PROBLEMS)
def test_an_error_has_the_shape_that_clients_read(status: int) -> None:
    assert told(Problem(status, "No.", "a_code", "a.field")) == {
        "message": "No.",
        "type": told(Problem(status, "No."))["type"],
        "param": "a.field",
        "code": "a_code",
    }
    assert told(Problem(status, "No.")).keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_the_type_of_an_error_depends_on_its_status(status: int, kind: str) -> None:
    assert told(Problem(status, "No."))["type"] == kind


def test_an_upstream_status_is_passed_on_if_it_concerns_the_client() -> None:
    for status in range(400, 600):
        error = ModelError("It says no.", status=status, code="its_code", retry_after=7)
        problem = problem_of(error)
        known = 503 if status == OVERLOADED else status
        assert problem.status == (known if known in PASSED_ON else 502)
        assert problem.message == "It says no."
        assert problem_headers(problem) == [(b"retry-after", b"7")]
        assert problem.code == ("upstream_refused_key" if status in (401, 403) else "its_code")
        assert (told(problem)["type"] == "upstream_error") == (problem.status >= 500)


def test_an_upstream_that_cannot_be_reached_is_a_bad_gateway() -> None:
    problem = problem_of(ModelError("cannot connect"))
    assert (problem.status, problem.code) == (502, "upstream_failed")
    cut = problem_of(StreamCut())
    assert (cut.status, cut.code, cut.type) == (502, "stream_cut", "upstream_error")


def test_a_failure_of_native_function_calling_has_its_own_code() -> None:
    problem = problem_of(NativeModeUnavailable("no tools", ModelError("no tools", status=400)))
    assert problem.status == 500
    assert told(problem) == {
        "message": "Native function calling failed: no tools",
        "type": "function_calling_error",
        "param": None,
        "code": "native_mode_unavailable",
    }


def test_the_gateways_own_errors_have_their_statuses() -> None:
    codes = {
        RunNotFound("no run"): (404, "run_not_found"),
        TooManyRuns("too many"): (429, "too_many_runs"),
        RoundLimitExceeded(3, (), ()): (500, "max_rounds_exceeded"),
        InvalidRequest("stop: no", "stop", "odd"): (400, "odd"),
    }
    for error, expected in codes.items():
        problem = problem_of(error)
        assert (problem.status, problem.code) == expected
        assert problem.message == str(error)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("messages[0].role: must be one of", "messages[0].role"),
        (
            "messages[12].content[3].image_url.url: not base64",
            "messages[12].content[3].image_url.url",
        ),
        ("tool_choice: no", "tool_choice"),
        ("The key is missing: set it", None),
        ("there is nothing", None),
        ("messages[x]: no", None),
    ],
)
def test_a_field_that_an_error_begins_with_is_its_param(message: str, param: str | None) -> None:
    problem = problem_of(ConfigError(message))
    assert (problem.status, problem.param, problem.message) == (400, param, message)


def test_an_unexpected_error_gives_no_details() -> None:
    for error in (ValueError("the key is sk-1"), KeyError("sk-1"), MemoryError("sk-1")):
        problem = problem_of(error)
        assert (problem.status, problem.code) == (500, "internal")
        assert "sk-1" not in str(told(problem))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, b"1"), (0.2, b"1"), (1.0, b"1"), (1.01, b"2"), (59.5, b"60")]
)
def test_retry_after_is_in_whole_seconds_and_never_too_early(seconds: float, shown: bytes) -> None:
    assert problem_headers(Problem(429, "No.", retry_after=seconds)) == [(b"retry-after", shown)]
    assert problem_headers(Problem(429, "No.")) == []


def test_a_refusal_has_the_message_of_its_problem() -> None:
    refused = Refused(Problem(418, "No tea."))
    assert str(refused) == "No tea."
    assert problem_of(refused) is refused.problem


def test_a_problem_accepts_any_text() -> None:
    assert told(Problem(400, "half \ud800 a pair"))["message"] == "half \ufffd a pair"


@pytest.mark.parametrize("status", range(400, 500))
def test_a_refusal_is_never_a_server_error(status: int) -> None:
    assert told(Problem(status, "No."))["type"] != "server_error"
