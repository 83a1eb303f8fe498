"""Any request to any path with any header gets an answer or an error, never a crash."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.gateway.routes.fuzzing import FUZZ, SHORT, Gateway, encoded
from tests.support.asgi import JSON_TYPE
from tests.support.json_values import any_json

from windlass.gateway import GatewayConfig, create_app
from windlass.testing import ScriptedModel

CHAT = "/v1/chat/completions"
HEADERS = (
    b"host",
    b"origin",
    b"accept",
    b"authorization",
    b"x-api-key",
    b"content-type",
    b"content-length",
    b"last-event-id",
    b"x-function-calling-mode",
    b"traceparent",
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    models = {"scripted": ScriptedModel("Hello.")}
    app = create_app(GatewayConfig(), models=models, tools=())
    with asyncio.Runner() as runner:
        yield Gateway(app, runner)
        runner.run(app.gateway.aclose())


@FUZZ
@given(any_json)
def test_an_invalid_decision_never_causes_a_server_error(gateway: Gateway, value: Any) -> None:
    run = gateway.post(encoded(SHORT), "/v1/runs").json
    answer = gateway.post(encoded(value), f"/v1/runs/{run['id']}/approve")
    assert answer.status in (400, 409)
    assert answer.error


@pytest.mark.parametrize(
    ("decision", "param"),
    [
        ({}, "call_id"),
        ({"call_id": 1}, "call_id"),
        ({"call_id": "c", "approved": "yes"}, "approved"),
        ({"call_id": "c", "arguments": [1]}, "arguments"),
        ({"call_id": "c", "reason": {}}, "reason"),
        ({"call_id": "c", "aproved": False}, "aproved"),
        ([], None),
    ],
)
def test_a_field_of_a_wrong_decision_is_named(
    gateway: Gateway, decision: Any, param: str | None
) -> None:
    run = gateway.post(encoded(SHORT), "/v1/runs").json
    answer = gateway.post(encoded(decision), f"/v1/runs/{run['id']}/approve")
    assert (answer.status, answer.error["param"]) == (400, param)


@FUZZ
@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"]),
    st.sampled_from(["/", "/v1/", "/v1/runs/", "/v1/models/", "/health/"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_an_invalid_path_never_causes_a_server_error(
    gateway: Gateway, method: str, start: str, rest: str
) -> None:
    answer = gateway.request(method, start + rest, JSON_TYPE)
    assert answer.status in (200, 400, 404, 405)
    if answer.status >= 400:
        assert answer.error


@FUZZ
@given(
    st.sampled_from(HEADERS), st.binary(max_size=30) | st.text("0123456789,;=/:[]@*", max_size=9)
)
@example(b"host", b"[")
@example(b"origin", b"http://[")
@example(b"content-length", b"9" * 5000)
@example(b"content-length", b"-1")
@example(b"last-event-id", b"9" * 5000)
def test_an_invalid_header_never_causes_a_server_error(
    gateway: Gateway, name: bytes, value: bytes | str
) -> None:
    header = (name, value if isinstance(value, bytes) else value.encode())
    for method, path in (("POST", CHAT), ("GET", "/v1/runs/run_x/events"), ("GET", "/metrics")):
        answer = gateway.request(method, path, JSON_TYPE, header)
        assert answer.status in (200, 400, 403, 404, 413, 415)
        if answer.status >= 400:
            assert answer.error


def test_a_405_lists_the_allowed_methods(
    gateway: Gateway,
) -> None:
    for path, methods in (
        ("/v1/runs", {"GET", "HEAD", "POST"}),
        (CHAT, {"POST"}),
        ("/v1/models", {"GET", "HEAD"}),
    ):
        answer = gateway.request("DELETE", path)
        assert answer.status == 405
        assert set(answer.headers["allow"].split(", ")) == methods
        assert (
            answer.error["message"]
            == "Method not allowed. The header `Allow` lists the methods of this path."
        )
