"""Gateways on one file of runs: one after another, as after a restart, or at the same time."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.asgi import Answer, post, request
from tests.support.serving import config_of
from tests.support.talking import Body, asking

from windlass import RunEvent, tool
from windlass.gateway import App, GatewayConfig
from windlass.gateway.config import ModelConfig
from windlass.gateway.gateway import Gateway
from windlass.gateway.runs.run import GatewayRun
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import Script, ScriptedModel


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


@tool(approve=True)
def erase(path: str) -> str:
    """Erases a file."""
    return f"erased {path}"


TOOLS = (lookup, erase)
SERVED = config_of(ModelConfig(name="m", target="scripted/model", tools=("lookup", "erase")))


class Place:
    """A gateway with a client."""

    def __init__(
        self,
        log: RunLog | None,
        script: Script[Any] = (),
        *,
        config: GatewayConfig = SERVED,
        tools: Iterable[Any] = TOOLS,
    ) -> None:
        self.model = ScriptedModel(script)
        models = dict.fromkeys(config.models, self.model)
        self.gateway = Gateway(config, models=models, tools=tools, log=log)
        self.app = App(self.gateway)

    async def start(self, prompt: str = "Go.", *more: Body, **fields: Any) -> str:
        answer = await post(self.app, asking(prompt, *more, **fields), "/v1/runs")
        assert answer.status == 202, answer
        return answer.json["id"]

    async def ask(self, prompt: str, *more: Body, **fields: Any) -> Body:
        """Sends a chat completion, and returns the message of the answer."""
        answer = await post(self.app, asking(prompt, *more, **fields))
        assert answer.status == 200, answer
        return answer.json["choices"][0]["message"]

    async def get(self, path: str) -> Answer:
        return await request(self.app, "GET", path)

    async def show(self, run_id: str) -> Body:
        return (await self.get(f"/v1/runs/{run_id}")).json

    async def events(self, run_id: str, after: int = 0) -> bytes:
        """The events of a run up to its end, as they are sent."""
        answer = await self.get(f"/v1/runs/{run_id}/events?after={after}")
        assert answer.status == 200, answer
        return answer.body

    async def ended(self, run_id: str) -> Body:
        """Waits until the run has ended, and returns it."""
        await self.events(run_id)
        return await self.show(run_id)

    async def until(self, run_id: str, kind: type[RunEvent]) -> Any:
        """Waits for the first event of that kind."""
        found = await self.gateway.find(run_id, "")
        follower = found.follow(0)
        assert follower is not None
        async for event in follower:
            if isinstance(event, kind):
                return event
        raise AssertionError(f"no {kind.__name__} in {run_id}")

    async def resume(self) -> list[GatewayRun]:
        return await self.gateway.resume()

    async def crash(self) -> None:
        """Simulates a kill: nothing continues, and the log stays unchanged."""
        assert self.gateway.service.log is not None
        await self.gateway.service.log.aclose()
        for run in self.gateway.runs.running():
            run.task.cancel()
        if tasks := [run.task for run in self.gateway.runs.running()]:
            await asyncio.wait(tasks)


class Places:
    """Opens gateways on one file, and closes them all."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._opened: list[Place] = []

    def open(self, script: Script[Any] = (), **options: Any) -> Place:
        place = Place(SQLiteLog(self.file), script, **options)
        self._opened.append(place)
        return place

    async def aclose(self) -> None:
        for place in self._opened:
            await place.gateway.aclose()


@asynccontextmanager
async def places_on(file: Path) -> AsyncIterator[Places]:
    places = Places(file)
    try:
        yield places
    finally:
        await places.aclose()


def names(events: bytes) -> list[str]:
    """Returns the names of the events in a stream."""
    lines = events.decode().splitlines()
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def data(events: bytes) -> list[Body]:
    lines = events.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def content(run: Body) -> str:
    """Returns the answer of an ended run."""
    return run["response"]["choices"][0]["message"]["content"]
