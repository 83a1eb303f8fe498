"""What the loop's tests share: clients over a scripted model, and small tools."""

import contextlib
import functools
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import HealthCheck, settings
from tests.support import needs, scheduling
from tests.support.on_wires import TARGETS as WIRES
from tests.support.on_wires import WireStage
from tests.support.plain_text import PlainTextModel
from tests.support.thoroughness import QUICK, WHOLE, examples

from windlass import AsyncClient, RunEvent
from windlass.models.local import engine
from windlass.testing import ScriptedModel

MakeClient = Callable[..., AsyncClient]

pytest_plugins = ["tests.support.forking", "tests.support.nats_servers"]

# A test must not fail because the machine is busy.
settings.register_profile(
    "windlass",
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("windlass")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts a job in the background with SIGINT ignored, and every child inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "process: starts a process, see tests/support/needs.py")
    config.addinivalue_line("markers", "weights: loads a model of this machine")
    config.addinivalue_line("markers", "measures: measures time or memory over large input")
    config.addinivalue_line("markers", "sweep: one behaviour over many combinations or inputs")
    config.addinivalue_line("markers", "sdk: imports an SDK of a provider, which takes seconds")
    config.addinivalue_line("markers", "whole(where): runs with WHOLE=1; where it holds otherwise")
    config.addinivalue_line("markers", "on_page: the AI Studio page and the wires, in every run")
    config.addinivalue_line("markers", "no_page(reason): what the AI Studio page cannot carry")
    config.addinivalue_line("markers", "no_wire(reason, *wires): what these wires cannot carry")
    if QUICK:
        config.pluginmanager.register(needs.Guard())
    # The SDKs' clients share one TLS context: to read the certificates takes 30 ms.
    httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)
    engine.available_cores = lambda: 1  # on busy cores, two threads mostly wait for each other
    gc.disable()  # until all tests are collected: nearly everything that is imported stays


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves files without quick tests out of a quick run."""
    is_file = QUICK and collection_path.suffix == ".py"
    return True if is_file and not needs.has_quick_tests(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves long forms of other tests to a whole run, and to a quick one what needs little."""
    needs.mark_by_fixtures(items)
    selected = [item for item in items if _is_selected(item)]
    if len(selected) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not _is_selected(item)])
        items[:] = selected
    if config.option.forks:
        scheduling.order_files(items)


def _is_selected(item: pytest.Item) -> bool:
    if _is_left_out(item) or (not WHOLE and item.get_closest_marker("whole")):
        return False
    return not QUICK or needs.is_quick(item)


def pytest_collection_finish() -> None:
    """Freezes all imported objects, so that the garbage collector does not visit them again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the loop's tests over every kind of model. `native` marks tests that need native
    calls."""
    if "calling" not in metafunc.fixturenames:
        return
    kinds: list[Any] = ["native"]
    if metafunc.definition.get_closest_marker("native") is None:
        kinds.append("emulated")
    if _is_on_page(metafunc.definition):
        kinds.append(pytest.param("page", marks=pytest.mark.process))
    if _is_on_wires(metafunc.definition):
        kinds += WIRES
    metafunc.parametrize("calling", kinds)


def _is_on_page(test: pytest.Item) -> bool:
    if WHOLE or os.environ.get("WINDLASS_TEST_PAGE") == "all":
        return test.get_closest_marker("no_page") is None
    return test.get_closest_marker("on_page") is not None


def _is_on_wires(test: pytest.Item) -> bool:
    return WHOLE or test.get_closest_marker("on_page") is not None


def _is_left_out(item: pytest.Item) -> bool:
    """Whether the test runs over a wire that cannot carry it."""
    calling = getattr(getattr(item, "callspec", None), "params", {}).get("calling")
    marks = item.iter_markers("no_wire") if calling in WIRES else ()
    return any(calling in (mark.args[1:] or WIRES) for mark in marks)


@pytest.fixture(scope="session")
def wire_stages() -> Iterator[Callable[[str], WireStage]]:
    """The fake service of each wire, which starts with the first test on it."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def stage_of(wire: str) -> WireStage:
            return stack.enter_context(WireStage(wire))

        yield stage_of


@pytest.fixture(scope="session")
def stage() -> Iterator[Any]:
    """The AI Studio page, in a browser that starts with the first test on it."""
    from tests.support.on_page import BrowserThread, Stage

    with BrowserThread() as thread, Stage(thread) as stage:
        yield stage


@pytest.fixture(scope="module")
def page_stage(stage: Any) -> Iterator[Any]:
    """The same for the tests of one file, after which its pages are empty."""
    yield stage
    stage.rest()


@pytest.fixture
def model_of(calling: str, request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A model that plays a script: in process, in plain text, on a page, or over a wire."""
    match calling:
        case "native":
            return ScriptedModel
        case "emulated":
            return PlainTextModel
        case "page":
            return request.getfixturevalue("page_stage").play
        case _:
            return request.getfixturevalue("wire_stages")(calling).play


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the figures that tests have recorded as the property `conformance`."""
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "conformance" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
