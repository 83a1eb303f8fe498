"""What the loop's tests share: clients over a scripted model, and small tools."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.plain_text import PlainTextModel

from windlass import AsyncClient, RunEvent
from windlass.testing import ScriptedModel

MakeClient = Callable[..., AsyncClient]

MODELS = {"native": ScriptedModel, "emulated": PlainTextModel}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The loop keeps its word over both kinds of model. `native` marks what only one kind has."""
    if "calling" in metafunc.fixturenames:
        only_native = metafunc.definition.get_closest_marker("native") is not None
        metafunc.parametrize("calling", ["native"] if only_native else list(MODELS))


@pytest.fixture
async def client_of(calling: str) -> AsyncIterator[MakeClient]:
    """Clients over scripts: `client_of([call("f"), "done"], max_rounds=3)`, closed at the end."""
    clients: list[AsyncClient] = []

    def make(script: Any, **options: Any) -> AsyncClient:
        client = AsyncClient(MODELS[calling](script), mode="native", **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


def requests_of(client: AsyncClient) -> list[Any]:
    """The requests that the loop sent to the client's model."""
    assert isinstance(client.model, ScriptedModel | PlainTextModel)
    return client.model.requests


async def events_of(client: AsyncClient, prompt: str = "go", **options: Any) -> list[RunEvent]:
    """All events of a streamed run, whatever its end."""
    run = await client.start(prompt, **options)
    return [event async for event in client.subscribe(run.id)]
