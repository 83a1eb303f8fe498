"""The scenarios in which Windlass is compared with its peers, and its goals."""

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
    plain: bool = False  # the tool of the async peers is a sync function
    runs_per_figure: int = 1


SCENARIOS = {
    "one_tool": Scenario("one-tool run", "tools-1", runs=60, samples=11),
    "one_tool_plain": Scenario("one-tool run, plain function", "tools-1", 60, 7, plain=True),
    "five_rounds": Scenario("five rounds", "tools-5", runs=20, samples=11),
    "tokens": Scenario("1,000 streamed tokens", "tokens-1000", 5, 11, verb="stream"),
    "paced": Scenario("1,000 tokens, one every 0.5 ms", "paced-1000", 1, 3, verb="stream"),
    "concurrent": Scenario(
        "200 concurrent one-tool runs", "tools-1", 200, 5, concurrent=True, runs_per_figure=200
    ),
}


class Goal(NamedTuple):
    scenario: str
    of_floor: float | None  # the maximum for the async client, as a multiple of the floor
    of_rival: float = 1 / 3  # as a multiple of the openai SDK: async to async, sync to sync


GOALS = [
    Goal("one_tool", of_floor=2.0),
    Goal("five_rounds", of_floor=2.0),
    Goal("tokens", of_floor=3.0),
    Goal("concurrent", of_floor=None),
]
IMPORT_GOAL_SECONDS = 0.2
MEMORY_GOAL_MB = 0.1  # per 1,000 runs: memory is constant, apart from noise of the allocator
ROUNDS_GOAL = 2.0  # round 90 to round 10: more than 1, because a later round sends more bytes
