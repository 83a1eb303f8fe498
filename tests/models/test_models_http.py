"""Connections: pools that close themselves, keys that stay secret, missing hosts."""

import asyncio
import gc
import io
import logging
import ssl
import threading
import traceback
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.model_wires import HELLO, ONE_BODY, Waits, http, raw_server, text, turn
from yarl import URL

from windlass.content import InlineData, Message
from windlass.errors import ConfigError, ModelError, StreamCut
from windlass.model import Model, ModelRequest
from windlass.models import Retry, create_model
from windlass.models.anthropic import AnthropicModel
from windlass.models.gemini import GeminiModel, VertexModel
from windlass.models.http import _unreachable
from windlass.models.http1 import (
    ConnectTimeout,
    Disconnected,
    HttpError,
    InvalidResponse,
    ProxyRefused,
    ReadTimeout,
    Unreachable,
)
from windlass.models.openai import OpenAIModel
from windlass.models.responses import ResponsesModel
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    interrupt,
    refuse,
)

KEY = "sk-very-secret-key"


def quiet_run(main: Any) -> None:
    """Runs in a new event loop, where every warning is an error."""
    trouble: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(lambda _, context: trouble.append(context))
            runner.run(main())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert trouble == []


def test_a_model_that_is_not_closed_closes_with_its_loop() -> None:
    with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)

        async def main() -> None:
            assert text(await turn(model)) == "Hi"
            assert text(await turn(model, ONE_BODY)) == "Hi"

        quiet_run(main)
        quiet_run(main)  # and works again in the next loop


def test_an_unreferenced_model_closes_at_once() -> None:
    with FakeOpenAI("Hi") as fake:

        async def main() -> None:
            for _ in range(3):
                await turn(OpenAIModel("m", base_url=fake.base_url))
                cycle: list[Any] = [OpenAIModel("m", base_url=fake.base_url)]
                cycle.append(cycle)
                await turn(cycle[0])
                del cycle
                gc.collect()

        quiet_run(main)


def test_a_closed_loop_leaves_no_pool_behind() -> None:
    with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(turn(model))
        (pool,) = [pool.connections for pool in model._http._pools.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            loop.close()
            asyncio.run(_use_and_close(model))
            assert pool.closed
            assert not model._http._pools
            del pool
            gc.collect()


async def _use_and_close(model: Model) -> None:
    assert text(await turn(model)) == "Hi"
    await model.aclose()


async def test_a_closed_model_may_be_used_again() -> None:
    async with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        for _ in range(2):
            assert text(await turn(model)) == "Hi"
            await model.aclose()
            await model.aclose()


async def test_closing_reaches_the_pools_of_other_running_loops() -> None:
    async with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        other = asyncio.new_event_loop()
        thread = threading.Thread(target=other.run_forever)
        thread.start()
        try:
            there = asyncio.run_coroutine_threadsafe(turn(model), other)
            assert text(await asyncio.wrap_future(there)) == "Hi"
            assert text(await turn(model)) == "Hi"
            pools = [pool.connections for pool in model._http._pools.values()]
            await model.aclose()
            assert [pool.closed for pool in pools] == [True, True]
        finally:
            other.call_soon_threadsafe(other.stop)
            await asyncio.to_thread(thread.join)
            other.close()


def test_the_pool_of_a_blocked_loop_stays_open() -> None:
    with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        with asyncio.Runner() as runner:
            runner.run(turn(model))
            thread = threading.Thread(target=lambda: asyncio.run(model.aclose()))
            thread.start()
            thread.join(timeout=10)
            assert not thread.is_alive()
            assert text(runner.run(turn(model))) == "Hi"


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/elsewhere", "/elsewhere"])
async def test_a_redirect_is_not_followed(location: str) -> None:
    moved = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
    async with raw_server(moved % location.encode()) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key=KEY)
        with pytest.raises(ModelError, match="base_url") as raised:
            await turn(model)
        await model.aclose()
    assert raised.value.status == 307
    assert len(server.requests) == 1


async def test_a_large_image_is_sent_without_a_warning() -> None:
    image = InlineData(b"x" * 3 * 2**20, "image/png")
    async with FakeOpenAI("Big.") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        events = await turn(model, ModelRequest((Message.user(image),)))
        await model.aclose()
    assert text(events) == "Big."
    assert len(fake.requests[0].raw) > 4 * 2**20


