"""A remote tool call beside a bare NATS request, and beside MCP: one at a time, and many at once.

The floor is nats-py's own request to a subscriber that answers with the same bytes. The server of
each method has its own process. CPU is the sum of the caller, the server and
the NATS server. Samples are interleaved, and only ratios mean anything.
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
from remote_ways import ALONE, FLOOR, IN_A_RUN, Call, Way, title, ways
from report import Verdict

GOAL = 1.5
"""Multiples of the floor."""
CALLERS = 64
MCP_SHARE = 4
"""MCP is so much slower that fewer calls are enough."""
Found = dict[str, "Spent"]


class Sizes(NamedTuple):
    """Of one sample, and how many there are."""

    samples: int
    one_by_one: int
    at_once: int


WHOLE = Sizes(9, 240, 16 * CALLERS)
QUICK = Sizes(3, 80, 8 * CALLERS)


class Spent:
    """The samples of one method."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.cpu: list[float] = []
        self.rates: list[float] = []

    async def sample(self, way: Way, calls: int, callers: int) -> None:
        processes = (os.getpid(), *way.processes)
        cpu, begun = sum(map(cpu_seconds, processes)), time.perf_counter()
        await asyncio.gather(*(self._caller(way.call, calls // callers) for _ in range(callers)))
        seconds = time.perf_counter() - begun
        self.rates.append(calls / seconds)
        self.cpu.append((sum(map(cpu_seconds, processes)) - cpu) / calls)

    async def _caller(self, call: Call, calls: int) -> None:
        for _ in range(calls):
            begun = time.perf_counter()
            await call()
            self.latencies.append(time.perf_counter() - begun)

    def figures(self) -> "Figures":
        cuts = quantiles(self.latencies, n=100)
        return Figures(median(self.cpu), cuts[49], cuts[98], median(self.rates))


class Figures(NamedTuple):
    cpu: float  # seconds of a call
    p50: float
    p99: float
    rate: float


def show(quick: bool) -> list[Verdict]:
    sizes = QUICK if quick else WHOLE
    alone, together = asyncio.run(measured(sizes))
    show_figures("one call at a time", alone)
    show_figures(f"{CALLERS} calls at once", together)
    floor, ours = alone[FLOOR], alone[IN_A_RUN]
    return [
        Verdict("remote call in a run, p50", ours.p50 / floor.p50, GOAL, "x bare request"),
        Verdict("remote call in a run, p99", ours.p99 / floor.p99, GOAL, "x bare request"),
        Verdict("remote call in a run, CPU", ours.cpu / floor.cpu, GOAL, "x bare request"),
        Verdict(
            f"{CALLERS} remote calls at once, CPU",
            together[title(1)].cpu / together[FLOOR].cpu,
            GOAL,
            "x bare request",
        ),
    ]


async def measured(sizes: Sizes) -> tuple[dict[str, Figures], dict[str, Figures]]:
    async with ways() as found:
        alone = await sampled(found.one_by_one, sizes.samples, sizes.one_by_one, 1)
        together = await sampled(found.at_once, sizes.samples, sizes.at_once, CALLERS)
    return alone, together


async def sampled(
    found: dict[str, Way], samples: int, calls: int, callers: int
) -> dict[str, Figures]:
    """Samples the methods in turn, each time in another order, after a warm-up."""
    spent = {name: Spent() for name in found}
    names = list(found)
    for number in range(samples):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            share = MCP_SHARE if name.startswith("MCP") else 1
            fewer = max(calls // share // callers, 1) * callers
            await Spent().sample(found[name], max(fewer // 8, callers), callers)
            await spent[name].sample(found[name], fewer, callers)
    return {name: each.figures() for name, each in spent.items()}


def show_figures(what: str, by_name: dict[str, Figures]) -> None:
    columns = ["CPU ms", "x floor", "p50 ms", "x floor", "p99 ms", "x floor", "calls/s", "x floor"]
    print(f"\n{what:<32}" + "".join(f"{column:>9}" for column in columns))
    floor = by_name[FLOOR]
    for name, its in by_name.items():
        times = zip(its[:3], floor[:3], strict=True)
        cells = "".join(f"{ours * 1e3:>9.3f}{ours / bare:>9.2f}" for ours, bare in times)
        print(f"  {name:<30}{cells}{its.rate:>9.0f}{its.rate / floor.rate:>9.2f}")


def profile() -> None:
    """Prints where the time of a call goes, on both sides."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "worker")
        caller = cProfile.Profile()
        asyncio.run(_profiled(str(written), caller))
        for side in (pstats.Stats(caller), pstats.Stats(str(written))):
            side.sort_stats("tottime").print_stats(30)


async def _profiled(written: str, caller: cProfile.Profile) -> None:
    async with ways(written) as found:
        caller.enable()
        await Spent().sample(found.one_by_one[ALONE], 200 * CALLERS, CALLERS)
        caller.disable()
