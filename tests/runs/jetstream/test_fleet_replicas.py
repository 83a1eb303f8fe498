"""A log on a cluster of three NATS servers."""

from pathlib import Path

import pytest
from tests.support.nats_cluster import NatsCluster
from tests.support.sample_runs import ended_run

from windlass.runs.jetstream import JetStreamLog

pytestmark = pytest.mark.process


async def test_a_log_gets_the_replicas_that_are_asked_for_later(tmp_path: Path) -> None:
    async with NatsCluster(tmp_path) as cluster:
        alone = JetStreamLog(cluster.servers)
        await ended_run(alone)
        fleet = JetStreamLog(cluster.servers, replicas=3)
        assert [record.id for record in await fleet.list()] == ["run_1"]
        await cluster.whole()
        cluster.kill(await cluster.leader())
        assert [event.seq for event in await fleet.read("run_1")] == [1, 2, 3]
        await ended_run(fleet, "run_2")
        assert len(await fleet.list()) == 2
        await alone.aclose()
        await fleet.aclose()
