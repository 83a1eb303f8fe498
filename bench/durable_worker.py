"""Runs one kind of log in a separate process. Reads commands from stdin, prints figures as JSON."""

import asyncio
import gc
import json
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from durable_scenarios import CASES, SLOW_SECONDS, Case
from peers.common import PROMPT, get_weather
from upstream import answer

from windlass import AsyncClient
from windlass.events import ModelEvent, RoundStarted, RunEnded, TextDelta, TurnEnded
from windlass.model import ModelRequest
from windlass.runs.memory import MemoryRunLog
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord

MAX_ROUNDS = 1000


class SlowModel:
    """Answers like `slow-1000`, at the pace of a real model, without an upstream process."""

    def __init__(self, name: str) -> None:
        self.name = name

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[ModelEvent]:
        for token in answer(self.name):
            await asyncio.sleep(SLOW_SECONDS)
            yield TextDelta(token)
        yield TurnEnded("stop")

    async def aclose(self) -> None: ...


class Durable:
    """A client for each model's name, all with logs of one kind."""

    def __init__(self, kind: str, base_url: str, directory: Path) -> None:
        self.kind, self.base_url, self.directory = kind, base_url, directory
        self.clients: dict[str, AsyncClient] = {}
        self.bare = self.log("bare")

    def log(self, name: str) -> RunLog | None:
        if self.kind == "none":
            return None
        if self.kind == "memory":
            return MemoryRunLog()
        from windlass.runs.sqlite import SQLiteLog

        path = self.directory / f"{name}.db"
        return SQLiteLog(path, synchronous="full" if self.kind == "full" else "normal")

    def client(self, model: str) -> AsyncClient:
        if model not in self.clients:
            log = self.log(model)
            self.clients[model] = (
                AsyncClient(SlowModel(model), log=log)
                if model.startswith("slow-")
                else AsyncClient(f"openai/{model}", base_url=self.base_url, api_key="x", log=log)
            )
        return self.clients[model]

    async def run_once(self, case: Case) -> str:
        client = self.client(case.model)
        if case.verb == "answer":
            reply = await client.generate(PROMPT, tools=[get_weather], max_rounds=MAX_ROUNDS)
            return reply.text
        async with client.stream(PROMPT, tools=[get_weather]) as stream:
            return "".join([text async for text in stream.text_deltas()])

    async def steps(self, count: int) -> None:
        """Appends important events, and waits until each is stored."""
        if self.bare is None:
            return
        run = self.bare.begin(
            RunRecord(id=f"run_{secrets.token_hex(12)}", model="bench", created=0.0)
        )
        for number in range(count):
            run.append(RoundStarted(number, "awaiting_model_call"))
            if run.settled is not None:
                await run.settled()
        run.append(RunEnded("answer"))

    async def run_many(self, case: Case, runs: int) -> Sequence[str]:
        if case.verb == "step":
            await self.steps(runs)
            return [""]
        if case.concurrent:
            return await asyncio.gather(*[self.run_once(case) for _ in range(runs)])
        return [await self.run_once(case) for _ in range(runs)]

    async def sample(self, case: Case, runs: int) -> tuple[float, float]:
        """Returns the CPU and wall seconds of this many runs. The warm-up run does not count."""
        await self.run_once(CASES["tool"])
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        texts = await self.run_many(case, runs)
        seconds = time.process_time() - cpu, time.perf_counter() - wall
        if set(texts) != {"".join(answer(case.model))}:
            raise SystemExit(f"wrong answer: {texts[0][:200]!r}")
        return seconds

    async def close(self) -> None:
        for client in self.clients.values():
            await client.aclose()
        if self.bare is not None:
            await self.bare.aclose()


def main(kind: str, base_url: str) -> None:
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        durable = Durable(kind, base_url, Path(directory))
        for line in sys.stdin:
            name, runs = line.split()
            print(json.dumps(runner.run(durable.sample(CASES[name], int(runs)))), flush=True)
        runner.run(durable.close())


if __name__ == "__main__":
    main(*sys.argv[1:])
