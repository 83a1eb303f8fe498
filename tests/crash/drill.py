"""Runs that are started, followed and decided about, while their gateway is killed and killed."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from tests.crash.gateway_process import GatewayProcess
from tests.crash.readers import Event, Reader
from tests.crash.scenarios import KINDS, prompt_of

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
"""Right after one of these the gateway is killed, or a little later."""
LOST = (aiohttp.ClientError, ConnectionError)


def check(response: aiohttp.ClientResponse, *expected: int) -> None:
    """Raises `ConnectionError` for a gateway that is about to end, which says so."""
    if response.status == 503:
        raise ConnectionError("shutting down")
    assert response.status in expected, response


class Drill:
    """`crash` until there were so many kills; then every run has ended, and can be judged."""

    def __init__(
        self, gateway: GatewayProcess, session: aiohttp.ClientSession, seed: int, together: int
    ) -> None:
        self.readers: dict[str, list[Reader]] = {}
        self.decisions: dict[str, bool] = {}
        """By call key: what was said to each call that waited for a yes."""
        self.kills = Counter[str]()
        self.ends = 0
        """How often it was told to end, instead."""
        self._gateway, self._session, self._seed = gateway, session, seed
        self._together = together
        self._chance = random.Random(seed)
        self._asked = 0
        self._enough = False
        self._events = Counter[str]()
        self._moved = asyncio.Event()
        self._tasks = asyncio.TaskGroup()

    async def crash(self, kills: int) -> None:
        await self._gateway.start()
        await self._gateway.ready()
        async with self._tasks:
            for _ in range(self._together):
                self._tasks.create_task(self._keep_asking())
            while self.kills.total() < kills:
                moment = await self._moment()
                if self._chance.random() < 0.1:
                    await self._gateway.end()
                    self.ends += 1
                else:
                    await self._gateway.kill()
                    self.kills[moment] += 1
                await self._start_again()
            self._enough = True

    async def _start_again(self) -> None:
        """Sometimes it is killed before it listens, or while it takes up what was left."""
        await self._gateway.start()
        if self._chance.random() < 0.15:
            await asyncio.sleep(self._chance.uniform(0.0, 0.6))
            await self._gateway.kill()
            self.kills["start"] += 1
            await self._gateway.start()
        await self._gateway.ready()
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
            await self._gateway.listens.wait()
            self._asked += 1
            kind = KINDS[self._asked % len(KINDS)]
            prompt = prompt_of(kind, self._asked, self._seed)
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
            try:
                match self._chance.randrange(5):
                    case 0:
                        await self._complete({**body, "stream": True, "background": True})
                    case 1:
                        await self._complete({**body, "stream": True})
                    case _:
                        await self._run(body)
            except LOST:
                continue  # whether it has begun, only the log knows

    async def _run(self, body: dict[str, Any]) -> None:
        async with self._session.post(f"{self._gateway.url}/v1/runs", json=body) as response:
            check(response, 202)
            run = await response.json()
        readers = [self._follow(run["id"]) for _ in range(self._chance.randint(1, 2))]
        await asyncio.gather(*readers)

    async def _complete(self, body: dict[str, Any]) -> None:
        """A completion, whose run is read on by its id when its stream is lost."""
        url = f"{self._gateway.url}/v1/chat/completions"
        async with self._session.post(url, json=body) as response:
            check(response, 200)
            reading = self._tasks.create_task(self._follow(response.headers["x-windlass-run-id"]))
            try:
                async for _ in response.content:
                    pass
            except LOST:
                pass
        await reading

    async def _follow(self, run_id: str) -> None:
        reader = Reader(run_id, self._gateway, self._session, self._notice)
        self.readers.setdefault(run_id, []).append(reader)
        await reader.follow()

    async def _adopt(self) -> None:
        """Follows the runs that go and that nobody follows: their client never heard of them."""
        try:
            async with self._session.get(f"{self._gateway.url}/v1/runs?limit=200") as response:
                listed = (await response.json())["data"]
        except LOST:
            return
        for run in listed:
            if run["status"] == "running" and run["id"] not in self.readers:
                self._tasks.create_task(self._follow(run["id"]))

    def _notice(self, run_id: str, event: Event) -> None:
        self._events[event["event"]] += 1
        self._moved.set()
        if event["event"] == "approval_requested":
            call_id = event["call"]["id"]
            key = f"{run_id}:{call_id}"
            if key not in self.decisions:
                self.decisions[key] = random.Random(key).random() < 0.7
                self._tasks.create_task(self._decide(run_id, call_id, self.decisions[key]))

    async def _decide(self, run_id: str, call_id: str, approved: bool) -> None:
        """Says it until it is heard. A conflict says that it was, though the answer was lost."""
        decision = {"call_id": call_id, "approved": approved}
        while True:
            await self._gateway.listens.wait()
            url = f"{self._gateway.url}/v1/runs/{run_id}/approve"
            try:
                async with self._session.post(url, json=decision) as response:
                    check(response, 200, 409)
                    return
            except LOST:
                continue

    async def whole(self, run_id: str) -> list[tuple[int, str]]:
        """A run as a late reader sees it."""
        late = Reader(run_id, self._gateway, self._session, lambda _run, _event: None)
        await late.follow()
        return list(late.seen)

    async def shown(self, run_id: str) -> dict[str, Any]:
        async with self._session.get(f"{self._gateway.url}/v1/runs/{run_id}") as response:
            return json.loads(await response.read())


@asynccontextmanager
async def drill_of(
    gateway: GatewayProcess, seed: int, together: int = 8
) -> AsyncGenerator[Drill, None]:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await gateway.load()
        try:
            yield Drill(gateway, session, seed, together)
        finally:
            await gateway.unload()
