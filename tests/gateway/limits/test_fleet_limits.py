"""Limits of keys and models where several gateways share a NATS."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.gateway.limits.limited import ask, limited_gateway, limited_key
from tests.support.asgi import Answer
from tests.support.remote_tools import waiting_once

from windlass.gateway.app import App
from windlass.gateway.config.keys import new_key
from windlass.gateway.limits import fleet
from windlass.gateway.limits.fleet import FleetCounter
from windlass.gateway.observe.tracing import Tracing
from windlass.messaging.embedded import NatsServer
from windlass.testing import Gate, call, slow

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
SECRET, _ = new_key()
SECONDS = 60
Open = Callable[..., App]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine NATS may seem unreachable."""
    monkeypatch.setattr(fleet, "NATS_TIMEOUT", 60.0)


@pytest.fixture
async def server() -> AsyncIterator[NatsServer]:
    async with NatsServer() as server:
        yield server


@pytest.fixture
async def open_gateway(server: NatsServer) -> AsyncIterator[Open]:
    made: list[App] = []

    def make(script: object, *args: object, **more: object) -> App:
        made.append(limited_gateway(server.url, script, *args, **more))  # pyright: ignore[reportArgumentType]
        return made[-1]

    yield make
    for app in made:
        await app.gateway.aclose()


async def let_in(app: App, secret: str = "") -> Answer:
    """Repeats a request until it is within the limit, and returns the answer."""
    async with asyncio.timeout(SECONDS):
        while (answer := await ask(app, secret)).status == 429:
            await asyncio.sleep(0.02)
    return answer


def counter_of(app: App) -> FleetCounter:
    assert isinstance(app.gateway._counter, FleetCounter)
    return app.gateway._counter


async def test_the_runs_of_a_key_count_at_every_gateway(open_gateway: Open) -> None:
    key, gate = limited_key(SECRET, max_running=1), Gate()
    one, other = open_gateway([slow("One.", gate)], [key]), open_gateway(["Two."], [key])
    waiting = asyncio.create_task(ask(one, SECRET))
    await gate.reached.wait()
    refused = await ask(other, SECRET)
    assert (refused.status, refused.error["code"]) == (429, "too_many_runs")
    assert refused.headers["retry-after"] == "1"
    gate.open()
    assert (await waiting).status == 200
    assert (await let_in(other, SECRET)).status == 200


async def test_the_runs_of_a_model_count_at_every_gateway(open_gateway: Open) -> None:
    gate = Gate()
    one = open_gateway([slow("One.", gate)], max_running=1)
    other = open_gateway(["Two."], max_running=1)
    waiting = asyncio.create_task(ask(one))
    await gate.reached.wait()
    assert (await ask(other)).error["code"] == "too_many_runs"
    gate.open()
    assert (await waiting).status == 200
    assert (await let_in(other)).status == 200


async def test_the_requests_of_a_key_count_at_every_gateway(open_gateway: Open) -> None:
    key = limited_key(SECRET, requests_per_minute=3)
    one, other = open_gateway(["Hi."] * 3, [key]), open_gateway(["Hi."] * 3, [key])
    answers = [await ask(app, SECRET) for app in (one, other) * 2]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20


async def test_a_request_without_limits_does_not_use_nats(open_gateway: Open) -> None:
    app = open_gateway(["Hi."], [limited_key(SECRET)])
    assert (await ask(app, SECRET)).status == 200
    assert counter_of(app)._task is None


async def test_the_slots_of_a_killed_gateway_become_free(
    server: NatsServer, open_gateway: Open
) -> None:
    command = [sys.executable, "-m", "tests.gateway.limits.limited", server.url, SECRET]
    killed = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert killed.stdout is not None
        assert await killed.stdout.readline() == b"202\n"
        app = open_gateway(["Hi."], [limited_key(SECRET, max_running=1)])
        assert (await ask(app, SECRET)).status == 429
    finally:
        killed.kill()
        await killed.wait()
    assert (await let_in(app, SECRET)).status == 200


async def test_a_resumed_run_is_counted_measured_and_traced(
    open_gateway: Open,
) -> None:
    begun, gate = asyncio.Event(), Gate()
    wait = waiting_once(begun)
    key, spans = limited_key(SECRET, max_running=1), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    one = open_gateway([call("wait")], [key], tools=(wait,))
    script = [slow("All done.", gate), "Hello."]
    other = open_gateway(script, [key], tools=(wait,), tracing=Tracing(provider))
    started = await ask(one, SECRET, "/v1/runs")
    await begun.wait()
    for run in one.gateway.runs.running():
        await run.leave()
    await one.gateway.aclose()
    [run] = await other.gateway.resume()
    await gate.reached.wait()
    assert (await ask(other, SECRET)).error["code"] == "too_many_runs"
    assert "windlass_running_runs 1.0" in metrics_of(other)
    gate.open()
    await run.result()
    assert (await let_in(other, SECRET)).status == 200
    counted = metrics_of(other)
    assert 'windlass_runs_total{model="m",stop_reason="answer"} 2.0' in counted
    assert 'windlass_tool_runs_total{outcome="ok",tool="wait"} 1.0' in counted
    assert (
        'windlass_rounds_total{model="m"} 2.0' in counted
    )  # the first was counted at the other gateway
    assert "windlass_running_runs 0.0" in counted
    [root] = [
        span
        for span in spans.get_finished_spans()
        if span.attributes and span.attributes.get("windlass.run.id") == started.json["id"]
    ]
    assert root.context is not None
    ours = [span.name for span in spans.get_finished_spans() if span.parent == root.context]
    assert ours == ["execute_tool wait", "chat m"]


def metrics_of(app: App) -> str:
    return app.gateway.metrics.render(None)[0].decode()
