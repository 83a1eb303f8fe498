"""Finished runs in memory: they use as much memory as counted, and can be read."""

import asyncio
import gc
import tracemalloc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.support.serving import config_of
from tests.support.talking import Body, asking
from tests.support.thoroughness import WHOLE

from windlass import tool
from windlass.gateway import App
from windlass.gateway.config import LimitsConfig, ModelConfig
from windlass.gateway.gateway import Gateway
from windlass.gateway.runs.lookup import MAX_COMPACT_BYTES, FinishedRun
from windlass.gateway.serve import GC_THRESHOLDS
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Step, Turn, call, calls, last_prompt

pytestmark = pytest.mark.measures

RUNS = 50
TOKENS = " ".join(f"token{number}" for number in range(100))


class Forgetful(list[ModelRequest]):
    """Replaces the list of requests, so that a scripted model does not keep them."""

    def append(self, request: ModelRequest, /) -> None:
        pass


@tool
def page(length: int) -> str:
    """A long text."""
    return "p" * length


@tool
def rows(count: int) -> list[dict[str, int]]:
    """A table."""
    return [{"id": number, "value": number * 1_000} for number in range(count)]


def step(request: ModelRequest) -> Step:
    prompt = last_prompt(request)
    if prompt == "tools" and request.messages[-1].role == "user":
        return calls(call("page", length=5_000), call("rows", count=50))
    if prompt == "long result" and request.messages[-1].role == "user":
        return call("page", length=MAX_COMPACT_BYTES + 1)
    return Turn(text=TOKENS) if prompt == "tokens" else "A short answer."


def gateway_of(**limits: Any) -> Gateway:
    model = ScriptedModel(step)
    model.requests = Forgetful()
    served = ModelConfig(name="m", target="scripted/model", tools=("page", "rows"))
    config = config_of(served, limits=LimitsConfig(**limits))
    return Gateway(config, models={"m": model}, tools=(page, rows))


BODIES: dict[str, Body] = {
    "short chat": asking("Hello"),
    "streamed": asking("tokens", stream=True),
    "long prompt": asking("x" * 50_000),
    "long prompt, not ASCII": asking("Süßes 漢字\n" * 3_000),
    "tool results": asking("tools"),
    "many messages": asking(
        "Hello", *[{"role": "user", "content": f"And {n}?"} for n in range(99)]
    ),
    "very long prompt": asking("x" * (MAX_COMPACT_BYTES + 1)),
    "very long result": asking("long result"),
}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("shape", BODIES if WHOLE else ["streamed", "long prompt", "tool results"])
async def test_finished_runs_use_as_much_memory_as_counted(traced: None, shape: str) -> None:
    gateway = gateway_of(max_kept_runs=10 * RUNS, max_kept_bytes=2**30)
    app, runs = App(gateway), 5 if "very" in shape else RUNS

    async def ask(times: int) -> tuple[int, int]:
        for _ in range(times):
            assert (await post(app, BODIES[shape])).status == 200
        while gateway.runs.running():
            await asyncio.sleep(0)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], counted(gateway)

    taken_before, counted_before = await ask(5)
    taken, all_counted = await ask(runs)
    ratio = (taken - taken_before) / (all_counted - counted_before)
    assert 1 / 1.5 < ratio < 1.5, f"{(taken - taken_before) / runs:.0f} bytes a run"
    await gateway.aclose()


def counted(gateway: Gateway) -> int:
    return sum(run.size for run in gateway.runs.all())


async def test_finished_runs_stay_within_their_memory_limit() -> None:
    gateway = gateway_of(max_kept_bytes=100_000)
    app = App(gateway)
    for _ in range(20):
        await post(app, asking("x" * 20_000))
    assert 3 <= len(gateway.runs.all()) <= 5
    assert counted(gateway) <= 130_000  # the surplus run is dropped when the next one ends
    await gateway.aclose()


@pytest.mark.parametrize("shape", BODIES)
async def test_a_finished_run_reads_the_same_as_while_active(shape: str) -> None:
    gateway = gateway_of()
    app = App(gateway)
    run_id = (await post(app, BODIES[shape] | {"stream": False}, "/v1/runs")).json["id"]
    [active] = gateway.runs.running()
    seen = await request(app, "GET", f"/v1/runs/{run_id}/events")
    while gateway.runs.running():
        await asyncio.sleep(0)
    kept = gateway.runs.get(run_id)
    assert isinstance(kept, FinishedRun)
    assert tuple(await kept.recorded()) == active.log.recorded()
    again = await request(app, "GET", f"/v1/runs/{run_id}/events")
    assert again.body == seen.body
    told = (await request(app, "GET", f"/v1/runs/{run_id}")).json
    assert (told["status"], told["phase"], told["stop_reason"]) == ("ended", "ended", "answer")
    answer = told["response"]["choices"][0]["message"]["content"]
    assert answer == active.reply.text
    exported = (await request(app, "GET", f"/v1/runs/{run_id}/export")).json
    assert len(exported["events"]) == told["events"]
    stopped = await post(app, {}, f"/v1/runs/{run_id}/stop")
    assert stopped.json["stop_reason"] == "answer"
    refused = await post(app, {"call_id": "none"}, f"/v1/runs/{run_id}/approve")
    assert refused.status == 409
    await gateway.aclose()


class Node:
    """Part of a reference cycle."""

    alive = 0

    def __init__(self, other: "Node | None") -> None:
        self.other = other
        Node.alive += 1

    def __del__(self) -> None:
        Node.alive -= 1


@pytest.mark.measures
def test_reference_cycles_of_a_tool_do_not_accumulate() -> None:
    """They are referenced for a while, so that they reach the oldest generation."""
    cache: deque[Node] = deque(maxlen=60_000)
    thresholds, most = gc.get_threshold(), 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        for _ in range(1_000_000):
            first = Node(None)
            first.other = Node(first)
            cache.append(first)
            most = max(most, Node.alive)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert most < 600_000
