"""Several gateways and workers, as processes on one NATS, and a drill that kills any of them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from tests.crash.drill import Drill
from tests.crash.forks import ForkedProcess, Forks
from tests.crash.gateway_process import GatewayProcess
from tests.crash.nats_cluster import NatsCluster

WORKER_TOOLS = Path(__file__).with_name("worker_tools.py")
REMOTE = ("look", "read", "pay", "book", "erase")
"""What workers have; the gateways have the rest."""
LOCAL_TOOLS = 'tools = ["sign", "launch"]\nsessions = ["drill"]\n'
RUNS = "nats = {servers}\nreplicas = {replicas}\n\n[workers]\nnats = {servers}"


class Fleet:
    """All of it, on NATS servers at these addresses."""

    def __init__(
        self,
        forks: Forks,
        base_url: str,
        servers: list[str],
        *,
        gateways: int = 3,
        workers: int = 3,
        replicas: int = 1,
    ) -> None:
        named = str(servers).replace("'", '"')
        runs = RUNS.format(servers=named, replicas=replicas)
        self.gateways = [
            GatewayProcess(forks, base_url, name=f"gateway{n}", tools=LOCAL_TOOLS, runs=runs)
            for n in range(gateways)
        ]
        addresses = [word for server in servers for word in ("--nats", server)]
        arguments = ["worker", "--tools", str(WORKER_TOOLS), "--session", "drill", *addresses]
        self.workers = [
            ForkedProcess(forks, f"worker{n}", arguments, b" serves ") for n in range(workers)
        ]

    def all(self) -> Sequence[ForkedProcess]:
        return [*self.gateways, *self.workers]


class FleetDrill(Drill):
    """Kills gateways and workers, tells them to end, and starts them again a little later.

    With a `cluster`, the server that leads the log is killed too.
    """

    stop_share = 0.05

    def __init__(
        self,
        fleet: Fleet,
        session: aiohttp.ClientSession,
        seed: int,
        cluster: NatsCluster | None = None,
        leader_share: float = 0.0,
    ) -> None:
        """`leader_share` of the kills are of the cluster's leader."""
        super().__init__(fleet.gateways, session, seed)
        self._fleet, self._cluster = fleet, cluster
        self._leader_share = leader_share
        self._down: set[str] = set()
        """Who was struck and is not back yet."""
        self._whole = asyncio.Event()
        """Set while all servers are there."""
        self._whole.set()

    async def _begin(self) -> None:
        processes = self._fleet.all()
        await asyncio.gather(*(each.start() for each in processes))
        await asyncio.gather(*(each.ready() for each in processes))

    async def _strike(self, moment: str) -> None:
        chance = self._chance.random()
        if self._cluster is not None and chance < self._leader_share:
            await self._kill_leader()
        elif chance < 0.5 + self._leader_share / 2:
            await self._strike_one(self._fleet.gateways, "gateway", order=0.1, spare=0)
        else:
            await self._strike_one(self._fleet.workers, "worker", order=0.4, spare=1)

    async def _finish(self) -> None:
        """People go on asking until the cluster is whole again."""
        await self._whole.wait()

    async def _kill_leader(self) -> None:
        """One server at a time: of three, two must be there."""
        assert self._cluster is not None
        await self._whole.wait()
        self._whole.clear()
        leader = await self._cluster.leader()
        self._cluster.kill(leader)
        self.kills["nats leader"] += 1
        self._tasks.create_task(self._bring_back(leader))

    async def _bring_back(self, server: int) -> None:
        assert self._cluster is not None
        await asyncio.sleep(self._chance.uniform(1.0, 8.0))
        await self._cluster.start(server)
        await self._cluster.whole()
        self._whole.set()

    async def _strike_one(
        self, some: Sequence[ForkedProcess], kind: str, *, order: float, spare: int
    ) -> None:
        """One of those that can be reached, of which so many are spared."""
        reachable = [each for each in some if each.name not in self._down]
        if len(reachable) <= spare:
            return
        victim = self._chance.choice(reachable)
        self._down.add(victim.name)
        if self._chance.random() < order:
            await victim.end()
            self.ends[kind] += 1
        else:
            await victim.kill()
            self.kills[kind] += 1
        self._tasks.create_task(self._return(victim, kind))

    async def _return(self, process: ForkedProcess, kind: str) -> None:
        """Sometimes it is killed while it starts, or takes up what was left."""
        await asyncio.sleep(self._chance.uniform(0.0, 1.5))
        await process.start()
        if self._chance.random() < 0.15:
            await asyncio.sleep(self._chance.uniform(0.0, 0.6))
            await process.kill()
            self.kills[f"{kind}, while it started"] += 1
            await process.start()
        await process.ready()
        self._down.discard(process.name)
        await self._adopt()
