"""Starts runs, follows them and decides calls, while processes are killed again and again."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from tests.crash.readers import LOST, Doors, Event, Reader
from tests.crash.scenarios import KINDS, prompt_of
from tests.support.gateway_process import GatewayProcess

from windlass.runs.records import Order
from windlass.runs.sqlite import SQLiteLog

SMALLEST_LIMIT = 512 * 1024
"""The size limit of a full disk in bytes. Other files, such as ledgers, stay below it."""
FAULT_SECONDS = (0.2, 2.5)
"""How long the disk is full each time."""
RECOVERY_SECONDS = 30.0
"""How long a gateway may take to notice that it has space again."""
MOMENTS = (
    "run_started",
    "run_resumed",
    "round_started",
    "round_restarted",
    "text_delta",
    "tool_call_ended",
    "turn_ended",
    "tool_run_started",
    "tool_run_ended",
    "approval_requested",
    "approval_resolved",
    "run_ended",
)
"""A process is killed right after one of these events, or a little later."""


STOP_AT_RESUME = 0.1
"""The share of runs that are stopped while they are resumed."""
STOP_WHILE_GONE = 0.05
"""The share of open runs that are stopped through the log while no gateway is running."""


def check(response: aiohttp.ClientResponse, *expected: int) -> None:
    """Raises `ConnectionError` for a gateway that reports its shutdown."""
    if response.status == 503:
        raise ConnectionError("shutting down")
    assert response.status in expected, response


class Drill:
    """Calls `crash` until there were this many kills. Then every run has ended and can be judged.

    This drill has a single gateway.
    """

    stop_share = 0.02
    """The share of rounds that are stopped at their start."""

    def __init__(
        self,
        gateways: Sequence[GatewayProcess],
        session: aiohttp.ClientSession,
        seed: int,
        *,
        file: Path | None = None,
        fault_share: float = 0.0,
    ) -> None:
        """`file` is that of the runs; `fault_share` of the strikes keep it from being written."""
        self.readers: dict[str, list[Reader]] = {}
        self.decisions: dict[str, bool] = {}
        """The decision about each call that waited for approval, by call key."""
        self.stops: set[str] = set()
        """The runs that a client has stopped."""
        self.stored_stops: dict[str, int] = {}
        """Runs whose stop was stored while no gateway was running, and their number of events
        then."""
        self.faults = Counter[str]()
        """How often the log could not be written, and how clients noticed it."""
        self.kills = Counter[str]()
        self.pauses = Counter[str]()
        """How often a process was paused with SIGSTOP, by kind of process."""
        self.ends = Counter[str]()
        """How often a process was terminated instead."""
        self._gateways, self._doors = gateways, Doors(gateways, seed)
        self._session, self._seed = session, seed
        self._chance = random.Random(seed)
        self._file, self._fault_share = file, fault_share
        self._may_fail = fault_share > 0
        """Whether requests and streams may fail though their gateway was never paused."""
        self._asked = 0
        self._agenda: list[str] = ["fault"] if fault_share else []
        """Events that even the shortest drill has: they come first."""
        self._enough = False
        self._events = Counter[str]()
        self._moved = asyncio.Event()
        self._tasks = asyncio.TaskGroup()

    async def crash(self, kills: int, together: int = 8) -> None:
        """Keeps `together` runs active at any time."""
        await self._begin()
        async with self._tasks:
            for _ in range(together):
                self._tasks.create_task(self._keep_asking())
            while self.kills.total() < kills or self._agenda:
                await self._strike(await self._moment())
            await self._finish()
            await self._adopt()
            self._enough = True

    async def _begin(self) -> None:
        for gateway in self._gateways:
            await gateway.start()
            await gateway.ready()

    async def _strike(self, moment: str) -> None:
        [gateway] = self._gateways
        if self._agenda or self._chance.random() < self._fault_share:
            self._agenda.clear()
            await self._fill_disk(gateway)
            return
        await self._kill_or_end(gateway, moment)
        await self._stop_while_gone()
        await self._start_again(gateway)

    async def _kill_or_end(self, gateway: GatewayProcess, moment: str) -> None:
        if self._chance.random() < 0.1:
            await gateway.end()
            self.ends["gateway"] += 1
        else:
            await gateway.kill()
            self.kills[moment] += 1

    async def _fill_disk(self, gateway: GatewayProcess) -> None:
        """For a while the journal may not grow. Sometimes the gateway is killed meanwhile."""
        assert self._file is not None
        await gateway.limit_files(max(_journal_size(self._file), SMALLEST_LIMIT))
        self.faults["times that the disk was full"] += 1
        await asyncio.sleep(self._chance.uniform(*FAULT_SECONDS))
        url = f"{gateway.url}/health/ready"
        async with self._session.get(url) as response:
            said = (await response.json())["status"]
        if response.status == 503:
            assert said.startswith("cannot write run log: "), said
            self.faults["times that the gateway said so"] += 1
        if self._chance.random() < 0.2:
            await gateway.kill()
            self.kills["full disk"] += 1
            await self._stop_while_gone()
            await self._start_again(gateway)
            return
        await gateway.limit_files(-1)
        async with asyncio.timeout(RECOVERY_SECONDS):
            while True:
                async with self._session.get(url) as response:
                    if response.status == 200:
                        break
                await asyncio.sleep(0.1)
        self._tasks.create_task(self._adopt())

    async def _stop_while_gone(self) -> None:
        """Stops that wait in the log for the gateway that resumes the runs."""
        if self._file is None:
            return
        log = SQLiteLog(self._file)
        for record in await log.list(open=True):
            if self._chance.random() < STOP_WHILE_GONE and record.id not in self.stops:
                self.stops.add(record.id)
                self.stored_stops[record.id] = record.events
                await log.order(record.id, Order(kind="stop"))
        await log.aclose()

    async def _finish(self) -> None:
        """Restarts everything that is down."""

    async def _start_again(self, gateway: GatewayProcess) -> None:
        """Sometimes it is killed before it listens, or while it resumes runs."""
        await gateway.start()
        if self._chance.random() < 0.15:
            await asyncio.sleep(self._chance.uniform(0.0, 0.6))
            await gateway.kill()
            self.kills["start"] += 1
            await gateway.start()
        await gateway.ready()
        self._tasks.create_task(self._adopt())

    async def _moment(self) -> str:
        """Waits for the next point in time to kill at: nothing is synchronised by its sleep."""
        kind = self._chance.choice(MOMENTS)
        seen = self._events.copy()
        count, most = self._chance.randint(1, 6), self._chance.randint(50, 400)
        while self._events[kind] - seen[kind] < count:
            if self._events.total() - seen.total() >= most:
                kind = "any"
                break
            self._moved.clear()
            await self._moved.wait()
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.uniform(0.0, 0.2))
        return kind

    async def _keep_asking(self) -> None:
        while not self._enough:
            gateway = await self._doors.any()
            self._asked += 1
            kind = KINDS[self._asked % len(KINDS)]
            prompt = prompt_of(kind, self._asked, self._seed)
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
            try:
                match self._chance.randrange(5):
                    case 0:
                        await self._complete(gateway, {**body, "stream": True, "background": True})
                    case 1:
                        await self._complete(gateway, {**body, "stream": True})
                    case _:
                        await self._run(gateway, body)
            except LOST:
                continue  # only the log knows whether it has begun

    async def _run(self, gateway: GatewayProcess, body: dict[str, Any]) -> None:
        async with self._session.post(f"{gateway.url}/v1/runs", json=body) as response:
            self._check(response, 202)
            run = await response.json()
        readers = [self._follow(run["id"]) for _ in range(self._chance.randint(1, 2))]
        await asyncio.gather(*readers)

    async def _complete(self, gateway: GatewayProcess, body: dict[str, Any]) -> None:
        """A completion, whose run is read on by its id when its stream is lost."""
        url = f"{gateway.url}/v1/chat/completions"
        async with self._session.post(url, json=body) as response:
            self._check(response, 200)
            reading = self._tasks.create_task(self._follow(response.headers["x-windlass-run-id"]))
            try:
                async for _ in response.content:
                    pass
            except LOST:
                pass
        await reading

    async def _follow(self, run_id: str) -> None:
        reader = Reader(run_id, self._doors, self._session, self._notice, may_break=self._may_fail)
        self.readers.setdefault(run_id, []).append(reader)
        await reader.follow()

    async def _adopt(self) -> None:
        """Follows the running runs that have no reader: their client did not get the answer."""
        while True:
            gateway = await self._doors.any()
            try:
                async with self._session.get(f"{gateway.url}/v1/runs?limit=200") as response:
                    self._check(response, 200)
                    listed = (await response.json())["data"]
                    break
            except LOST:
                continue
        for run in listed:
            # One without events is not stored yet: if that fails, it never was, and is not found.
            stored = run["status"] == "running" and run["events"]
            if stored and run["id"] not in self.readers:
                self._tasks.create_task(self._follow(run["id"]))

    def _notice(self, run_id: str, event: Event) -> None:
        self._events[event["event"]] += 1
        self._moved.set()
        if event["event"] == "approval_requested":
            call_id = event["call"]["id"]
            key = f"{run_id}:{call_id}"
            if key not in self.decisions:
                self.decisions[key] = random.Random(key).random() < 0.7
                decision = {"call_id": call_id, "approved": self.decisions[key]}
                self._tasks.create_task(self._say(run_id, "approve", decision))
        elif run_id not in self.stops and self._stops(run_id, event):
            self.stops.add(run_id)
            self._tasks.create_task(self._say(run_id, "stop", {}))

    def _stops(self, run_id: str, event: Event) -> bool:
        shares = {"round_started": self.stop_share, "run_resumed": STOP_AT_RESUME}
        chance = random.Random(f"{run_id} {event['seq']}").random()
        return chance < shares.get(event["event"], 0.0)

    async def _say(self, run_id: str, verb: str, body: dict[str, Any]) -> None:
        """Repeats the request until it succeeds. A conflict means that it did, though the answer
        was lost."""
        while True:
            gateway = await self._doors.any()
            url = f"{gateway.url}/v1/runs/{run_id}/{verb}"
            try:
                async with self._session.post(url, json=body) as response:
                    self._check(response, 200, 202, 409)
                    return
            except LOST:
                continue

    def _check(self, response: aiohttp.ClientResponse, *expected: int) -> None:
        """The same. Where the log may fail, a request may fail with it and is sent again; so is one
        to a gateway that was paused while others took its runs over."""
        if response.status == 500:
            if self._may_fail:
                self.faults["requests that failed with it"] += 1
                raise ConnectionError("the log cannot be written")
            if self._gateway_of(response).was_paused:
                self.pauses["requests that failed after one"] += 1
                raise ConnectionError("the gateway was paused")
        check(response, *expected)

    def _gateway_of(self, response: aiohttp.ClientResponse) -> GatewayProcess:
        [gateway] = [each for each in self._gateways if each.url == str(response.url.origin())]
        return gateway

    async def whole(self, run_id: str) -> list[tuple[int, str]]:
        """The events of a run for a late reader."""
        late = Reader(run_id, self._doors, self._session, lambda _run, _event: None)
        await late.follow()
        return list(late.seen)

    async def shown(self, run_id: str) -> dict[str, Any]:
        gateway = await self._doors.any()
        async with self._session.get(f"{gateway.url}/v1/runs/{run_id}") as response:
            return json.loads(await response.read())


def _journal_size(file: Path) -> int:
    journal = Path(f"{file}-wal")
    return journal.stat().st_size if journal.exists() else 0


def client_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
    )
