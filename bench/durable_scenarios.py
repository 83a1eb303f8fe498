"""The scenarios of durable runs, the logs that they use, and the goals."""

from typing import Literal, NamedTuple

LOGS = {
    "none": "no log",
    "memory": "memory",
    "normal": "SQLite, normal",
    "full": "SQLite, full",
}
SLOW_SECONDS = 0.01
"""The time between two tokens of `slow-1000`."""


class Case(NamedTuple):
    title: str
    model: str
    runs: int  # in one sample
    samples: int
    verb: Literal["answer", "stream", "step"] = "answer"
    concurrent: bool = False
    all_at_once: bool = False  # measure all logs at the same time, because a run mostly waits
    runs_per_figure: int = 1


CASES = {
    "step": Case("one step, until it is stored", "tokens-0", runs=300, samples=7, verb="step"),
    "tool": Case("one-tool run", "tools-1", runs=60, samples=11),
    "rounds": Case("ten tool rounds", "tools-10", runs=8, samples=11),
    "burst": Case("1,000 tokens in a burst", "tokens-1000", 5, 11, verb="stream"),
    "paced": Case("1,000 tokens, 2,000 a second", "paced-1000", 1, 5, "stream", all_at_once=True),
    "slow": Case("1,000 tokens, 100 a second", "slow-1000", 1, 3, "stream", all_at_once=True),
    "concurrent": Case(
        "200 concurrent one-tool runs", "tools-1", 200, 7, concurrent=True, runs_per_figure=200
    ),
}

GOALS = {"tool": 2.5, "burst": 1.25, "concurrent": 1.5}
"""CPU with SQLite (normal), as a multiple of the memory log's."""
READING_GOAL = 2.0
"""CPU of reading a log, as a multiple of fetching its rows and decoding their JSON."""
