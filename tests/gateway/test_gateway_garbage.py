"""A finished request leaves no garbage, however it has ended."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import uvloop
from tests.support.asgi import Answer, post, request
from tests.support.garbage import garbage_of, garbage_of_sync
from tests.support.ports import free_port
from tests.support.serving import Serving, config_of
from tests.support.talking import SECONDS, asking, function

from windlass import Depends, ToolError, tool
from windlass.gateway import App
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.gateway import Gateway
from windlass.gateway.routes import wire
from windlass.model import ModelRequest
from windlass.models import create_model
from windlass.models.retry import Retry
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import (
    FakeGemini,
    FakeOpenAI,
    ScriptedModel,
    Step,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    interrupt,
    last_prompt,
    malformed_json,
    raw_call,
    refuse,
    say,
)

pytestmark = pytest.mark.sweep

streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(autouse=True)
def early_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves is noticed at once, in each of many requests."""
    monkeypatch.setattr(wire, "WATCH_DELAY", 0.005)


async def connection() -> AsyncIterator[str]:
    yield "connection"


def broken_dependency() -> str:
    raise OSError("no such place")


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(idempotent=True)
async def look_up(key: str, place: Annotated[str, Depends(connection)]) -> str:
    """Looks something up."""
    return f"{key} in {place}"


@tool
def fail(reason: str) -> str:
    """Fails in a thread."""
    raise ValueError(reason)


@tool
async def refuse_to(reason: str, place: Annotated[str, Depends(broken_dependency)]) -> str:
    """Its dependency fails."""
    return reason + place


@tool
async def complain(reason: str) -> str:
    """Says what is wrong."""
    raise ToolError(reason)


@tool(timeout=0.01)
async def oversleep() -> None:
    """Takes too long."""
    await asyncio.Event().wait()


@tool(approve=True)
def erase() -> str:
    """Needs an approval."""
    return "erased"


TOOLS = (add, look_up, fail, refuse_to, complain, oversleep, erase)

STEPS: dict[str, tuple[Step, ...]] = {
    "answer": ("One two three.",),
    "tools": (
        calls(call("add", a=1, b=2), call("look_up", key="x"), call("look_up", key="y")),
        "Three.",
    ),
    "failures": (
        calls(
            call("fail", reason="x"),
            call("refuse_to", reason="x"),
            call("complain", reason="x"),
            call("oversleep"),
            call("unknown"),
            raw_call("add", "{"),
        ),
        "Sorry.",
    ),
    "denied": (call("erase"), "Not erased."),
    "client tool": (call("theirs", x=1),),
    "refused": (refuse(400, "no"),),
    "cut": (cut(Turn(text="One two three four."), after=2),),
    "broken": (ValueError("a model of somebody's own"),),
    "malformed": (Turn(finish="malformed_call"),),
    "waits": (call("wait"), "Done."),  # the tool is made by the fixture
    "hangs": (hang(),),
}


@pytest.fixture
def waiting() -> asyncio.Event:
    """Set when a model or a tool begins to wait for ever."""
    return asyncio.Event()


class Forgetful(list[ModelRequest]):
    """Replaces the list of requests, so that a scripted model does not keep them."""

    def append(self, request: ModelRequest, /) -> None:
        pass


def scripted(waiting: asyncio.Event) -> ScriptedModel:
    def step(request: ModelRequest) -> Step:
        prompt = last_prompt(request)
        if prompt == "hangs":
            waiting.set()
        return STEPS[prompt][sum(message.role == "tool" for message in request.messages)]

    model = ScriptedModel(step)
    model.requests = Forgetful()
    return model


@pytest.fixture(params=["memory", "sqlite"])
async def app(
    request: pytest.FixtureRequest, tmp_path: Path, waiting: asyncio.Event
) -> AsyncIterator[App]:
    @tool
    async def wait() -> None:
        """Never ends."""
        waiting.set()
        await asyncio.Event().wait()

    tools = (*TOOLS, wait)
    model = ModelConfig(
        name="m",
        target="scripted/model",
        tools=tuple(each.name for each in tools),
        approval_timeout=0.01,
    )
    log = SQLiteLog(tmp_path / "runs.db") if request.param == "sqlite" else None
    config = config_of(model, limits=LimitsConfig(max_kept_runs=1))
    gateway = Gateway(config, models={"m": scripted(waiting)}, tools=tools, log=log)
    yield App(gateway)
    await gateway.aclose()


@streaming
@pytest.mark.parametrize("prompt", [name for name in STEPS if name not in ("waits", "hangs")])
async def test_a_finished_request_leaves_no_garbage(app: App, prompt: str, stream: bool) -> None:
    more: dict[str, Any] = {"tools": [function("theirs")]} if prompt == "client tool" else {}
    if stream:
        more["stream_options"] = {"include_usage": True, "include_tool_events": True}

    async def work() -> None:
        answer = await post(app, asking(prompt, stream=stream, **more))
        assert answer.status

    assert await garbage_of(work) == {}


@streaming
@pytest.mark.parametrize("prompt", ["waits", "hangs"])
@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
async def test_a_disconnected_client_leaves_no_garbage(
    app: App, waiting: asyncio.Event, prompt: str, stream: bool, background: bool
) -> None:
    async def work() -> None:
        waiting.clear()
        leaves = asyncio.Event()
        body = asking(prompt, stream=stream, background=background)
        asked = asyncio.create_task(post(app, body, leaves=leaves))
        await waiting.wait()
        leaves.set()
        await asked
        for run in app.gateway.runs.running():
            await post(app, {}, f"/v1/runs/{run.id}/stop")

    assert await garbage_of(work) == {}


