"""A reader of one run, who comes back with the last number as often as the gateway is killed."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import aiohttp
from tests.crash.gateway_process import GatewayProcess

Event = dict[str, Any]


class Seen(NamedTuple):
    """An event as it came: its number, and its JSON as it was written."""

    number: int
    data: str


class Reader:
    """Follows a run to its last event. What is wrong with what it is told, it raises."""

    def __init__(
        self,
        run_id: str,
        gateway: GatewayProcess,
        session: aiohttp.ClientSession,
        notice: Callable[[str, Event], None],
    ) -> None:
        self.run_id = run_id
        self.seen: list[Seen] = []
        self.connections = 0
        self.ended = False
        self._gateway, self._session, self._notice = gateway, session, notice

    async def follow(self) -> None:
        while not self.ended:
            await self._gateway.listens.wait()
            try:
                await self._read()
            except (aiohttp.ClientError, ConnectionError):
                continue  # the gateway was killed
            alone = self.ended or not self._gateway.listens.is_set()
            assert alone, f"{self.run_id}: the stream ended, and the run has not"

    async def _read(self) -> None:
        last = self.seen[-1].number if self.seen else 0
        url = f"{self._gateway.url}/v1/runs/{self.run_id}/events"
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
