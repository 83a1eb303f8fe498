"""Clients that disconnect, and upstream streams that are interrupted."""

import asyncio
import logging
from collections.abc import Iterator
from logging.handlers import QueueHandler
from queue import SimpleQueue

import httpx2
import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import (
    SECONDS,
    Body,
    RawConnection,
    Scripts,
    asking,
    client_of,
    function,
    joined,
    sent_events,
    streamed,
)

from windlass import tool
from windlass.gateway.config import ModelConfig
from windlass.models import create_model
from windlass.models.retry import Retry
from windlass.testing import (
    FakeGemini,
    FakeOpenAI,
    Fault,
    Gate,
    Latch,
    call,
    calls,
    cut,
    interrupt,
    refuse,
    slow,
)

pytestmark = pytest.mark.parametrize("wire", ["openai", "gemini"])
streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

TEXT = "One two three four."


class WatchedGate(Gate):
    """A gate that notes when a waiter was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.called_off = Latch()

    async def passed(self) -> None:
        try:
            await super().passed()
        except asyncio.CancelledError:
            self.called_off.set()
            raise


class Patience:
    """The tools of one test: they wait at its gate."""

    gate = WatchedGate()


@tool
async def wait_long() -> str:
    """Waits."""
    await Patience.gate.passed()
    return "waited"


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def serving(scripts: Scripts) -> Iterator[Serving]:
    with FakeOpenAI(scripts) as openai, FakeGemini(scripts) as gemini:
        once = Retry(attempts=1)
        models = {
            name: create_model(f"{name}/model", base_url=fake.base_url, api_key="k", retry=once)
            for name, fake in (("openai", openai), ("gemini", gemini))
        }
        configs = [
            ModelConfig(name=name, target=model.name, tools=("wait_long",))
            for name, model in models.items()
        ]
        with Serving(config_of(*configs), models=models, tools=[wait_long]) as serving:
            yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[httpx2.Client]:
    with client_of(serving) as client:
        yield client


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedGate]:
    """A new gate for each test, for its tools and its model."""
    gate = WatchedGate()
    monkeypatch.setattr(Patience, "gate", gate)
    yield gate
    gate.open()


@pytest.fixture
def access_lines() -> Iterator[SimpleQueue[logging.LogRecord]]:
    """The access log, line by line as it is written."""
    lines: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler, log = QueueHandler(lines), logging.getLogger("windlass.gateway.access")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lines
    log.removeHandler(handler)
    log.setLevel(before)


def last_run(client: httpx2.Client) -> Body:
    """The run that was started last, when it has ended."""
    run_id = client.get("/v1/runs").json()["data"][0]["id"]
    with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
        assert [event.data["done"] for event in sent_events(response)][-1]
    return client.get(f"/v1/runs/{run_id}").json()


@streaming
def test_a_client_that_disconnects_cancels_the_upstream_request(
    serving: Serving,
    client: httpx2.Client,
    scripts: Scripts,
    gate: WatchedGate,
    wire: str,
    stream: bool,
) -> None:
    prompt = scripts.prompt(slow(TEXT, gate, after=2))
    with RawConnection(serving) as connection:
        connection.post(asking(prompt, model=wire, stream=stream))
        if stream:
            connection.read_to(b'"two ')
        gate.reached.block(SECONDS)
    gate.called_off.block(SECONDS)
    run = last_run(client)
    assert (run["status"], run["stop_reason"]) == ("ended", "stopped")
    assert len(scripts.requests[prompt]) == 1, "what is called off is not tried again"


@streaming
def test_a_client_that_disconnects_cancels_its_running_tools(
    serving: Serving,
    client: httpx2.Client,
    scripts: Scripts,
    gate: WatchedGate,
    wire: str,
    stream: bool,
) -> None:
    prompt = scripts.prompt(call("wait_long"), "Never said.")
    with RawConnection(serving) as connection:
        connection.post(asking(prompt, model=wire, stream=stream))
        gate.reached.block(SECONDS)
    gate.called_off.block(SECONDS)
    assert last_run(client)["stop_reason"] == "stopped"
    assert len(scripts.requests[prompt]) == 1, "no answer is asked for that nobody reads"


@streaming
def test_a_background_run_continues_without_its_client(
    serving: Serving,
    client: httpx2.Client,
    scripts: Scripts,
    gate: WatchedGate,
    wire: str,
    stream: bool,
) -> None:
    prompt = scripts.prompt(call("wait_long"), TEXT)
    with RawConnection(serving) as connection:
        connection.post(asking(prompt, model=wire, stream=stream, background=True))
        gate.reached.block(SECONDS)
    # After one more exchange, the gateway has noticed the disconnect.
    assert client.get("/health/live").status_code == 200
    gate.open()
    run = last_run(client)
    assert (run["status"], run["stop_reason"]) == ("ended", "answer")
    assert run["response"]["choices"][0]["message"]["content"] == TEXT
    assert not gate.called_off.is_set()


@streaming
@pytest.mark.parametrize("background", [False, True])
def test_a_disconnect_is_logged_as_499(
    serving: Serving,
    scripts: Scripts,
    gate: WatchedGate,
    access_lines: "SimpleQueue[logging.LogRecord]",
    client: httpx2.Client,
    wire: str,
    stream: bool,
    background: bool,
) -> None:
    lines = iter(lambda: vars(access_lines.get(timeout=SECONDS))["fields"], None)
    client.get("/a-line-after-those-of-earlier-tests")
    assert any(line["path"].startswith("/a-line-after") for line in lines)
    prompt = scripts.prompt(slow(TEXT, gate))
    with RawConnection(serving) as connection:
        connection.post(asking(prompt, model=wire, stream=stream, background=background))
        gate.reached.block(SECONDS)
    line = next(line for line in lines if line["path"] == "/v1/chat/completions")
    assert line["status"] == 499


@streaming
def test_a_disconnect_does_not_affect_other_clients(
    serving: Serving,
    client: httpx2.Client,
    scripts: Scripts,
    gate: WatchedGate,
    wire: str,
    stream: bool,
) -> None:
    stays = Gate()
    staying = client.post("/v1/runs", json=asking(scripts.prompt(slow(TEXT, stays)), model=wire))
    with RawConnection(serving) as connection:
        connection.post(asking(scripts.prompt(slow(TEXT, gate)), model=wire, stream=stream))
        gate.reached.block(SECONDS)
    gate.called_off.block(SECONDS)
    stays.open()
    with client.stream("GET", f"/v1/runs/{staying.json()['id']}/events") as response:
        *_, last = sent_events(response)
    assert last.data["reason"] == "answer"


def test_a_reader_that_disconnects_does_not_stop_the_run(
    client: httpx2.Client, scripts: Scripts, gate: WatchedGate, wire: str
) -> None:
    run = client.post("/v1/runs", json=asking(scripts.prompt(slow(TEXT, gate)), model=wire))
    with client.stream("GET", f"/v1/runs/{run.json()['id']}/events") as response:
        next(sent_events(response))
    gate.reached.block(SECONDS)
    gate.open()
    assert last_run(client)["stop_reason"] == "answer"


@pytest.mark.parametrize(
    "fault",
    [cut(TEXT, after=2), interrupt(TEXT, after=2, error=refuse(500, "It broke."))],
    ids=["the connection", "the service"],
)
def test_an_interrupted_upstream_stream_ends_with_an_error(
    client: httpx2.Client, scripts: Scripts, fault: Fault, wire: str
) -> None:
    *begun, last = streamed(client, asking(scripts.prompt(fault), model=wire))
    assert joined(begun)["content"] == "One two "
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in begun)
    assert last["error"]["type"] == "upstream_error"
    assert last["error"]["message"]


def test_an_interrupted_stream_has_no_finish_reason_and_no_done(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    body = asking(scripts.prompt(cut(TEXT, after=2)), model=wire, stream=True)
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    assert "data: [DONE]" not in lines
    assert '"error"' in lines[-1]


def test_a_call_that_the_upstream_interrupted_is_not_run(
    client: httpx2.Client, scripts: Scripts, gate: WatchedGate, wire: str
) -> None:
    turn = calls(call("wait_long"), call("wait_long"), text="Wait. ")
    *begun, last = streamed(client, asking(scripts.prompt(cut(turn, after=2)), model=wire))
    assert joined(begun)["content"] == "Wait. "
    assert last["error"]["code"] == "stream_cut"
    assert not gate.reached.is_set()


def test_a_client_call_that_the_upstream_interrupted_is_not_returned(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    turn = calls(call("ring", times=1), call("ring", times=2), text="Ring. ")
    body = asking(scripts.prompt(cut(turn, after=2)), model=wire, tools=[function("ring")])
    *begun, last = streamed(client, body)
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in begun)
    assert last["error"]["code"] == "stream_cut"


def test_a_connection_lost_before_the_first_token_is_an_error_status(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    body = asking(scripts.prompt(cut(TEXT)), model=wire, stream=True)
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "upstream_error"


def test_an_interrupted_upstream_answer_is_an_error_status(
    client: httpx2.Client, scripts: Scripts, wire: str
) -> None:
    prompt = scripts.prompt(cut(TEXT))
    response = client.post("/v1/chat/completions", json=asking(prompt, model=wire))
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "upstream_error"
    assert "choices" not in response.json()