async def test_a_slow_answer_leaves_no_garbage(app: App, waiting: asyncio.Event) -> None:
    """The gateway watches its client, and the watch is cancelled."""

    async def work() -> None:
        waiting.clear()
        asked = asyncio.create_task(post(app, asking("waits", stream=True)))
        await waiting.wait()
        loop, watched = asyncio.get_running_loop(), asyncio.Event()
        loop.call_later(wire.WATCH_DELAY, watched.set)
        await watched.wait()
        [run] = app.gateway.runs.running()
        await post(app, {}, f"/v1/runs/{run.id}/stop")
        assert (await asked).status == 200

    assert await garbage_of(work) == {}


@pytest.mark.parametrize("prompt", ["tools", "failures", "refused"])
async def test_a_run_that_is_followed_and_read_leaves_no_garbage(app: App, prompt: str) -> None:
    async def work() -> None:
        run_id = (await post(app, asking(prompt), "/v1/runs")).json["id"]
        for path in ("/events", "", "/export", "/events?after=2"):
            answer = await request(app, "GET", f"/v1/runs/{run_id}{path}")
            assert answer.status == 200
        await request(app, "GET", "/v1/runs?summary=true")
        await request(app, "DELETE", f"/v1/runs/{run_id}")

    assert await garbage_of(work) == {}


@pytest.mark.parametrize(
    "ask",
    [
        lambda app: post(app, b"{"),
        lambda app: post(app, asking("answer", model="unknown")),
        lambda app: post(app, {"arguments": {"a": 1, "b": 2}}, "/v1/tools/add/call"),
        lambda app: post(app, {"arguments": {"reason": "x"}}, "/v1/tools/fail/call"),
        *(
            lambda app, path=path: request(app, "GET", path)
            for path in ("/v1/models", "/v1/tools", "/metrics", "/health", "/v1/chats", "/none")
        ),
    ],
)
async def test_other_requests_leave_no_garbage(
    app: App, ask: Callable[[App], Awaitable[Answer]]
) -> None:
    assert await garbage_of(lambda: ask(app)) == {}


OURS = ("windlass.", "aiohttp.client", "_asyncio.", "builtins.traceback", "builtins.coroutine")
FAULTS: dict[str, Step] = {
    "answer": say("One two three."),
    "refused": refuse(400, "no"),
    "overloaded": refuse(503, "later"),
    "cut": cut(Turn(text="One two three four."), after=2),
    "disconnect": disconnect(),
    "malformed": malformed_json(),
    "interrupted": interrupt(Turn(text="One two three."), after=2),
}


@streaming
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", ["openai", "gemini"])
async def test_an_upstream_that_fails_leaves_no_garbage(
    wire: str, fault: str, stream: bool
) -> None:
    """The fake upstream is in this process too, with asyncio's own garbage of a connection."""
    fake, target = {
        "openai": (FakeOpenAI, "openai/gpt-test"),
        "gemini": (FakeGemini, "gemini/gemini-2.5-flash"),
    }[wire]
    with fake(FAULTS[fault]) as upstream:
        retry = Retry(attempts=2, first_wait=0.001)
        model = create_model(target, base_url=upstream.base_url, api_key="key", retry=retry)
        served = config_of(ModelConfig(name="m", target=target))
        gateway = Gateway(served, models={"m": model}, tools=())
        app = App(gateway)

        async def work() -> None:
            assert (await post(app, asking("?", stream=stream))).status
            upstream.requests.clear()

        left = await garbage_of(work)
        assert {name: count for name, count in left.items() if name.startswith(OURS)} == {}
        await gateway.aclose()


async def test_an_unreachable_upstream_leaves_no_garbage() -> None:
    model = create_model(
        "openai/gpt-test", base_url=f"http://127.0.0.1:{free_port()}", api_key="key", retry=Retry(1)
    )
    gateway = Gateway(
        config_of(ModelConfig(name="m", target="openai/gpt-test")), models={"m": model}, tools=()
    )
    app = App(gateway)
    assert await garbage_of(lambda: post(app, asking("?"))) == {}
    await gateway.aclose()


class OnUvloop(Serving):
    """The event loop of `windlass serve`. Asyncio's own transports are cycles."""

    def _run(self) -> None:
        uvloop.run(self._serve())


def exchanged(connection: socket.socket, prompt: str, *, stream: bool, close: bool) -> bytes:
    """The whole answer, up to the end of the connection or the last chunk."""
    data = json.dumps(asking(prompt, stream=stream)).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        f"Connection: {'close' if close else 'keep-alive'}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)
    came = b""
    while piece := connection.recv(65536):
        came += piece
        if not close and came.endswith((b"0\r\n\r\n", b"}")):
            break
    assert came.startswith(b"HTTP/1.1 200")
    return came


@pytest.mark.parametrize("close", [False, True], ids=["kept alive", "closed"])
@streaming
def test_a_real_connection_leaves_no_garbage(close: bool, stream: bool) -> None:
    model = ScriptedModel(say("One two three."))
    model.requests = Forgetful()
    config = config_of(
        ModelConfig(name="m", target="scripted/m"), limits=LimitsConfig(max_kept_runs=1)
    )
    with OnUvloop(config, models={"m": model}) as serving:
        port = int(serving.root_url.rpartition(":")[2])

        def work() -> None:
            with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
                for _ in range(1 if close else 2):
                    exchanged(connection, "?", stream=stream, close=close)

        assert garbage_of_sync(work) == {}
