import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ModelError
from windlass.wires.upstream_errors import problem_in, problem_of


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


OPENAI = {"error": {"message": "Bad model.", "type": "invalid_request_error", "code": "no_model"}}
GOOGLE = {"error": {"code": 400, "message": "Bad schema.", "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize(
    ("answer", "message", "code"),
    [
        (body(OPENAI), "Bad model.", "no_model"),
        (body({"error": {"message": "x", "type": "t", "code": None}}), "x", "t"),
        (body(GOOGLE), "Bad schema.", "INVALID_ARGUMENT"),
        (body([GOOGLE]), "Bad schema.", "INVALID_ARGUMENT"),
        (body({"error": "plain words"}), "plain words", None),
        (body({"detail": "Not Found"}), "Not Found", None),
        (
            body({"detail": [{"loc": ["body", "n"], "msg": "too big"}, {"msg": "odd"}]}),
            "body.n: too big; odd",
            None,
        ),
        (body({"object": "error", "message": "m", "code": 40}), "m", None),
        (b"upstream connect error", "upstream connect error", None),
        (
            b"<html><head><title>502</title></head><body><h1>502  Bad\nGateway</h1>&amp;</body>",
            "502 Bad Gateway &",
            None,
        ),
        (b"", "HTTP status 418", None),
        (b"{}", "HTTP status 418", None),
        (b"null", "HTTP status 418", None),
    ],
)
def test_the_message_is_that_of_the_upstream(answer: bytes, message: str, code: str | None) -> None:
    problem = problem_of(418, {}, answer)
    assert (problem.message, problem.code, problem.status) == (message, code, 418)
    assert problem.message == message


def test_a_page_is_shortened() -> None:
    problem = problem_of(502, {}, b"<p>" + b"very long " * 5000)
    assert len(problem.message) < 400
    assert problem.retryable


def test_the_retry_header_of_openai_is_used() -> None:
    assert not problem_of(500, {"x-should-retry": "false"}, b"").retryable
    assert problem_of(400, {"x-should-retry": "true"}, b"").retryable


def test_the_retry_time_is_part_of_the_error() -> None:
    details = [{"@type": "RetryInfo", "retryDelay": "3s"}]
    google = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}
    assert problem_of(429, {}, body(google)).retry_after == 3
    assert problem_of(429, {"retry-after": "2"}, b"").retry_after == 2


def test_a_quoted_key_is_taken_out() -> None:
    quoting = {"error": {"message": "Wrong key: sk-verysecret.", "code": "sk-verysecret"}}
    problem = problem_of(401, {}, body(quoting), {"sk-verysecret", ""})
    assert problem.message == "Wrong key: [redacted]."
    assert problem.code == "[redacted]"
    assert "sk-verysecret" not in problem_in(quoting["error"], ["sk-verysecret"]).message


@pytest.mark.parametrize(
    ("error", "message", "status", "retryable"),
    [
        ({"message": "overloaded", "code": 502}, "overloaded", 502, True),
        ({"message": "slow down", "type": "rate_limit_exceeded"}, "slow down", None, True),
        ({"message": "no", "code": "invalid_prompt"}, "no", None, False),
        ({"code": 503, "message": "x", "status": "UNAVAILABLE"}, "x", 503, True),
        ("words", "words", None, False),
        ({}, "the model's service reported an error", None, False),
    ],
)
def test_an_error_inside_an_answer(
    error: Any, message: str, status: int | None, retryable: bool
) -> None:
    problem = problem_in(error)
    found = (problem.message, problem.status, problem.retryable)
    assert found == (message, status, retryable)


words = st.sampled_from(["error", "message", "detail", "code", "details", "msg", "loc", "status"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=9,
)


@pytest.mark.sweep
@given(json_values | st.dictionaries(words, json_values), st.integers(400, 599))
def test_no_body_makes_the_error_reader_fail(value: Any, status: int) -> None:
    assert problem_of(status, {}, body(value)).message
    assert problem_in(value).message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Slow down."),
        ({"status": 429}, "Slow down. (HTTP 429)"),
        ({"status": 429, "retry_after": 20.0}, "Slow down. (HTTP 429, retry after 20 s)"),
        ({"retry_after": 1.5}, "Slow down. (retry after 1.5 s)"),
    ],
)
def test_the_text_of_an_error_names_the_status_and_the_retry_time(
    fields: dict[str, Any], said: str
) -> None:
    error = ModelError("Slow down.", **fields)
    assert (str(error), error.message) == (said, "Slow down.")


def test_a_status_that_the_message_names_is_not_repeated() -> None:
    assert str(problem_of(503, {"retry-after": "7"}, b"")) == "HTTP status 503 (retry after 7 s)"
