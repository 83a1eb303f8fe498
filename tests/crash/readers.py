"""A reader of one run, which reconnects after its last event whenever its gateway is killed."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import aiohttp
from tests.support.gateway_process import GatewayProcess

Event = dict[str, Any]
LOST = (aiohttp.ClientError, ConnectionError)


class Seen(NamedTuple):
    """A received event: its number and its JSON."""

    number: int
    data: str


class Doors:
    """The gateways that a client may use: any one that can be reached."""

    def __init__(self, gateways: Sequence[GatewayProcess], seed: int) -> None:
        self._gateways = gateways
        self._chance = random.Random(seed)

    async def any(self) -> GatewayProcess:
        """Waits for a gateway that can be reached."""
        while True:
            if reachable := [each for each in self._gateways if each.listens.is_set()]:
                return self._chance.choice(reachable)
            waiting = [asyncio.create_task(each.listens.wait()) for each in self._gateways]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()


class Reader:
    """Follows a run to its last event. Raises an error for wrong events."""

    def __init__(
        self,
        run_id: str,
        doors: Doors,
        session: aiohttp.ClientSession,
        notice: Callable[[str, Event], None],
        *,
        may_break: bool = False,
    ) -> None:
        """If the log may fail, a stream `may_break` though its gateway is running."""
        self.run_id = run_id
        self._may_break = may_break
        self.seen: list[Seen] = []
        self.connections = 0
        self.ended = False
        self._doors, self._session, self._notice = doors, session, notice

    async def follow(self) -> None:
        while not self.ended:
            gateway = await self._doors.any()
            try:
                await self._read(gateway)
            except LOST:
                continue  # the gateway was killed
            expected = self.ended or not gateway.listens.is_set()
            may_break = self._may_break or gateway.was_paused
            assert expected or may_break, f"{self.run_id}: the stream ended, and the run has not"
            if not expected:
                await asyncio.sleep(0.1)

    async def _read(self, gateway: GatewayProcess) -> None:
        last = self.seen[-1].number if self.seen else 0
        url = f"{gateway.url}/v1/runs/{self.run_id}/events"
        async with self._session.get(url, headers={"Last-Event-ID": str(last)}) as response:
            assert response.status == 200, (self.run_id, last, response.status)
            self.connections += 1
            number = 0
            async for line in response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "id":
                    number = int(value)
                elif name == "data":
                    self._take(Seen(number, value))

    def _take(self, seen: Seen) -> None:
        self.seen.append(seen)
        event = json.loads(seen.data)
        self.ended = event["done"]
        self._notice(self.run_id, event)