async def test_a_large_error_page_is_not_read_to_its_end() -> None:
    async with raw_server(http(b"<p>no</p>" * 100_000, "text/html", "403 Forbidden")) as server:
        model = OpenAIModel("m", base_url=server.base_url)
        with pytest.raises(ModelError, match="no no no") as raised:
            await turn(model)
        await model.aclose()
    assert len(raised.value.message) < 400


async def test_an_unreachable_host_is_retried_and_then_named() -> None:
    waits = Waits()
    model = OpenAIModel(
        "m", base_url="http://127.0.0.1:9/v1", retry=Retry(attempts=3), waiting=waits
    )
    with pytest.raises(ModelError, match=r"cannot connect to 127\.0\.0\.1:9") as raised:
        await turn(model)
    assert raised.value.retryable
    assert len(waits.seconds) == 2
    await model.aclose()


def test_transport_errors_are_reported_with_a_message() -> None:
    url = URL("https://host.example/v1")
    refused = ConnectionRefusedError(111, "Connection refused")
    certificate = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cases: list[tuple[HttpError, Exception | None, str, bool]] = [
        (ConnectTimeout(), None, "took too long", True),
        (ReadTimeout(), None, "did not answer in time", True),
        (Unreachable(), refused, "Connection refused", True),
        (Unreachable(), certificate, "certificate", False),
        (InvalidResponse("x"), None, "invalid HTTP response", True),
        (Disconnected(), None, "closed the connection", True),
        (ProxyRefused(407), None, "the proxy cannot reach", True),
    ]
    for error, cause, message, retryable in cases:
        error.__cause__ = cause
        problem = _unreachable(error, url)
        assert isinstance(problem, ModelError)
        assert message in problem.message
        assert "host.example:443" in problem.message
        assert problem.retryable is retryable


@pytest.mark.parametrize("base_url", ["not a url", "ftp://x", "localhost:8080", "", "http://"])
def test_a_base_url_must_be_an_address(base_url: str) -> None:
    if base_url:
        with pytest.raises(ConfigError, match="base_url"):
            create_model("openai/m", base_url=base_url)
    else:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            create_model("openai/m", base_url=base_url)


def test_a_base_url_keeps_its_query() -> None:
    model = OpenAIModel("m", base_url="https://x.example/a/?api-version=1", api_key="k")
    assert str(model._url) == "https://x.example/a/chat/completions?api-version=1"
    gemini = GeminiModel("m", base_url="https://x.example/root/?k=1", api_key="k")
    assert gemini._stream_url.query == {"k": "1", "alt": "sse"}
    assert gemini._stream_url.path == "/root/v1beta/models/m:streamGenerateContent"


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({"https_proxy": "http://proxy:3128"}, "http://proxy:3128"),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "x.example"}, None),
        ({"all_proxy": "http://all:1"}, "http://all:1"),
        ({"https_proxy": "socks5://proxy:1080"}, None),
        ({}, None),
    ],
)
def test_the_environment_s_proxy_is_used(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], proxy: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert OpenAIModel("m", base_url="https://x.example/v1")._http._proxy == proxy
    assert OpenAIModel("m", base_url="http://127.0.0.1/v1")._http._proxy is None


# Keys.


