"""The scenarios, and the goals of Windlass."""

from typing import Literal, NamedTuple

FLOOR = "aiohttp"
PEERS = {
    FLOOR: "raw aiohttp loop (floor)",
    "openai": "openai SDK, async",
    "openai-sync": "openai SDK, sync",
    "windlass": "windlass, async",
    "windlass-sync": "windlass, sync",
}
RIVALS = {"windlass": "openai", "windlass-sync": "openai-sync"}


class Scenario(NamedTuple):
    title: str
    model: str
    runs: int  # in one sample
    samples: int
    verb: Literal["answer", "stream"] = "answer"
    concurrent: bool = False
    plain: bool = False  # give the async peers a plain function as their tool
    unit_runs: int = 1  # the figure is for this many runs


SCENARIOS = {
    "one_tool": Scenario("one-tool run", "tools-1", runs=60, samples=11),
    "one_tool_plain": Scenario("one-tool run, plain function", "tools-1", 60, 7, plain=True),
    "five_rounds": Scenario("five rounds", "tools-5", runs=20, samples=11),
    "tokens": Scenario("1,000 streamed tokens", "tokens-1000", 5, 11, verb="stream"),
    "paced": Scenario("the same, one every 0.5 ms", "paced-1000", 1, 3, verb="stream"),
    "concurrent": Scenario(
        "200 concurrent one-tool runs", "tools-1", 200, 5, concurrent=True, unit_runs=200
    ),
}


class Goal(NamedTuple):
    scenario: str
    of_floor: float | None  # for the async client
    of_rival: float = 1 / 3  # of the openai SDK: async against async, sync against sync


GOALS = [
    Goal("one_tool", of_floor=2.0),
    Goal("five_rounds", of_floor=2.0),
    Goal("tokens", of_floor=3.0),
    Goal("concurrent", of_floor=None),
]
IMPORT_GOAL_SECONDS = 0.2
MEMORY_GOAL_MB = 0.1  # per 1,000 runs: constant, apart from the noise of the allocator
ROUNDS_GOAL = 2.0  # round 90 against round 10; more than 1 because more bytes are sent
