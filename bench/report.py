"""Figures in, a table and a list of goals out."""

from statistics import median
from typing import NamedTuple

from plots import Plot
from scenarios import (
    FLOOR,
    GOALS,
    IMPORT_GOAL_SECONDS,
    MEMORY_GOAL_MB,
    PEERS,
    RIVALS,
    ROUNDS_GOAL,
    SCENARIOS,
)

Times = dict[str, float]  # CPU seconds by peer


class RoundCosts(NamedTuple):
    fifty: float
    hundred: float
    early: float  # a round near the 10th
    late: float  # a round near the 90th


class Verdict(NamedTuple):
    what: str
    figure: float
    limit: float
    unit: str

    def line(self) -> str:
        mark = "pass" if self.figure <= self.limit else "MISS"
        return f"  {mark}  {self.what}: {self.figure:.2f}{self.unit} (at most {self.limit:.2f})"


def show_times(name: str, times: Times) -> None:
    print(f"\n{SCENARIOS[name].title:<32}{'CPU ms':>10}{'x floor':>10}{'x openai':>10}")
    for peer, spent in times.items():
        rival = times[RIVALS.get(peer, "openai")] if peer != "openai-sync" else times[peer]
        floor = times[FLOOR]
        print(
            f"  {PEERS[peer]:<30}{spent * 1e3:>10.2f}{spent / floor:>10.2f}{spent / rival:>10.2f}"
        )


def show_rounds(costs: dict[str, RoundCosts]) -> None:
    print(
        f"\n{'rounds':<32}{'50, ms':>10}{'100, ms':>10}{'10th, ms':>10}{'90th, ms':>10}{'ratio':>8}"
    )
    for peer, cost in costs.items():
        figures = "".join(f"{seconds * 1e3:>10.2f}" for seconds in cost)
        print(f"  {PEERS[peer]:<30}{figures}{cost.late / cost.early:>8.2f}")


def show_imports(times: Times) -> None:
    print(f"\n{'import':<32}{'CPU s':>10}")
    for module, spent in times.items():
        figure = f"{spent:>10.3f}" if spent != float("inf") else f"{'fails':>10}"
        print(f"  {module:<30}{figure}")


def show_memory(grown: dict[str, float], runs: int) -> None:
    print(f"\n{f'memory over {runs:,} runs':<32}{'MB per 1,000':>14}")
    for peer, megabytes in grown.items():
        print(f"  {PEERS[peer]:<30}{megabytes:>14.3f}")


SHORT = {
    FLOOR: "aiohttp loop",
    "windlass": "windlass",
    "windlass-sync": "windlass, sync",
    "openai": "openai SDK",
    "openai-sync": "openai SDK, sync",
}
"""The peers in the order and with the names that a plot shows."""


def plots(times: dict[str, Times], imports: Times) -> dict[str, Plot]:
    """CPU of each measured scenario, and of the imports."""
    found = {
        name: Plot(
            SCENARIOS[name].title[0].upper() + SCENARIOS[name].title[1:],
            "CPU milliseconds",
            {SHORT[peer]: round(spent[peer] * 1e3, 3) for peer in SHORT if peer in spent},
        )
        for name, spent in times.items()
    }
    if imports:
        seconds = {name: imports[name] * 1e3 for name in ("aiohttp", "windlass", "openai")}
        bars = {name: round(spent, 1) for name, spent in seconds.items() if spent < 1e9}
        found["import"] = Plot("Import of the package", "CPU milliseconds", bars)
    return found


def verdicts(
    times: dict[str, Times],
    costs: dict[str, RoundCosts],
    imports: Times,
    grown: dict[str, float],
) -> list[Verdict]:
    found: list[Verdict] = []
    for goal in GOALS:
        title, spent = SCENARIOS[goal.scenario].title, times.get(goal.scenario, {})
        if goal.of_floor and "windlass" in spent:
            ratio = spent["windlass"] / spent[FLOOR]
            found.append(Verdict(f"{title}, async", ratio, goal.of_floor, "x floor"))
        for ours, rival in RIVALS.items():
            if ours in spent:
                what = f"{title}, {PEERS[ours].partition(', ')[2]}"
                found.append(Verdict(what, spent[ours] / spent[rival], goal.of_rival, "x openai"))
    if "windlass" in costs and "windlass" in imports:
        found.append(Verdict("import", imports["windlass"], IMPORT_GOAL_SECONDS, " s CPU"))
    for peer, megabytes in grown.items():
        found.append(Verdict(f"memory, {PEERS[peer]}", megabytes, MEMORY_GOAL_MB, " MB per 1,000"))
    if cost := costs.get("windlass"):
        found.append(Verdict("90th round to 10th", cost.late / cost.early, ROUNDS_GOAL, "x"))
    return found


def show_verdicts(found: list[Verdict]) -> None:
    print("\ngoals")
    for verdict in found:
        print(verdict.line())
    if not found:
        print("  windlass is absent: nothing to judge")


def middle(samples: dict[str, list[float]]) -> Times:
    return {peer: median(values) for peer, values in samples.items()}
