"""Compares a remote tool call with a bare NATS request and with MCP, one at a time and concurrent.

The floor is a request of nats-py to a subscriber that answers with the same bytes. The server of
each method runs in a separate process. CPU is the sum of the caller, the server and the NATS
server. Samples of the methods alternate. Compare only ratios: the milliseconds depend on the
machine.
"""

import asyncio
import cProfile
import os
import pstats
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from gateway_load import cpu_seconds
from remote_methods import ALONE, FLOOR, IN_RUN, Call, Method, methods, title
from report import Verdict

GOAL = 1.5
"""The maximum latency and CPU, as a multiple of the floor."""
CALLERS = 64
MCP_SHARE = 4
"""MCP gets this fraction of the calls, because it is much slower."""
ResultsByName = dict[str, "Samples"]


class Sizes(NamedTuple):
    """The number of samples, and of the calls in a sample."""

    samples: int
    one_by_one: int
    at_once: int


FULL = Sizes(9, 240, 16 * CALLERS)
QUICK = Sizes(3, 80, 8 * CALLERS)


class Samples:
    """The samples of one method."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.cpu: list[float] = []
        self.rates: list[float] = []

    async def sample(self, method: Method, calls: int, callers: int) -> None:
        processes = (os.getpid(), *method.processes)
        cpu, started_at = sum(map(cpu_seconds, processes)), time.perf_counter()
        await asyncio.gather(*(self._caller(method.call, calls // callers) for _ in range(callers)))
        seconds = time.perf_counter() - started_at
        self.rates.append(calls / seconds)
        self.cpu.append((sum(map(cpu_seconds, processes)) - cpu) / calls)

    async def _caller(self, call: Call, calls: int) -> None:
        for _ in range(calls):
            started_at = time.perf_counter()
            await call()
            self.latencies.append(time.perf_counter() - started_at)

    def figures(self) -> "Figures":
        cuts = quantiles(self.latencies, n=100)
        return Figures(median(self.cpu), cuts[49], cuts[98], median(self.rates))


class Figures(NamedTuple):
    cpu: float  # seconds of a call
    p50: float
    p99: float
    rate: float


def show(quick: bool) -> list[Verdict]:
    sizes = QUICK if quick else FULL
    alone, concurrent = asyncio.run(measure(sizes))
    show_figures("one call at a time", alone)
    show_figures(f"{CALLERS} concurrent calls", concurrent)
    floor, ours = alone[FLOOR], alone[IN_RUN]
    return [
        Verdict("remote call in a run, p50", ours.p50 / floor.p50, GOAL, "x bare request"),
        Verdict("remote call in a run, p99", ours.p99 / floor.p99, GOAL, "x bare request"),
        Verdict("remote call in a run, CPU", ours.cpu / floor.cpu, GOAL, "x bare request"),
        Verdict(
            f"{CALLERS} concurrent remote calls, CPU",
            concurrent[title(1)].cpu / concurrent[FLOOR].cpu,
            GOAL,
            "x bare request",
        ),
    ]


async def measure(sizes: Sizes) -> tuple[dict[str, Figures], dict[str, Figures]]:
    async with methods() as available:
        alone = await take_samples(available.one_by_one, sizes.samples, sizes.one_by_one, 1)
        concurrent = await take_samples(available.at_once, sizes.samples, sizes.at_once, CALLERS)
    return alone, concurrent


async def take_samples(
    methods_by_name: dict[str, Method], samples: int, calls: int, callers: int
) -> dict[str, Figures]:
    """Takes samples of the methods after a warm-up. Another method comes first each time."""
    samples_by_name = {name: Samples() for name in methods_by_name}
    names = list(methods_by_name)
    for number in range(samples):
        offset = number % len(names)
        for name in names[offset:] + names[:offset]:
            share = MCP_SHARE if name.startswith("MCP") else 1
            count = max(calls // share // callers, 1) * callers
            await Samples().sample(methods_by_name[name], max(count // 8, callers), callers)
            await samples_by_name[name].sample(methods_by_name[name], count, callers)
    return {name: samples.figures() for name, samples in samples_by_name.items()}


def show_figures(title: str, by_name: dict[str, Figures]) -> None:
    columns = ["CPU ms", "x floor", "p50 ms", "x floor", "p99 ms", "x floor", "calls/s", "x floor"]
    print(f"\n{title:<32}" + "".join(f"{column:>9}" for column in columns))
    floor = by_name[FLOOR]
    for name, figures in by_name.items():
        times = zip(figures[:3], floor[:3], strict=True)
        cells = "".join(
            f"{value * 1e3:>9.3f}{value / floor_value:>9.2f}" for value, floor_value in times
        )
        print(f"  {name:<30}{cells}{figures.rate:>9.0f}{figures.rate / floor.rate:>9.2f}")


def profile() -> None:
    """Prints where the CPU time of a call goes, in the caller and in the worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "worker")
        caller = cProfile.Profile()
        asyncio.run(_profiled(str(path), caller))
        for side in (pstats.Stats(caller), pstats.Stats(str(path))):
            side.sort_stats("tottime").print_stats(30)


async def _profiled(path: str, caller: cProfile.Profile) -> None:
    async with methods(path) as servers:
        caller.enable()
        await Samples().sample(servers.one_by_one[ALONE], 200 * CALLERS, CALLERS)
        caller.disable()
