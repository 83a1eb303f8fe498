"""The gateway is killed, at any moment, again and again: no run is lost, and nothing is done twice.

`WINDLASS_CRASH_KILLS` says how often, and `WINDLASS_CRASH_SEED` repeats the choices of a drill that
has failed; what the processes make of their time is not repeated.
"""

import os
import random
import resource
from pathlib import Path

import pytest
from tests.crash.drill import Drill, client_session
from tests.crash.forks import Forks
from tests.crash.gateway_process import GatewayProcess
from tests.crash.judging import judged, report
from tests.crash.scenarios import model

from windlass.runs.sqlite import SQLiteLog
from windlass.testing import FakeOpenAI

KILLS = int(os.environ.get("WINDLASS_CRASH_KILLS", "10"))
SEED = int(os.environ.get("WINDLASS_CRASH_SEED", "0")) or random.randrange(1, 10**6)


async def drilled(home: Path, kills: int, fault_share: float) -> Drill:
    """Every run is as it should be afterwards, and the gateway has said nothing odd."""
    print(f"WINDLASS_CRASH_SEED={SEED}")
    file = home / "runs.db"
    async with FakeOpenAI(model) as upstream, Forks(home) as forks, client_session() as session:
        gateway = GatewayProcess(forks, upstream.base_url)
        drill = Drill([gateway], session, SEED, file=file, fault_share=fault_share)
        await drill.crash(kills)
        log = SQLiteLog(file)
        figures = await judged(drill, log, forks.ledgers)
        await log.aclose()
    print(report(drill, figures))
    odd = [line for line in gateway.said.read_text().splitlines() if "Traceback" in line]
    assert not odd, odd[0]
    return drill


@pytest.mark.timeout(60 + 20 * KILLS)
async def test_every_run_ends_rightly_however_often_the_gateway_is_killed(tmp_path: Path) -> None:
    await drilled(tmp_path, KILLS, 0.0)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
@pytest.mark.timeout(60 + 30 * KILLS)
async def test_every_run_ends_rightly_however_often_its_log_cannot_be_written(
    tmp_path: Path,
) -> None:
    drill = await drilled(tmp_path, KILLS // 2, 0.5)
    assert drill.faults["times that the disk was full"]
