"""Limits on the size and the rate of requests."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asgi import JSON_TYPE, SECONDS, bearer, post, request
from tests.support.serving import Serving
from tests.support.talking import RawConnection

from windlass.gateway import App, GatewayConfig, create_app
from windlass.gateway.config import KeyConfig, LimitsConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.http import context as exchange
from windlass.testing import ScriptedModel

KEY, HASH = new_key()
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def app_of(config: GatewayConfig | None = None, **limits: Any) -> AsyncIterator[App]:
    config = config or GatewayConfig(limits=LimitsConfig(**limits))
    app = create_app(config, models={"m": ScriptedModel("Hello.")}, tools=())
    yield app
    await app.gateway.aclose()


def padded(size: int) -> bytes:
    """A valid body of that size."""
    body = json.dumps(BODY).encode()
    return body + b" " * (size - len(body))


async def test_a_body_of_the_maximum_size_is_accepted_and_a_larger_one_refused() -> None:
    async with app_of(max_body_bytes=1000) as app:
        assert (await post(app, padded(1000))).status == 200
        refused = await post(app, padded(1001))
        assert (refused.status, refused.error["code"]) == (413, "body_too_large")
        assert "1000 bytes" in refused.error["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/runs"])
async def test_a_body_without_a_length_is_counted_as_it_arrives(path: str) -> None:
    async with app_of(max_body_bytes=1000) as app:
        whole = padded(1000)
        pieces = [whole[at : at + 100] for at in range(0, 1000, 100)]
        fits = await request(app, "POST", path, headers=[JSON_TYPE], pieces=pieces)
        assert fits.status in (200, 202)
        more = await request(app, "POST", path, headers=[JSON_TYPE], pieces=[*pieces, b" "])
        assert (more.status, more.error["code"]) == (413, "body_too_large")


async def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    read = 0

    def pieces() -> Iterable[bytes]:
        nonlocal read
        for _ in range(50):
            read += 1
            yield b" " * 100

    async with app_of(max_body_bytes=1000) as app:

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": next(coming), "more_body": True}

        coming = iter(pieces())
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": [JSON_TYPE],
        }
        await app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert read == 11


@pytest.mark.parametrize("begun", [[], [b"{", b""]], ids=["nothing", "a piece"])
async def test_a_body_that_does_not_arrive_times_out(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.01)
    async with app_of() as app:
        answer = await request(
            app, "POST", "/v1/chat/completions", headers=[JSON_TYPE], pieces=begun, ends=False
        )
        assert (answer.status, answer.error["code"]) == (408, "body_timeout")
        assert answer.error["type"] == "timeout_error"


async def test_a_client_that_disconnects_during_its_body_is_released() -> None:
    leaves = asyncio.Event()
    leaves.set()
    async with app_of() as app:
        answer = await request(
            app,
            "POST",
            "/v1/chat/completions",
            headers=[JSON_TYPE],
            pieces=[b"{"],
            ends=False,
            leaves=leaves,
        )
        assert answer.status == 0
        assert app.gateway.runs.all() == []


async def test_a_content_length_above_the_limit_is_refused_before_the_body_arrives() -> None:
    async with app_of(max_body_bytes=1000) as app:
        headers = [JSON_TYPE, (b"content-length", b"1001")]
        answer = await request(app, "POST", "/v1/chat/completions", headers=headers, pieces=[])
        assert answer.status == 413


async def test_the_body_limit_applies_to_approvals() -> None:
    async with app_of(max_body_bytes=1000) as app:
        run = (await post(app, BODY, "/v1/runs")).json["id"]
        answer = await post(app, padded(1001), f"/v1/runs/{run}/approve")
        assert answer.status == 413


async def test_headers_that_are_too_large_are_refused_everywhere() -> None:
    async with app_of(max_header_bytes=1000) as app:
        for path in ("/v1/models", "/health", "/nowhere"):
            large = (b"x-large", b"x" * 1000)
            answer = await request(app, "GET", path, headers=[large])
            assert (answer.status, answer.error["code"]) == (431, "headers_too_large")


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    limits = LimitsConfig(max_header_bytes=4096, max_body_bytes=50_000)
    with Serving(GatewayConfig(limits=limits), models={"m": ScriptedModel("Hello.")}) as serving:
        yield serving


def test_headers_that_do_not_end_close_the_connection(serving: Serving) -> None:
    with RawConnection(serving) as connection:
        connection.socket.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        answer = sent_until_refused(connection.socket, b"X-More: " + b"x" * 500 + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


def test_the_header_limit_does_not_apply_to_bodies(serving: Serving) -> None:
    with RawConnection(serving) as connection:
        for _ in range(3):  # on one connection: each request is counted from zero
            connection.post({**BODY, "user": "x" * 20_000})
            assert connection.read_to(b"Hello.").startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_has_the_same_limit(serving: Serving) -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for size, status in ((1_000, b"200"), (60_000, b"413")):
        with RawConnection(serving) as connection:
            body = padded(size)
            connection.socket.sendall(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            assert connection.read_to(b"\r\n").startswith(b"HTTP/1.1 " + status)


def sent_until_refused(connection: socket.socket, piece: bytes) -> bytes:
    """Sends the piece again and again, up to an amount that no limit would allow."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came = b""
    connection.setblocking(False)
    for _ in range(200_000):
        try:
            connection.sendall(piece)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            break
        try:
            came += connection.recv(65536)
        except BlockingIOError:
            continue
        break
    connection.settimeout(SECONDS)
    return came or connection.recv(65536)