@asynccontextmanager
async def everything_written(model: Model) -> AsyncIterator[io.StringIO]:
    """All log lines and, after the block, all texts of the model."""
    seen = io.StringIO()
    handler = logging.StreamHandler(seen)
    handler.setFormatter(logging.Formatter("%(message)s %(name)s %(exc_info)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield seen
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        print(repr(model), str(model), vars(model), file=seen)
        await model.aclose()


MODELS: list[Any] = [
    pytest.param(FakeOpenAI, OpenAIModel, id="openai"),
    pytest.param(FakeResponses, ResponsesModel, id="responses"),
    pytest.param(FakeGemini, GeminiModel, id="gemini"),
    pytest.param(FakeAnthropic, AnthropicModel, id="anthropic"),
]


@pytest.mark.parametrize(("fake_type", "model_type"), MODELS)
@pytest.mark.parametrize(
    "step", [refuse(401, f"Incorrect key {KEY}"), interrupt("x", error=refuse(500, f"Bad {KEY}"))]
)
async def test_a_key_is_in_no_log_no_repr_and_no_error(
    fake_type: Any, model_type: Any, step: Any
) -> None:
    async with fake_type([step, "Hi"]) as fake:
        model = model_type("m", base_url=fake.base_url, api_key=KEY, retry=Retry(attempts=1))
        async with everything_written(model) as seen:
            with pytest.raises(ModelError) as raised:
                await turn(model)
            await turn(model)
    shown = seen.getvalue() + "".join(traceback.format_exception(raised.value))
    assert "[redacted]" in shown
    assert KEY not in shown
    assert "127.0.0.1" in shown


async def test_prompts_and_answers_are_in_no_log() -> None:
    async with FakeOpenAI([refuse(503, "about my secret prompt"), "secret answer"]) as fake:
        model = OpenAIModel("m", base_url=fake.base_url, waiting=Waits())
        async with everything_written(model) as seen:
            await turn(model, ModelRequest((Message.user("my secret prompt"),)))
    assert "secret" not in seen.getvalue()


async def test_a_key_is_sent_only_in_a_header() -> None:
    async with FakeOpenAI("Hi", api_key=KEY) as openai, FakeGemini("Hi", api_key=KEY) as gemini:
        first = OpenAIModel("m", base_url=openai.base_url, api_key=KEY)
        second = GeminiModel("m", base_url=gemini.base_url, api_key=KEY)
        third = VertexModel("m", base_url=gemini.base_url, api_key=KEY, project="p", location="l")
        for model in (first, second, third):
            await turn(model)
            await model.aclose()
    (asked,) = openai.requests
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    by_key, by_token = gemini.requests
    assert by_key.headers["x-goog-api-key"] == KEY
    assert "authorization" not in by_key.headers
    assert by_token.headers["authorization"] == f"Bearer {KEY}"
    assert "x-goog-api-key" not in by_token.headers
    for request in (asked, by_key, by_token):
        assert KEY not in f"{request.path}{request.query}"
        assert KEY.encode() not in request.raw


async def test_without_a_key_no_header_is_sent() -> None:
    async with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url)
        await turn(model)
        await model.aclose()
    assert "authorization" not in fake.requests[0].headers


BAD_TOKEN = refuse(403, "not token-two")


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("fault", [BAD_TOKEN, interrupt("x", error=BAD_TOKEN)])
async def test_a_key_may_be_a_function_that_gives_a_fresh_one(awaited: bool, fault: Any) -> None:
    tokens = iter(["token-one", "token-two"])

    async def later() -> str:
        return next(tokens)

    async with FakeGemini(["Hi", fault]) as fake:
        key = later if awaited else lambda: next(tokens)
        model = VertexModel("m", base_url=fake.base_url, api_key=key, project="p")
        await turn(model)
        with pytest.raises(ModelError, match="redacted"):
            await turn(model)
        await model.aclose()
    sent = [request.headers["authorization"] for request in fake.requests]
    assert sent == ["Bearer token-one", "Bearer token-two"]


async def test_custom_headers_are_sent_and_never_shown() -> None:
    headers = {"X-Title": "app", "Authorization": "Bearer other-secret", "api-key": "third-secret"}
    async with FakeOpenAI([refuse(401, "other-secret third-secret app")]) as fake:
        model = OpenAIModel("m", base_url=fake.base_url, headers=headers)
        with pytest.raises(ModelError) as raised:
            await turn(model)
        await model.aclose()
    received = fake.requests[0].headers
    assert (received["x-title"], received["api-key"]) == ("app", "third-secret")
    assert received["authorization"] == "Bearer other-secret"
    assert raised.value.message == "[redacted] [redacted] app"


@pytest.mark.parametrize("key", ["line\nbreak", "naïve"])
def test_a_key_that_fits_no_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        OpenAIModel("m", api_key=key)
    assert key not in str(raised.value)


async def test_a_connection_lost_between_reads_is_an_interruption() -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n"
    async with raw_server(answer + body) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=Retry(attempts=1))
        with pytest.raises(StreamCut):
            async with model.stream(HELLO) as events:
                async for _ in events:
                    await asyncio.sleep(0.01)
        await model.aclose()
