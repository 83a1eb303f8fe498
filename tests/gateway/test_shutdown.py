"""Shutdown of a gateway: runs that end in time complete, and clients of the others get an error."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import SECONDS, RawConnection, asking, client_of, payloads, sent_events

from windlass import ApprovalRequested, tool
from windlass.gateway import GatewayConfig, create_app
from windlass.gateway.config import LimitsConfig, ModelConfig, ServerConfig
from windlass.gateway.gateway import Gateway
from windlass.testing import Gate, Latch, ScriptedModel, Step, call, slow

streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

TEXT = "One two three."


class Ending:
    """A gateway over one model, which the test shuts down."""

    def __init__(self, *steps: Step, seconds: float) -> None:
        config = GatewayConfig(server=ServerConfig(shutdown_timeout=seconds))
        self.serving = Serving(config, models={"m": ScriptedModel(steps)})
        self.drains = Latch()
        self._drain = self.serving.gateway.drain
        self.serving.gateway.drain = self._watched

    async def _watched(self, seconds: float) -> None:
        asyncio.get_running_loop().call_soon(self.drains.set)
        await self._drain(seconds)

    def stop(self) -> None:
        """Acts like a signal; returns when the shutdown has begun."""
        self.serving.stop()
        self.drains.block(SECONDS)


@contextmanager
def ending(*steps: Step, seconds: float) -> Iterator[tuple[Ending, httpx2.Client]]:
    end = Ending(*steps, seconds=seconds)
    with end.serving, client_of(end.serving) as client:
        yield end, client


@asynccontextmanager
async def in_process(
    *steps: Step, config: GatewayConfig | None = None
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    """A gateway without a server: its connections are never closed."""
    app = create_app(config or GatewayConfig(), models={"m": ScriptedModel(steps)}, tools=[wait])
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield app.gateway, client
    await app.gateway.aclose()


@tool(approve=True)
def wait() -> str:
    """Waits for a person."""
    return "approved"


def test_a_stream_that_ends_in_time_is_read_to_its_end() -> None:
    gate = Gate()
    with ending(slow(TEXT, gate, after=1), seconds=60) as (end, client):
        body = asking("Count.", stream=True)
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            came = payloads(response)
            first = [next(came), next(came)]
            end.stop()
            gate.open()
            *rest, done = came
    chunks = [json.loads(payload) for payload in first + rest]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == TEXT
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"


def test_an_answer_that_is_ready_in_time_is_sent() -> None:
    gate = Gate()
    with ending(slow(TEXT, gate), seconds=60) as (end, _), RawConnection(end.serving) as raw:
        raw.post(asking("Count."))
        gate.reached.block(SECONDS)
        end.stop()
        gate.open()
        came = raw.read_to(TEXT.encode())
    assert came.startswith(b"HTTP/1.1 200 OK")


def test_a_stream_that_does_not_end_in_time_ends_with_an_error() -> None:
    with ending(slow(TEXT, Gate(), after=1), seconds=0) as (end, client):
        body = asking("Count.", stream=True)
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            came = payloads(response)
            first = [next(came), next(came)]
            end.stop()
            rest = list(came)
    assert json.loads(first[1])["choices"][0]["delta"]["content"] == "One "
    [error] = [json.loads(payload)["error"] for payload in rest]
    assert error["code"] == "shutting_down"


@streaming
def test_an_answer_that_has_not_started_in_time_is_refused(stream: bool) -> None:
    gate = Gate()
    with ending(slow(TEXT, gate), seconds=0) as (end, _), RawConnection(end.serving) as raw:
        raw.post(asking("Count.", stream=stream))
        gate.reached.block(SECONDS)
        end.stop()
        came = raw.read_to(b'"shutting_down"')
    head = came.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 503 ")
    assert b"retry-after: 5" in head


def test_readers_of_a_cancelled_run_receive_its_end() -> None:
    with ending(slow(TEXT, Gate()), seconds=0) as (end, client):
        run_id = client.post("/v1/runs", json=asking("Count.")).json()["id"]
        with client.stream("GET", f"/v1/runs/{run_id}/events") as response:
            reading = sent_events(response)
            assert next(reading).name == "run_started"
            end.stop()
            *_, last = reading
    assert (last.name, last.data["reason"]) == ("run_ended", "stopped")


def test_a_gateway_without_runs_stops_at_once() -> None:
    with ending(seconds=60) as (end, client):
        assert client.get("/health/ready").json() == {"status": "ok"}
        end.stop()
    with pytest.raises(httpx2.ConnectError), client_of(end.serving) as late:
        late.get("/health/live")


async def test_a_stopping_gateway_refuses_requests_with_retry_after() -> None:
    gate = Gate()
    async with in_process(slow(TEXT, gate)) as (gateway, client):
        started = await client.post("/v1/runs", json=asking("Count."))
        await gate.reached.wait()
        draining = asyncio.create_task(gateway.drain(60))
        await asyncio.sleep(0)
        for path in ("/v1/chat/completions", "/v1/runs"):
            refused = await client.post(path, json=asking("And now?"))
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "5"
            assert refused.json()["error"]["code"] == "shutting_down"
        for path, status in (("/health/live", 200), ("/health/ready", 503), ("/health", 503)):
            assert (await client.get(path)).status_code == status
        run_path = f"/v1/runs/{started.json()['id']}"
        assert (await client.get(run_path)).json()["status"] == "running"
        assert not draining.done()
        gate.open()
        async with asyncio.timeout(SECONDS):
            await draining
        assert (await client.get(run_path)).json()["stop_reason"] == "answer"


async def test_active_runs_can_be_approved_and_stopped_during_a_shutdown() -> None:
    config = config_of(ModelConfig(name="m", target="scripted/model", tools=("wait",)))
    gate = Gate()
    steps = (call("wait"), slow(TEXT, gate))
    async with in_process(*steps, config=config) as (gateway, client):
        run_id = (await client.post("/v1/runs", json=asking("Wait."))).json()["id"]
        async with asyncio.timeout(SECONDS):
            call_id = await _call_in_question(gateway, run_id)
        draining = asyncio.create_task(gateway.drain(60))
        await asyncio.sleep(0)
        path = f"/v1/runs/{run_id}"
        decided = await client.post(f"{path}/approve", json={"call_id": call_id})
        assert decided.status_code == 200
        async with asyncio.timeout(SECONDS):
            await gate.reached.wait()
        assert (await client.post(f"{path}/stop")).json()["stop_reason"] == "stopped"
        async with asyncio.timeout(SECONDS):
            await draining


async def _call_in_question(gateway: Gateway, run_id: str) -> str:
    run = next(run for run in gateway.runs.running() if run.id == run_id)
    async for event in run.events():
        if isinstance(event, ApprovalRequested):
            return event.call.id
    raise AssertionError("the run asked for no approval")


async def test_a_queued_request_is_refused_during_a_shutdown() -> None:
    config = GatewayConfig(limits=LimitsConfig(max_running=1))
    gate = Gate()
    async with in_process(slow(TEXT, gate), config=config) as (gateway, client):
        await client.post("/v1/runs", json=asking("Count."))
        await gate.reached.wait()
        in_line = asyncio.Event()
        enter = gateway.admission.enter

        async def entering(key: Any, model: Any, disconnected: Any) -> Callable[[], None]:
            asyncio.get_running_loop().call_soon(in_line.set)
            return await enter(key, model, disconnected)

        gateway.admission.enter = entering
        waiting = asyncio.create_task(client.post("/v1/chat/completions", json=asking("Me too.")))
        async with asyncio.timeout(SECONDS):
            await in_line.wait()
            await gateway.drain(0)
            late = await waiting
        assert (late.status_code, late.json()["error"]["code"]) == (503, "shutting_down")
        assert len(gateway.runs.all()) == 1
