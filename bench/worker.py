"""One peer in its own process: commands on stdin, figures as JSON on stdout."""

import asyncio
import cProfile
import gc
import importlib
import json
import os
import pstats
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from peers.common import MARKS, AsyncPeer, SyncPeer
from scenarios import SCENARIOS, Scenario
from upstream import answer

CLASSES = {
    "aiohttp": ("peers.floor", "Floor"),
    "openai": ("peers.openai_sdk", "OpenAIAsync"),
    "openai-sync": ("peers.openai_sdk", "OpenAISync"),
    "windlass": ("peers.windlass_clients", "WindlassAsync"),
    "windlass-sync": ("peers.windlass_clients", "WindlassSync"),
}


class AsyncDriver:
    """Drives an async peer from plain code, on one event loop for all its samples."""

    def __init__(self, make: Callable[[], AsyncPeer]) -> None:
        self.runner = asyncio.Runner()
        self.peer = self.runner.run(self.made(make))

    async def made(self, make: Callable[[], AsyncPeer]) -> AsyncPeer:
        return make()

    def one(self, scenario: Scenario) -> Coroutine[Any, Any, str]:
        if scenario.verb == "stream":
            return self.peer.stream(scenario.model)
        return self.peer.answer(scenario.model, scenario.plain)

    async def several(self, scenario: Scenario, runs: int) -> list[str]:
        if scenario.concurrent:
            return await asyncio.gather(*[self.one(scenario) for _ in range(runs)])
        return [await self.one(scenario) for _ in range(runs)]

    def run(self, scenario: Scenario, runs: int) -> list[str]:
        return self.runner.run(self.several(scenario, runs))

    def close(self) -> None:
        self.runner.run(self.peer.close())
        self.runner.close()


class SyncDriver:
    def __init__(self, make: Callable[[], SyncPeer]) -> None:
        self.peer = make()

    def one(self, scenario: Scenario) -> str:
        verb = self.peer.stream if scenario.verb == "stream" else self.peer.answer
        return verb(scenario.model)

    def run(self, scenario: Scenario, runs: int) -> list[str]:
        if scenario.concurrent:
            with ThreadPoolExecutor(runs) as pool:
                return list(pool.map(self.one, [scenario] * runs))
        return [self.one(scenario) for _ in range(runs)]

    def close(self) -> None:
        self.peer.close()


Driver = AsyncDriver | SyncDriver


def driver(peer: str, base_url: str) -> Driver:
    module, name = CLASSES[peer]
    peer_class = getattr(importlib.import_module(module), name)
    driver_class = SyncDriver if peer.endswith("-sync") else AsyncDriver
    return driver_class(lambda: peer_class(base_url))


def sample(drive: Driver, scenario: Scenario, runs: int) -> float:
    """CPU seconds of this many runs, after one that does not count."""
    drive.run(scenario, 1)
    return cpu_seconds(drive, scenario, runs)


def cpu_seconds(drive: Driver, scenario: Scenario, runs: int) -> float:
    gc.collect()
    begin = time.process_time()
    texts = drive.run(scenario, runs)
    spent = time.process_time() - begin
    if set(texts) != {"".join(answer(scenario.model))}:
        raise SystemExit(f"wrong answer: {texts[0][:200]!r}")
    return spent


def rounds(drive: Driver, count: int) -> dict[str, object]:
    """CPU seconds of one run of this many rounds, and of each round from the second on."""
    drive.run(SCENARIOS["one_tool"], 1)
    total = cpu_seconds(drive, Scenario("", f"tools-{count}", 1, 1), 1)
    marks = MARKS[-count:]
    return {"total": total, "each": [b - a for a, b in pairwise(marks)]}


def memory(drive: Driver, count: int) -> float:
    """The growth of the process in MB for every 1,000 runs with one tool, after a warm-up."""
    drive.run(SCENARIOS["one_tool"], max(count // 5, 500))
    before = resident_mb()
    for _ in range(10):
        drive.run(SCENARIOS["one_tool"], count // 10)
        MARKS.clear()
    return (resident_mb() - before) / count * 1000


def resident_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def profile(drive: Driver, scenario: Scenario) -> None:
    drive.run(scenario, 3)
    profiler = cProfile.Profile()
    profiler.enable()
    drive.run(scenario, scenario.runs * 5)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def obey(drive: Driver, command: str, *arguments: str) -> object:
    match command, arguments:
        case "sample", [name, runs]:
            return sample(drive, SCENARIOS[name], int(runs))
        case "rounds", [count]:
            return rounds(drive, int(count))
        case "memory", [count]:
            return memory(drive, int(count))
        case _:
            raise SystemExit(f"unknown command: {command}")


def main(peer: str, base_url: str) -> None:
    try:
        drive = driver(peer, base_url)
    except (ImportError, AttributeError) as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return
    print(json.dumps({"absent": None}), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(drive, *line.split())), flush=True)
    drive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
