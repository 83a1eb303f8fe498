"""Fixtures of the tests of logs: a log of each kind, and a second reader of the same runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.sample_runs import Clock, count, pay, weather

from windlass import AsyncClient
from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.memory import MemoryRunLog
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import ScriptedModel

MakeClient = Callable[..., AsyncClient]


class Logs(NamedTuple):
    """`log` writes; `other` reads the same runs as another process would, if that kind can."""

    log: RunLog
    other: RunLog


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", pytest.param("jetstream", marks=pytest.mark.process)])
async def logs(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Logs]:
    """Runs the test with every kind of log."""
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                log = other = MemoryRunLog(clock)
            case "sqlite":
                path = tmp_path / "runs.db"
                log, other = SQLiteLog(path, clock=clock), SQLiteLog(path, clock=clock)
            case _:
                url = (await stack.enter_async_context(NatsServer())).url
                log, other = JetStreamLog(url, clock=clock), JetStreamLog(url, clock=clock)
        yield Logs(log, other)
        await log.aclose()
        await other.aclose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SQLiteLog]:
    log = SQLiteLog(path)
    yield log
    await log.aclose()


@pytest.fixture
async def client_on(path: Path) -> AsyncIterator[MakeClient]:
    """Clients on one file, each with its own script."""
    clients: list[AsyncClient] = []

    def make(script: Any = (), name: str = "scripted/model", **options: Any) -> AsyncClient:
        model = ScriptedModel(script, name)
        tools = options.pop("tools", [weather, pay, count])
        clients.append(AsyncClient(model, tools=tools, log=path, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
