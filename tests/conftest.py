"""What the loop's tests share: clients over a scripted model, and small tools."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from windlass import AsyncClient, RunEvent
from windlass.testing import ScriptedModel

MakeClient = Callable[..., AsyncClient]


@pytest.fixture
async def client_of() -> AsyncIterator[MakeClient]:
    """Clients over scripts: `client_of([call("f"), "done"], max_rounds=3)`, closed at the end."""
    clients: list[AsyncClient] = []

    def make(script: Any, **options: Any) -> AsyncClient:
        client = AsyncClient(ScriptedModel(script), **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


def requests_of(client: AsyncClient) -> list[Any]:
    """The requests that the client's model was sent."""
    assert isinstance(client.model, ScriptedModel)
    return client.model.requests


async def events_of(client: AsyncClient, prompt: str = "go", **options: Any) -> list[RunEvent]:
    """All events of a streamed run, whatever its end."""
    run = await client.start(prompt, **options)
    return [event async for event in client.subscribe(run.id)]
