"""Several gateways and workers, as processes on one NATS, and a drill that kills any of them."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import aiohttp
from tests.crash.drill import STOP_WHILE_GONE, Drill
from tests.crash.forks import ForkedProcess, Forks
from tests.support.gateway_process import GatewayProcess
from tests.support.nats_cluster import NatsCluster, full_stream

from windlass.messaging.embedded import NatsServer

WORKER_TOOLS = Path(__file__).with_name("worker_tools.py")
REMOTE = ("look", "read", "pay", "book", "erase")
"""The tools of the workers; the gateways have the rest."""
LOCAL_TOOLS = 'tools = ["sign", "launch"]\nsessions = ["drill"]\n'
PAUSE_SECONDS = (4.0, 8.0)
"""Longer than a gateway's lease (3 s), and for some longer than the silence of a lost worker."""
NATS_PAUSE_SECONDS = (1.0, 6.0)
FULL_SECONDS = (0.5, 4.0)
LONG_SECONDS = (31.0, 34.0)
"""Longer than a write is tried again."""
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
        self.servers = servers
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
    """Kills and pauses gateways, workers and NATS, ends them in order, and fills the log's stream.

    With a `cluster`, the server that leads the log is killed too.
    """

    stop_share = 0.05
    strikes: ClassVar[dict[str, int]] = {
        "gateway": 30,
        "worker": 30,
        "pause gateway": 10,
        "pause worker": 10,
        "pause nats": 5,
        "full stream": 5,
    }
    """The relative frequency of each."""

    def __init__(
        self,
        fleet: Fleet,
        session: aiohttp.ClientSession,
        seed: int,
        nats: NatsServer | NatsCluster,
        *,
        leader_share: float = 0.0,
        long_share: float = 0.0,
    ) -> None:
        """`leader_share` of the strikes kill the cluster's leader; for `long_share` of the times
        that the stream is full, it is so for longer than writes are tried again."""
        super().__init__(fleet.gateways, session, seed)
        self._fleet, self._nats = fleet, nats
        self._cluster = nats if isinstance(nats, NatsCluster) else None
        self._leader_share, self._long_share = leader_share, long_share
        self._may_fail = long_share > 0
        others = ["pause gateway", "pause worker", "pause nats", "full stream"]
        self._agenda = ["leader", "pause nats"] if self._cluster is not None else others
        self._chance.shuffle(self._agenda)
        self._down: set[str] = set()
        """Processes that were killed or paused, and are not back yet."""
        self._whole = asyncio.Event()
        """Set while all servers are there."""
        self._whole.set()

    async def _begin(self) -> None:
        processes = self._fleet.all()
        await asyncio.gather(*(each.start() for each in processes))
        await asyncio.gather(*(each.ready() for each in processes))

    async def _strike(self, moment: str) -> None:
        match self._next_strike():
            case "leader":
                await self._kill_leader()
            case "gateway":
                await self._strike_one(self._fleet.gateways, "gateway", order=0.1, spare=0)
                self._stop_some()
            case "worker":
                await self._strike_one(self._fleet.workers, "worker", order=0.4, spare=1)
            case "pause gateway":
                await self._pause_one(self._fleet.gateways, "gateway")
            case "pause worker":
                await self._pause_one(self._fleet.workers, "worker")
            case "pause nats":
                await self._pause_nats()
            case _:
                await self._fill_stream()

    def _next_strike(self) -> str:
        if self._agenda:
            return self._agenda.pop()
        if self._chance.random() < self._leader_share:
            return "leader"
        [strike] = self._chance.choices([*self.strikes], [*self.strikes.values()])
        return strike

    def _stop_some(self) -> None:
        """Stops for runs whose gateway may just have been killed: they wait for the next one."""
        for run_id, readers in self.readers.items():
            going = run_id not in self.stops and not any(reader.ended for reader in readers)
            if going and self._chance.random() < STOP_WHILE_GONE:
                self.stops.add(run_id)
                self._tasks.create_task(self._say(run_id, "stop", {}))

    async def _finish(self) -> None:
        """Requests continue until the cluster is complete again."""
        await self._whole.wait()

    async def _kill_leader(self) -> None:
        """One server at a time: two of three must be running."""
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

    async def _pause_one(self, some: Sequence[ForkedProcess], kind: str) -> None:
        """Long enough for the others to take over what it has. One of its kind is spared."""
        reachable = [each for each in some if each.name not in self._down]
        if len(reachable) <= 1:
            return
        victim = self._chance.choice(reachable)
        self._down.add(victim.name)
        await victim.pause()
        self.pauses[kind] += 1
        self._tasks.create_task(self._resume(victim, kind))

    async def _resume(self, process: ForkedProcess, kind: str) -> None:
        """Some processes are killed instead."""
        await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))
        if self._chance.random() < 0.2:
            await process.kill()
            self.kills[f"{kind}, paused"] += 1
            await self._return(process, kind)
            return
        await process.resume()
        self._down.discard(process.name)
        await self._adopt()

    async def _pause_nats(self) -> None:
        """The one server, or the leader of the cluster."""
        await self._whole.wait()
        if self._cluster is not None:
            pid = self._cluster.process_id(await self._cluster.leader())
        else:
            assert isinstance(self._nats, NatsServer)
            pid = self._nats.process_id
        self.pauses["nats"] += 1
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._chance.uniform(*NATS_PAUSE_SECONDS))
        finally:
            os.kill(pid, signal.SIGCONT)

    async def _fill_stream(self) -> None:
        """For a while the stream of events takes no more bytes."""
        long = self._chance.random() < self._long_share
        self.faults["times that the stream was full"] += 1
        self.faults["for longer than writes are tried again"] += long
        async with full_stream(self._fleet.servers):
            await asyncio.sleep(self._chance.uniform(*(LONG_SECONDS if long else FULL_SECONDS)))
        self._tasks.create_task(self._adopt())

    async def _strike_one(
        self, some: Sequence[ForkedProcess], kind: str, *, order: float, spare: int
    ) -> None:
        """One of the reachable processes; this many are never chosen."""
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
        """Sometimes it is killed while it starts, or while it resumes runs."""
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
