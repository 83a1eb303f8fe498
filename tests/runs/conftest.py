"""What the tests of logs share: a log of each kind, and a second way into the same runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.runs.sample_runs import Clock

from windlass.runs.memory import MemoryRunLog
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog


class Logs(NamedTuple):
    """`log` writes; `other` looks at the same runs from elsewhere, if that kind can."""

    log: RunLog
    other: RunLog


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
async def logs(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Logs]:
    """Every kind of log keeps the same word."""
    if request.param == "memory":
        memory = MemoryRunLog(clock)
        yield Logs(memory, memory)
        await memory.aclose()
        return
    path = tmp_path / "runs.db"
    log, other = SQLiteLog(path, clock=clock), SQLiteLog(path, clock=clock)
    yield Logs(log, other)
    await log.aclose()
    await other.aclose()
