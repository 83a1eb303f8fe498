"""A local model that is not ready yet, as clients see it."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asgi import post, request
from tests.support.talking import asking

from windlass.events import ModelEvent
from windlass.gateway import App, GatewayConfig, create_app
from windlass.gateway.config import ServerConfig
from windlass.model import ModelRequest, Preparation
from windlass.testing import ScriptedModel
from windlass.wires.chat.write_events import ChunkEncoder


class SlowModel:
    """A model that waits for `ready` before it answers, as the embedded one does."""

    name = "local/slow"
    function_calling = False

    def __init__(self) -> None:
        self.ready, self.asked = asyncio.Event(), asyncio.Event()
        self.stage = Preparation("loading")
        self._model = ScriptedModel(["Hello."])

    @property
    def preparation(self) -> Preparation | None:
        return None if self.ready.is_set() else self.stage

    async def warm(self, *requests: ModelRequest) -> None:
        await self.ready.wait()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.asked.set()
        await self.ready.wait()
        async with self._model.stream(request) as events:
            yield events

    async def aclose(self) -> None:
        pass


@pytest.fixture
def slow() -> SlowModel:
    return SlowModel()


@pytest.fixture
async def app(slow: SlowModel) -> AsyncIterator[App]:
    config = GatewayConfig(server=ServerConfig(heartbeat=3600))
    app = create_app(config, models={"slow": slow}, tools=[])
    yield app
    await app.gateway.aclose()


async def status_of(app: App) -> tuple[str, int | None]:
    about: Any = (await request(app, "GET", "/v1/models/slow")).json["windlass"]
    return about["status"], about["ready_in"]


async def test_the_list_of_models_says_when_a_model_will_be_ready(
    app: App, slow: SlowModel
) -> None:
    assert await status_of(app) == ("loading", None)
    slow.stage = Preparation("reading", 12)
    assert await status_of(app) == ("reading", 12)
    slow.ready.set()
    assert await status_of(app) == ("ready", None)


async def statuses(app: App, run_id: str) -> list[str]:
    answer = await request(app, "GET", f"/v1/runs/{run_id}/events")
    lines = answer.body.decode().splitlines()
    return [data for event, data in itertools.pairwise(lines) if event == "event: status"]


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (Preparation("loading"), "The model is loading..."),
        (
            Preparation("reading", 12),
            "The model is reading its instructions and tools (about 12 s left)...",
        ),
    ],
)
async def test_a_run_that_waits_for_its_model_has_a_status(
    app: App, slow: SlowModel, stage: Preparation, text: str
) -> None:
    slow.stage = stage
    started = await post(app, asking("Hi", model="slow"), "/v1/runs")
    await slow.asked.wait()
    slow.ready.set()
    [status] = await statuses(app, started.json["id"])
    assert text in status


async def test_a_run_of_a_ready_model_has_no_status(app: App, slow: SlowModel) -> None:
    slow.ready.set()
    started = await post(app, asking("Hi", model="slow"), "/v1/runs")
    assert await statuses(app, started.json["id"]) == []


async def test_a_client_without_a_stream_learns_when_to_retry(app: App, slow: SlowModel) -> None:
    slow.stage = Preparation("reading", 42)
    refused = await post(app, asking("Hi", model="slow"))
    assert refused.status == 503
    assert refused.headers["retry-after"] == "42"
    error = refused.json["error"]
    assert error["code"] == "model_not_ready"
    assert error["message"] == (
        "The model is reading its instructions and tools. Retry in 42 s, or stream the answer."
    )


@pytest.mark.parametrize("left", [None, 10])
async def test_a_client_without_a_stream_waits_if_the_wait_is_short_or_unknown(
    app: App, slow: SlowModel, left: int | None
) -> None:
    slow.stage = Preparation("loading", left)
    answering = asyncio.create_task(post(app, asking("Hi", model="slow")))
    async with asyncio.timeout(60):
        await slow.asked.wait()
    slow.ready.set()
    assert (await answering).json["choices"][0]["message"]["content"] == "Hello."


async def test_a_stream_begins_while_its_model_is_not_ready(
    app: App, slow: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.stage = Preparation("reading", 42)

    def heartbeat(_: ChunkEncoder) -> bytes:
        slow.ready.set()
        return b": the model is not ready\n\n"

    monkeypatch.setattr(ChunkEncoder, "heartbeat", property(heartbeat))
    answer = await post(app, asking("Hi", model="slow", stream=True))
    assert answer.status == 200
    begun, _, rest = answer.body.partition(b": the model is not ready\n\n")
    assert b"assistant" in begun
    assert b"Hello." in rest
