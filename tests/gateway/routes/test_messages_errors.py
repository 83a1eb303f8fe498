"""Errors of the Messages API have Anthropic's form, whatever fails."""

from typing import Any

import pytest
from tests.support.asgi import Answer, bearer, post, request
from tests.support.message_answers import client_reading, sse_events
from tests.support.messages_gateway import (
    COUNT_PATH,
    PATH,
    VERSION,
    MessagesGateway,
    asking,
)

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import call, calls, cut, hang, interrupt, malformed_json, refuse, say
from windlass.wires.errors import Problem
from windlass.wires.messages.write_events import error_body

KEY, HASH = new_key()
OTHER, OTHER_HASH = new_key()
KEYS = (
    KeyConfig(name="web", hash=HASH),
    KeyConfig(name="other", hash=OTHER_HASH, models=("nothing",)),
)
streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def error_of(answer: Answer, status: int, kind: str) -> str:
    """The message of an error, which has Anthropic's form."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.json.keys() == {"type", "error"}
    assert answer.json["type"] == "error"
    assert answer.json["error"].keys() == {"type", "message"}
    assert answer.json["error"]["type"] == kind
    return answer.json["error"]["message"]


# What the gateway refuses.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"model": None}, "model"),
        ({"temperature": "hot"}, "temperature"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"stop_sequences": "x"}, "stop_sequences"),
    ],
)
@streaming
async def test_an_invalid_request_names_its_field(change: Any, said: str, stream: bool) -> None:
    body = {**asking(stream=stream), **change}
    answer = await MessagesGateway().post({k: v for k, v in body.items() if v is not None})
    assert said in error_of(answer, 400, "invalid_request_error")


@pytest.mark.parametrize(
    "thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}]
)
async def test_a_thread_is_refused_in_the_way_that_makes_clients_continue_without_it(
    thread: Any,
) -> None:
    answer = await MessagesGateway().post(asking(thread=thread))
    assert answer.status == 400
    assert answer.json["error"]["details"]["error_code"] == "thread_unsupported_request"


async def test_a_body_that_is_not_json_is_refused() -> None:
    error_of(await MessagesGateway().post(b"{"), 400, "invalid_request_error")


async def test_a_result_without_its_call_is_refused() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    answer = await MessagesGateway().post(asking([result]))
    assert "toolu_1" in error_of(answer, 400, "invalid_request_error")


@pytest.mark.parametrize("path", [PATH, COUNT_PATH])
async def test_an_unknown_model_is_not_found(path: str) -> None:
    gateway = MessagesGateway()
    answer = await post(gateway.app, {**asking(), "model": "ghost"}, path, (VERSION,))
    assert "ghost" in error_of(answer, 404, "not_found_error")


@pytest.mark.parametrize("path", [PATH, COUNT_PATH])
async def test_a_missing_or_wrong_key_is_an_authentication_error(path: str) -> None:
    gateway = MessagesGateway(keys=KEYS)
    for headers in ((), (bearer("wl_wrong"),), ((b"x-api-key", b"wl_wrong"),)):
        error_of(await post(gateway.app, asking(), path, headers), 401, "authentication_error")


@pytest.mark.parametrize("header", [bearer(KEY), (b"x-api-key", KEY.encode())])
async def test_a_key_comes_in_either_header(header: tuple[bytes, bytes]) -> None:
    answer = await MessagesGateway("Hi.", keys=KEYS).post(asking(), header)
    assert answer.status == 200


async def test_a_key_of_another_model_does_not_see_this_one() -> None:
    gateway = MessagesGateway(keys=KEYS)
    for model in ("m", "claude-opus-5"):
        answer = await gateway.post({**asking(), "model": model}, bearer(OTHER))
        error_of(answer, 404, "not_found_error")


async def test_a_body_that_is_too_large_reports_it() -> None:
    gateway = MessagesGateway(limits=LimitsConfig(max_body_bytes=1024))
    error_of(await gateway.post(asking("x" * 2000)), 413, "request_too_large")


async def test_a_rate_limit_says_when_to_try_again() -> None:
    key = KeyConfig(name="web", hash=HASH, requests_per_minute=1)
    gateway = MessagesGateway("Hi.", keys=(key,))
    assert (await gateway.post(asking(), bearer(KEY))).status == 200
    for path in (PATH, COUNT_PATH):
        answer = await post(gateway.app, asking(), path, (bearer(KEY),))
        error_of(answer, 429, "rate_limit_error")
        assert int(answer.headers["retry-after"]) >= 1


async def test_another_method_and_another_path_have_the_same_form() -> None:
    gateway = MessagesGateway()
    error_of(await gateway.get(PATH), 405, "invalid_request_error")
    error_of(await gateway.get(f"{PATH}/batches"), 404, "not_found_error")


async def test_a_gateway_that_stops_is_overloaded() -> None:
    gateway = MessagesGateway()
    gateway.app.gateway.draining = True
    error_of(await gateway.post(asking()), 503, "overloaded_error")


async def test_paths_of_no_wire_answer_anthropics_clients_in_their_form() -> None:
    gateway = MessagesGateway()
    error_of(await gateway.get("/v1/models/ghost", VERSION), 404, "not_found_error")
    error_of(await gateway.get("/v1/files", VERSION), 404, "not_found_error")
    assert (await gateway.get("/v1/models/ghost")).error["code"] == "model_not_found"
    assert (await post(gateway.app, {}, headers=(VERSION,))).error["type"]  # chat completions


# What the model's service refuses.


@streaming
@pytest.mark.parametrize(
    ("status", "seen", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 502, "api_error"),
        (403, 502, "api_error"),
        (404, 404, "not_found_error"),
        (413, 413, "request_too_large"),
        (422, 422, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 502, "api_error"),
        (503, 503, "overloaded_error"),
        (504, 504, "timeout_error"),
        (529, 503, "overloaded_error"),
    ],
)
async def test_an_upstreams_error_has_anthropics_type(
    status: int, seen: int, kind: str, stream: bool
) -> None:
    gateway = MessagesGateway(*[refuse(status, "Not today.", retry_after=0)] * 9)
    answer = await gateway.post(asking(stream=stream))
    assert error_of(answer, seen, kind) == "Not today."


async def test_an_upstreams_rate_limit_keeps_its_delay() -> None:
    gateway = MessagesGateway(*[refuse(429, "Slow down.", retry_after=700)] * 9)
    answer = await gateway.post(asking())
    error_of(answer, 429, "rate_limit_error")
    assert answer.headers["retry-after"] == "700"


@pytest.mark.sdk
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 503, 529])
def test_the_sdk_raises_its_own_error_for_every_status(status: int) -> None:
    from anthropic import APIStatusError

    body = error_body(Problem(status, "Not today."))
    client = client_reading(body, status, "application/json")
    with pytest.raises(APIStatusError) as raised:
        client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Go."}]
        )
    assert raised.value.status_code == status
    assert raised.value.type == error_type(status)


def error_type(status: int) -> str:
    usual = {409: "conflict_error", 413: "request_too_large", 503: "overloaded_error"}
    known = {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
        500: "api_error",
        529: "overloaded_error",
    }
    return (usual | known).get(status, "invalid_request_error")


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        (
            "This model's maximum context length is 8 tokens; your messages resulted in 9 tokens.",
            "prompt is too long: 9 tokens > 8 maximum",
        ),
        ("prompt is too long: 9 tokens > 8 maximum", "prompt is too long: 9 tokens > 8 maximum"),
        ("The context is full.", "prompt is too long: The context is full."),
    ],
)
@streaming
async def test_a_prompt_that_is_too_long_lets_claude_code_compact(
    message: str, seen: str, stream: bool
) -> None:
    refused = refuse(400, message, code="context_length_exceeded")
    answer = await MessagesGateway(refused).post(asking(stream=stream))
    assert error_of(answer, 400, "invalid_request_error") == seen


# Errors after the stream began.


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (cut("One two three four.", after=2), "api_error"),
        (interrupt("One two three four.", after=2), "api_error"),
        (
            interrupt("One two three four.", after=2, error=refuse(529, "Overloaded.")),
            "overloaded_error",
        ),
        (
            interrupt("One two three four.", after=2, error=refuse(429, "Slow down.")),
            "rate_limit_error",
        ),
    ],
)
async def test_an_error_in_the_stream_is_an_event_that_the_sdk_raises(
    fault: Any, kind: str
) -> None:
    from anthropic import APIError

    answer = await MessagesGateway(fault).post(asking(stream=True))
    assert answer.status == 200
    *_, last = sse_events(answer.body)
    assert last.keys() == {"type", "error"}
    assert last["type"] == "error"
    assert last["error"]["type"] == kind
    assert b"message_stop" not in answer.body
    client = client_reading(answer.body)
    with (
        pytest.raises(APIError) as raised,
        client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Go."}]
        ) as reading,
    ):
        reading.get_final_message()
    assert last["error"]["message"] in str(raised.value)


async def test_an_error_in_a_later_round_is_an_event_if_the_stream_has_begun() -> None:
    rome = call("lookup", city="Rome")
    gateway = MessagesGateway(calls(rome, text="Looking."), refuse(400, "Too much."))
    answer = await gateway.post(asking(stream=True))
    *_, last = sse_events(answer.body)
    assert last["error"] == {"type": "invalid_request_error", "message": "Too much."}
    answer = await MessagesGateway(rome, refuse(400, "No.")).post(asking(stream=True))
    assert error_of(answer, 400, "invalid_request_error") == "No."


async def test_malformed_json_of_the_upstream_is_an_api_error() -> None:
    answer = await MessagesGateway(*[malformed_json()] * 5).post(asking())
    error_of(answer, 502, "api_error")


async def test_a_deadline_is_a_timeout() -> None:
    served = ModelConfig(name="m", target="scripted/model", run_timeout=0.01)
    answer = await MessagesGateway(hang(), served=served).post(asking())
    error_of(answer, 504, "timeout_error")


# The id of a request.


@streaming
async def test_every_answer_to_anthropics_clients_has_a_request_id(stream: bool) -> None:
    gateway = MessagesGateway(say("Hi."))
    answer = await gateway.post(asking(stream=stream))
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    refused = await gateway.post(b"{")
    assert refused.headers["request-id"].startswith("req_")
    other = await request(gateway.app, "GET", "/v1/models")
    assert "request-id" not in other.headers
