"""Concurrent runs: which wait, which are refused, and that every slot is released."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asgi import SECONDS, Answer, bearer, post, request
from tests.support.serving import config_of

from windlass.gateway import App, GatewayConfig, create_app
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.limits.admission import LocalPlaces
from windlass.testing import Gate, ScriptedModel, Step, refuse, slow

KEY, HASH = new_key()
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def app_of(
    step: Step, config: GatewayConfig | None = None, **limits: Any
) -> AsyncIterator[App]:
    config = config or GatewayConfig(limits=LimitsConfig(**limits))
    app = create_app(config, models={"m": ScriptedModel(step)}, tools=())
    yield app
    await app.gateway.aclose()


def places_of(app: App) -> tuple[int, int]:
    """The numbers of running and of queued requests."""
    places = app.gateway.admission.places
    assert isinstance(places, LocalPlaces)
    return places.running, places.waiting


class Held:
    """A gateway whose model answers when the test opens its gate."""

    def __init__(self, app: App, gate: Gate) -> None:
        self.app, self.gate = app, gate
        self.asked: list[asyncio.Task[Answer]] = []

    async def ask(
        self, *, leaves: asyncio.Event | None = None, **fields: Any
    ) -> asyncio.Task[Answer]:
        """A request that has progressed as far as it can without the model."""
        task = asyncio.create_task(post(self.app, {**BODY, **fields}, leaves=leaves))
        self.asked.append(task)
        for _ in range(20):
            await asyncio.sleep(0)
        return task

    @property
    def slots(self) -> tuple[int, int]:
        """The numbers of running and of queued requests."""
        return places_of(self.app)

    async def slots_become(self, running: int, waiting: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.slots != (running, waiting):
                await asyncio.sleep(0)


@asynccontextmanager
async def held(*, config: GatewayConfig | None = None, **limits: Any) -> AsyncIterator[Held]:
    gate = Gate()
    async with app_of(slow("Hello.", gate), config, **limits) as app:
        yield Held(app, gate)
        gate.open()


async def test_a_request_to_a_full_gateway_waits_in_the_queue_and_is_answered() -> None:
    async with held(max_running=1) as gateway:
        tasks = [await gateway.ask() for _ in range(3)]
        assert gateway.slots == (1, 2)
        gateway.gate.open()
        assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 3
        await gateway.slots_become(0, 0)


async def test_a_full_queue_refuses_with_retry_after() -> None:
    async with held(max_running=1, max_queued=1) as gateway:
        await gateway.ask()
        await gateway.ask()
        refused = await (await gateway.ask())
        assert (refused.status, refused.error["code"]) == (503, "overloaded")
        assert refused.headers["retry-after"] == "1"


async def test_a_queue_timeout_refuses_with_retry_after() -> None:
    async with held(max_running=1, queue_timeout=0) as gateway:
        await gateway.ask()
        refused = await (await gateway.ask())
        assert (refused.status, refused.error["code"]) == (503, "overloaded")
        assert gateway.slots == (1, 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_disconnected_client_frees_its_slot(stream: bool) -> None:
    async with held(max_running=1) as gateway:
        leaves = asyncio.Event()
        first = await gateway.ask(leaves=leaves, stream=stream)
        second = await gateway.ask()
        leaves.set()
        await first
        await gateway.slots_become(1, 0)
        gateway.gate.open()
        assert (await second).status == 200


async def test_a_client_that_disconnects_in_the_queue_starts_no_run() -> None:
    async with held(max_running=1) as gateway:
        leaves = asyncio.Event()
        first = await gateway.ask()
        second = await gateway.ask(leaves=leaves)
        assert gateway.slots == (1, 1)
        leaves.set()
        assert (await second).status == 0
        assert gateway.slots == (1, 0)
        gateway.gate.open()
        assert (await first).status == 200
        assert len(gateway.app.gateway.runs.all()) == 1


async def test_a_stopped_run_releases_its_slot() -> None:
    async with held(max_running=1) as gateway:
        run = (await post(gateway.app, BODY, "/v1/runs")).json["id"]
        assert gateway.slots == (1, 0)
        stopped = await request(gateway.app, "POST", f"/v1/runs/{run}/stop")
        assert stopped.json["stop_reason"] == "stopped"
        assert gateway.slots == (0, 0)


async def test_a_failed_run_releases_its_slot() -> None:
    async with app_of(refuse(400), max_running=1) as app:
        for _ in range(3):
            assert (await post(app, BODY)).status == 400
        assert places_of(app) == (0, 0)


async def test_a_timed_out_run_releases_its_slot() -> None:
    async with held(max_running=1, run_timeout=0.01) as gateway:
        answer = await post(gateway.app, BODY)
        assert (answer.status, answer.error["code"]) == (504, "run_timeout")
        assert gateway.slots == (0, 0)


async def test_the_run_limit_of_one_model_does_not_affect_other_models() -> None:
    config = config_of(
        ModelConfig(name="m", target="scripted/m", max_running=1),
        limits=LimitsConfig(max_running=5),
    )
    async with held(config=config) as gateway:
        first = await gateway.ask()
        refused = await (await gateway.ask())
        assert (refused.status, refused.error["code"]) == (429, "too_many_runs")
        assert refused.headers["retry-after"] == "1"
        assert refused.error["type"] == "rate_limit_error"
        gateway.gate.open()
        assert (await first).status == 200


async def test_the_run_limit_of_one_key_does_not_affect_other_keys() -> None:
    other, other_hash = new_key()
    keys = (
        KeyConfig(name="web", hash=HASH, max_running=1),
        KeyConfig(name="app", hash=other_hash, max_running=1),
    )
    async with held(config=GatewayConfig(keys=keys)) as gateway:
        started = [await post(gateway.app, BODY, "/v1/runs", [bearer(key)]) for key in (KEY, other)]
        assert [answer.status for answer in started] == [202, 202]
        refused = await post(gateway.app, BODY, "/v1/runs", [bearer(KEY)])
        assert (refused.status, refused.error["code"]) == (429, "too_many_runs")
