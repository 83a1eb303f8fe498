"""Runs one peer in a separate process. Reads commands from stdin, and prints figures as JSON."""

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
    """Runs an async peer from sync code, on one event loop for all samples."""

    def __init__(self, make: Callable[[], AsyncPeer]) -> None:
        self.runner = asyncio.Runner()
        self.peer = self.runner.run(self.created(make))

    async def created(self, make: Callable[[], AsyncPeer]) -> AsyncPeer:
        return make()

    def run_once(self, scenario: Scenario) -> Coroutine[Any, Any, str]:
        if scenario.verb == "stream":
            return self.peer.stream(scenario.model)
        return self.peer.answer(scenario.model, scenario.plain)

    async def run_many(self, scenario: Scenario, runs: int) -> list[str]:
        if scenario.concurrent:
            return await asyncio.gather(*[self.run_once(scenario) for _ in range(runs)])
        return [await self.run_once(scenario) for _ in range(runs)]

    def run(self, scenario: Scenario, runs: int) -> list[str]:
        return self.runner.run(self.run_many(scenario, runs))

    def close(self) -> None:
        self.runner.run(self.peer.close())
        self.runner.close()


class SyncDriver:
    def __init__(self, make: Callable[[], SyncPeer]) -> None:
        self.peer = make()

    def run_once(self, scenario: Scenario) -> str:
        verb = self.peer.stream if scenario.verb == "stream" else self.peer.answer
        return verb(scenario.model)

    def run(self, scenario: Scenario, runs: int) -> list[str]:
        if scenario.concurrent:
            with ThreadPoolExecutor(runs) as pool:
                return list(pool.map(self.run_once, [scenario] * runs))
        return [self.run_once(scenario) for _ in range(runs)]

    def close(self) -> None:
        self.peer.close()


Driver = AsyncDriver | SyncDriver


def create_driver(peer: str, base_url: str) -> Driver:
    module, name = CLASSES[peer]
    peer_class = getattr(importlib.import_module(module), name)
    driver_class = SyncDriver if peer.endswith("-sync") else AsyncDriver
    return driver_class(lambda: peer_class(base_url))


def sample(driver: Driver, scenario: Scenario, runs: int) -> float:
    """Returns the CPU seconds of this many runs. A first run, the warm-up, does not count."""
    driver.run(scenario, 1)
    return cpu_seconds(driver, scenario, runs)


def cpu_seconds(driver: Driver, scenario: Scenario, runs: int) -> float:
    gc.collect()
    begin = time.process_time()
    texts = driver.run(scenario, runs)
    seconds = time.process_time() - begin
    if set(texts) != {"".join(answer(scenario.model))}:
        raise SystemExit(f"wrong answer: {texts[0][:200]!r}")
    return seconds


def rounds(driver: Driver, count: int) -> dict[str, object]:
    """Returns the CPU seconds of a run with this many rounds, and of each round after the first."""
    driver.run(SCENARIOS["one_tool"], 1)
    total = cpu_seconds(driver, Scenario("", f"tools-{count}", 1, 1), 1)
    marks = MARKS[-count:]
    return {"total": total, "each": [b - a for a, b in pairwise(marks)]}


def memory(driver: Driver, count: int) -> float:
    """Returns how many MB the process grows in 1,000 runs with one tool, after a warm-up."""
    driver.run(SCENARIOS["one_tool"], max(count // 5, 500))
    before = resident_mb()
    for _ in range(10):
        driver.run(SCENARIOS["one_tool"], count // 10)
        MARKS.clear()
    return (resident_mb() - before) / count * 1000


def resident_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def profile(driver: Driver, scenario: Scenario) -> None:
    driver.run(scenario, 3)
    profiler = cProfile.Profile()
    profiler.enable()
    driver.run(scenario, scenario.runs * 5)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def execute(driver: Driver, command: str, *arguments: str) -> object:
    match command, arguments:
        case "sample", [name, runs]:
            return sample(driver, SCENARIOS[name], int(runs))
        case "rounds", [count]:
            return rounds(driver, int(count))
        case "memory", [count]:
            return memory(driver, int(count))
        case _:
            raise SystemExit(f"unknown command: {command}")


def main(peer: str, base_url: str) -> None:
    try:
        driver = create_driver(peer, base_url)
    except (ImportError, AttributeError) as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return
    print(json.dumps({"absent": None}), flush=True)
    for line in sys.stdin:
        print(json.dumps(execute(driver, *line.split())), flush=True)
    driver.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
