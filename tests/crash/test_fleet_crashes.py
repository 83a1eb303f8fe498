"""Gateways, workers and NATS servers of a fleet are killed and paused under load, at any moment.

`WINDLASS_FLEET_KILLS` sets how often, and `WINDLASS_CRASH_SEED` repeats the choices of a drill that
has failed, but not the timing of its processes.
"""

import os
import random
from pathlib import Path

import pytest
from tests.crash.drill import client_session
from tests.crash.fleet import REMOTE, Fleet, FleetDrill
from tests.crash.forks import Forks
from tests.crash.judging import judged, report
from tests.crash.scenarios import model
from tests.support.nats_cluster import NatsCluster
from tests.support.thoroughness import WHOLE

from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream import JetStreamLog
from windlass.testing import FakeOpenAI

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("WINDLASS_FLEET_KILLS", 10 if WHOLE else 2))
CLUSTER_KILLS = int(os.environ.get("WINDLASS_CLUSTER_KILLS", "1"))
"""A single kill hits the leader; of many kills, some do."""
LONG_SHARE = 0.2 if KILLS > 50 else 0.0
"""Of the times that the stream is full for longer than writes are tried again: in long drills."""
SEED = int(os.environ.get("WINDLASS_CRASH_SEED", "0")) or random.randrange(1, 10**6)


@pytest.mark.timeout(300 + 20 * KILLS)
async def test_a_fleet_loses_no_run_and_no_call_when_its_processes_are_killed(
    tmp_path: Path,
) -> None:
    print(f"WINDLASS_CRASH_SEED={SEED}")
    async with (
        NatsServer() as server,
        FakeOpenAI(model) as upstream,
        Forks(tmp_path) as forks,
        client_session() as session,
    ):
        fleet = Fleet(forks, upstream.base_url, [server.url])
        drill = FleetDrill(fleet, session, SEED, server, long_share=LONG_SHARE)
        await drill.crash(KILLS)
        log = JetStreamLog(server.url)
        figures, faults = await judged(drill, log, forks.ledgers, REMOTE, takeovers=True)
        await log.aclose()
    print(report(drill, figures))
    assert not faults, faults
    assert not [odd for process in fleet.all() for odd in process.tracebacks()]


@pytest.mark.whole(
    "the drill above, and tests/runs/jetstream/test_fleet_replicas.py, which kills a leader"
)
@pytest.mark.timeout(300 + 20 * CLUSTER_KILLS)
async def test_a_cluster_whose_leader_is_killed_loses_no_run_and_no_call(tmp_path: Path) -> None:
    print(f"WINDLASS_CRASH_SEED={SEED}")
    async with (
        NatsCluster(tmp_path) as cluster,
        FakeOpenAI(model) as upstream,
        Forks(tmp_path) as forks,
        client_session() as session,
    ):
        fleet = Fleet(forks, upstream.base_url, cluster.servers, gateways=2, workers=2, replicas=3)
        drill = FleetDrill(fleet, session, SEED, cluster, leader_share=CLUSTER_KILLS**-0.5)
        await drill.crash(CLUSTER_KILLS)
        assert drill.kills["nats leader"]
        log = JetStreamLog(cluster.servers, replicas=3)
        figures, faults = await judged(drill, log, forks.ledgers, REMOTE, takeovers=True)
        await log.aclose()
    print(report(drill, figures))
    assert not faults, faults
    assert not [odd for process in fleet.all() for odd in process.tracebacks()]
