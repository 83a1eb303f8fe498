"""Measures the metrics of one request: `prometheus_client`, and instruments without locks.

The instruments without locks show the minimum cost of counting in Python. The gateway would use
them if the library took more than 3 % of a request's CPU.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from report import Verdict

from windlass.content import FunctionResponse, Usage
from windlass.events import (
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    ToolRunEnded,
    TurnEnded,
)
from windlass.gateway.observe import metrics as observed
from windlass.gateway.observe.metrics import Metrics

REQUEST_MICROSECONDS = 600
"""The CPU time of a small chat completion in the gateway, the smallest of `--only gateway`."""
MAX_PERCENT = 3.0
REPEATS = 500
"""The requests in a sample. The fastest sample counts, because other processes only add time."""
USAGE = Usage(10, 5, 15, cached_tokens=4, thought_tokens=2)


def round_of(number: int) -> list[RunEvent]:
    return [
        RoundStarted(number, "awaiting_model_call", time=1.0),
        TextDelta("a", time=1.5),
        TurnEnded("stop", USAGE, time=2.0),
    ]


ANSWER: list[RunEvent] = [
    RunStarted("r", "fast", (), time=1.0),
    *round_of(1),
    RunEnded("answer", USAGE, 1, time=3.0),
]
ONE_TOOL: list[RunEvent] = [
    RunStarted("r", "fast", (), time=1.0),
    *round_of(1),
    ToolRunEnded(FunctionResponse("add", {"output": 3}), "ok", seconds=0.1, time=2.0),
    *round_of(2),
    RunEnded("answer", USAGE, 2, time=3.0),
]


class Unlocked:
    """A counter, gauge or histogram for one thread."""

    def __init__(self, *_: Any, buckets: tuple[float, ...] = (), **__: Any) -> None:
        self._buckets, self._children = buckets, dict[tuple[Any, ...], Unlocked]()
        self._value, self._counts = 0.0, [0] * (len(buckets) + 1)

    def labels(self, *values: Any) -> "Unlocked":
        if values not in self._children:
            self._children[values] = Unlocked(buckets=self._buckets)
        return self._children[values]

    def inc(self, amount: float = 1) -> None:
        self._value += amount

    def dec(self, amount: float = 1) -> None:
        self._value -= amount

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._buckets, value)] += 1
        self._value += value


def request(metrics: Metrics, events: list[RunEvent]) -> Callable[[], None]:
    """Returns a function that records one streamed request and its run."""

    def record() -> None:
        observer = metrics.run(model="fast", live=True)
        for event in events:
            observer(event)
        metrics.request_done(
            route="/v1/chat/completions",
            method="POST",
            status=200,
            seconds=0.1,
            key="web",
            model="fast",
        )

    return record


async def microseconds(metrics: Metrics, record: Callable[[], None]) -> float:
    """Returns the CPU time of recording one request. A gateway counts those of 50 ms together."""
    started_at = time.process_time()
    for _ in range(REPEATS):
        record()
    metrics.flush()
    return (time.process_time() - started_at) / REPEATS * 1e6


def show(quick: bool) -> list[Verdict]:
    samples = 20 if quick else 100
    names = {"models": ["fast"], "tools": ["add"]}
    with patch.multiple(observed, Counter=Unlocked, Gauge=Unlocked, Histogram=Unlocked):
        unlocked = Metrics(**names)
    peers = {"prometheus_client": Metrics(**names), "without locks": unlocked}
    print(f"\n{'metrics, us/request':26s}" + "".join(f"{name:>20s}" for name in peers))
    costs: list[float] = []
    for name, events in {"answer": ANSWER, "one tool": ONE_TOOL}.items():
        records = {peer: request(metrics, events) for peer, metrics in peers.items()}
        best = {peer: float("inf") for peer in records}
        for _ in range(samples):
            for peer, record in records.items():
                sample = asyncio.run(microseconds(peers[peer], record))
                best[peer] = min(best[peer], sample)
        print(f"  {name:24s}" + "".join(f"{best[peer]:20.1f}" for peer in peers))
        costs.append(best["prometheus_client"])
    share = 100 * costs[0] / REQUEST_MICROSECONDS
    return [Verdict("metrics of an answer, share of a request's CPU", share, MAX_PERCENT, " %")]