@pytest.mark.parametrize("field", ["messages", "tools", "metadata"])
async def test_json_is_limited_in_depth(field: str) -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return {**BODY, field: value}

    async with app_of(max_json_depth=10) as app:
        refused = await post(app, nested(11))
        assert (refused.status, refused.error["code"]) == (400, "too_deep")
        assert refused.error["param"] == field
        allowed = await post(app, nested(10))
        assert allowed.status == 200 or allowed.error["code"] != "too_deep"


async def test_a_request_is_limited_in_tools() -> None:
    def tools(count: int) -> list[Any]:
        return [{"type": "function", "function": {"name": f"f{each}"}} for each in range(count)]

    async with app_of(max_tools=3) as app:
        assert (await post(app, {**BODY, "tools": tools(3)})).status == 200
        refused = await post(app, {**BODY, "tools": tools(4)})
        assert (refused.status, refused.error["code"]) == (400, "too_many_tools")
        assert refused.error["param"] == "tools"


async def test_a_request_is_limited_in_messages() -> None:
    async with app_of(max_messages=3) as app:
        assert (await post(app, {**BODY, "messages": BODY["messages"] * 3})).status == 200
        refused = await post(app, {**BODY, "messages": BODY["messages"] * 4})
        assert (refused.status, refused.error["param"]) == (400, "messages")
        assert "3" in refused.error["message"]


async def test_a_key_over_its_rate_receives_retry_after() -> None:
    key = KeyConfig(name="web", hash=HASH, requests_per_minute=2)
    async with app_of(GatewayConfig(keys=(key,))) as app:
        paths = ("/v1/chat/completions", "/v1/runs", "/v1/chat/completions")
        answers = [await post(app, BODY, path, [bearer(KEY)]) for path in paths]
        assert [answer.status for answer in answers] == [200, 202, 429]
        assert answers[2].error["type"] == "rate_limit_error"
        assert answers[2].error["code"] == "rate_limit_exceeded"
        assert 1 <= int(answers[2].headers["retry-after"]) <= 30
        # Reading requests do not count.
        listed = await request(app, "GET", "/v1/models", headers=[bearer(KEY)])
        assert listed.status == 200


async def test_a_malformed_request_counts_too() -> None:
    key = KeyConfig(name="web", hash=HASH, requests_per_minute=1)
    async with app_of(GatewayConfig(keys=(key,))) as app:
        assert (await post(app, b"{", headers=[bearer(KEY)])).status == 400
        assert (await post(app, BODY, headers=[bearer(KEY)])).status == 429


async def test_refusals_are_counted_by_reason() -> None:
    key = KeyConfig(name="web", hash=HASH, requests_per_minute=1)
    async with app_of(GatewayConfig(keys=(key,))) as app:
        await post(app, BODY)
        await post(app, BODY, headers=[bearer(KEY)])
        await post(app, BODY, headers=[bearer(KEY)])
        shown = (await request(app, "GET", "/metrics", headers=[bearer(KEY)])).body.decode()
        for reason in ("unauthorized", "rate_limit"):
            assert f'windlass_refused_total{{reason="{reason}"}} 1.0' in shown
