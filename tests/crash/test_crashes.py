"""Gateways are killed and paused, disks fill, programs fork: no run is lost and no call doubled.

`WINDLASS_CRASH_KILLS` sets how often, and `WINDLASS_CRASH_SEED` repeats the choices of a drill that
has failed, but not the timing of its processes.
"""

import contextlib
import os
import random
import resource
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import aiohttp
import pytest
from tests.crash.drill import Drill, client_session
from tests.crash.fork_reports import forked, judged_forks
from tests.crash.forks import Forks
from tests.crash.judging import formatted, judged, report
from tests.crash.pauses import PauseDrill
from tests.crash.scenarios import model
from tests.crash.siblings import SiblingDrill
from tests.support.gateway_process import GatewayProcess
from tests.support.thoroughness import WHOLE

from windlass.runs.sqlite import SQLiteLog
from windlass.testing import FakeOpenAI

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("WINDLASS_CRASH_KILLS", 10 if WHOLE else 3))
LONG_SHARE = 0.1 if KILLS > 50 else 0.0
"""Of the pauses that are longer than SQLite waits for a lock: in long drills only."""
SEED = int(os.environ.get("WINDLASS_CRASH_SEED", "0")) or random.randrange(1, 10**6)


def plain(
    fault_share: float,
    gateways: Sequence[GatewayProcess],
    session: aiohttp.ClientSession,
    file: Path,
) -> Drill:
    return Drill(gateways, session, SEED, file=file, fault_share=fault_share)


def paused(
    gateways: Sequence[GatewayProcess], session: aiohttp.ClientSession, _file: Path
) -> Drill:
    return PauseDrill(gateways, session, SEED, LONG_SHARE)


def with_siblings(
    gateways: Sequence[GatewayProcess], session: aiohttp.ClientSession, _file: Path
) -> Drill:
    return SiblingDrill(gateways, session, SEED)


def is_intact(file: Path) -> bool:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


Drilling: TypeAlias = Callable[[Sequence[GatewayProcess], aiohttp.ClientSession, Path], Drill]


async def drilled(
    home: Path, kills: int, make: Drilling, gateways: int = 1, processes: int = 1
) -> Drill:
    """Every run has the right end, and the gateways have logged no errors."""
    print(f"WINDLASS_CRASH_SEED={SEED}")
    file = home / "runs.db"
    async with FakeOpenAI(model) as upstream, Forks(home) as forks, client_session() as session:
        started = [
            GatewayProcess(forks, upstream.base_url, name=f"gateway{n}", processes=processes)
            for n in range(gateways)
        ]
        drill = make(started, session, file)
        await drill.crash(kills)
        log = SQLiteLog(file)
        figures, faults = await judged(drill, log, forks.ledgers)
        await log.aclose()
    print(report(drill, figures))
    assert not faults, faults
    assert is_intact(file)
    assert not [odd for gateway in started for odd in gateway.tracebacks()]
    return drill


@pytest.mark.timeout(300 + 20 * KILLS)
async def test_every_run_ends_correctly_when_the_gateway_is_killed(tmp_path: Path) -> None:
    await drilled(tmp_path, KILLS, partial(plain, 0.0))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
@pytest.mark.timeout(300 + 30 * KILLS)
async def test_every_run_ends_correctly_when_its_log_cannot_be_written(
    tmp_path: Path,
) -> None:
    drill = await drilled(tmp_path, KILLS // 2, partial(plain, 0.5))
    assert drill.faults["times that the disk was full"]


@pytest.mark.timeout(300 + 30 * KILLS)
async def test_every_run_ends_correctly_when_one_of_two_gateways_is_paused(
    tmp_path: Path,
) -> None:
    drill = await drilled(tmp_path, KILLS // 3, paused, gateways=2)
    assert drill.pauses


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
@pytest.mark.timeout(300 + 20 * KILLS)
async def test_every_run_ends_correctly_when_a_process_of_the_gateway_is_killed(
    tmp_path: Path,
) -> None:
    await drilled(tmp_path, KILLS // 2, with_siblings, processes=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.timeout(300 + 10 * KILLS)
async def test_no_run_is_lost_when_its_program_forks(tmp_path: Path) -> None:
    print(f"WINDLASS_CRASH_SEED={SEED}")
    file = tmp_path / "runs.db"
    async with FakeOpenAI(model) as upstream:
        said = await forked(tmp_path, file, upstream.base_url, max(3, KILLS // 3), SEED)
        figures, faults = await judged_forks(file, tmp_path / "ledgers", said)
    print(formatted(figures))
    assert not faults, faults
    assert is_intact(file)
