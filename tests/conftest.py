"""What the loop's tests share: clients over a scripted model, and small tools."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.plain_text import PlainTextModel
from tests.thoroughness import WHOLE

from windlass import AsyncClient, RunEvent
from windlass.testing import ScriptedModel

MakeClient = Callable[..., AsyncClient]

# A machine that is busy is no reason for a test to fail.
settings.register_profile(
    "windlass",
    max_examples=200 if WHOLE else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("windlass")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole(where): runs with WHOLE=1; where it holds otherwise")
    config.addinivalue_line("markers", "on_page: the AI Studio page carries it in every run")
    config.addinivalue_line("markers", "no_page(reason): what the AI Studio page cannot carry")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What other tests promise too, in a longer way, is left to a whole run."""
    left_out = [] if WHOLE else [item for item in items if item.get_closest_marker("whole")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("whole") is None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The loop keeps its word over every kind of model. `native` marks what text cannot carry."""
    if "calling" not in metafunc.fixturenames:
        return
    kinds = ["native"]
    if metafunc.definition.get_closest_marker("native") is None:
        kinds.append("emulated")
    if _is_on_page(metafunc.definition):
        kinds.append("page")
    metafunc.parametrize("calling", kinds)


def _is_on_page(test: pytest.Item) -> bool:
    if WHOLE or os.environ.get("WINDLASS_TEST_PAGE") == "all":
        return test.get_closest_marker("no_page") is None
    return test.get_closest_marker("on_page") is not None


@pytest.fixture(scope="session")
def stage() -> Iterator[Any]:
    """The AI Studio page, in a browser that starts with the first test on it."""
    from tests.on_page import BrowserThread, Stage

    with BrowserThread() as thread, Stage(thread) as stage:
        yield stage


@pytest.fixture
def model_of(calling: str, request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A model that plays a script: by its API, in plain text, or on the AI Studio page."""
    match calling:
        case "native":
            return ScriptedModel
        case "emulated":
            return PlainTextModel
        case _:
            return request.getfixturevalue("stage").play


@pytest.fixture
async def client_of(model_of: Callable[[Any], Any]) -> AsyncIterator[MakeClient]:
    """Clients over scripts: `client_of([call("f"), "done"], max_rounds=3)`, closed at the end."""
    clients: list[AsyncClient] = []

    def make(script: Any, **options: Any) -> AsyncClient:
        client = AsyncClient(model_of(script), mode="native", **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


def requests_of(client: AsyncClient) -> list[Any]:
    """The requests that the loop sent to the client's model."""
    model: Any = client.model
    return model.requests


async def events_of(client: AsyncClient, prompt: str = "go", **options: Any) -> list[RunEvent]:
    """All events of a streamed run, whatever its end."""
    run = await client.start(prompt, **options)
    return [event async for event in client.subscribe(run.id)]
