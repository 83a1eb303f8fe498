"""Prints the figures of the benchmarks as tables, and checks the goals of Windlass."""

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
    goal: str
    figure: float
    limit: float
    unit: str

    def line(self) -> str:
        mark = "pass" if self.figure <= self.limit else "MISS"
        return f"  {mark}  {self.goal}: {self.figure:.2f}{self.unit} (at most {self.limit:.2f})"


def show_times(name: str, times: Times) -> None:
    print(f"\n{SCENARIOS[name].title:<32}{'CPU ms':>10}{'x floor':>10}{'x openai':>10}")
    for peer, seconds in times.items():
        rival = times[RIVALS.get(peer, "openai")] if peer != "openai-sync" else times[peer]
        floor = times[FLOOR]
        ratios = f"{seconds / floor:>10.2f}{seconds / rival:>10.2f}"
        print(f"  {PEERS[peer]:<30}{seconds * 1e3:>10.2f}{ratios}")


def show_rounds(costs: dict[str, RoundCosts]) -> None:
    print(
        f"\n{'rounds':<32}{'50, ms':>10}{'100, ms':>10}{'10th, ms':>10}{'90th, ms':>10}{'ratio':>8}"
    )
    for peer, cost in costs.items():
        figures = "".join(f"{seconds * 1e3:>10.2f}" for seconds in cost)
        print(f"  {PEERS[peer]:<30}{figures}{cost.late / cost.early:>8.2f}")


def show_imports(times: Times) -> None:
    print(f"\n{'import':<32}{'CPU s':>10}")
    for module, seconds in times.items():
        figure = f"{seconds:>10.3f}" if seconds != float("inf") else f"{'failed':>10}"
        print(f"  {module:<30}{figure}")


def show_memory(memory_growth: dict[str, float], runs: int) -> None:
    print(f"\n{f'memory over {runs:,} runs':<32}{'MB per 1,000':>14}")
    for peer, megabytes in memory_growth.items():
        print(f"  {PEERS[peer]:<30}{megabytes:>14.3f}")


SHORT = {
    FLOOR: "aiohttp loop",
    "windlass": "windlass",
    "windlass-sync": "windlass, sync",
    "openai": "openai SDK",
    "openai-sync": "openai SDK, sync",
}
"""The peers of a plot, in order, with their labels."""


def plots(times: dict[str, Times], imports: Times) -> dict[str, Plot]:
    """A plot of the CPU time of each measured scenario, and one of the imports."""
    charts = {
        name: Plot(
            SCENARIOS[name].title[0].upper() + SCENARIOS[name].title[1:],
            "CPU milliseconds",
            {SHORT[peer]: round(seconds[peer] * 1e3, 3) for peer in SHORT if peer in seconds},
        )
        for name, seconds in times.items()
    }
    if imports:
        packages = ("aiohttp", "windlass", "openai")
        # A failed import takes infinite time, and has no bar.
        bars = {name: round(imports[name] * 1e3, 1) for name in packages if imports[name] < 1e6}
        charts["import"] = Plot("Import of the package", "CPU milliseconds", bars)
    return charts


def verdicts(
    times: dict[str, Times],
    costs: dict[str, RoundCosts],
    imports: Times,
    growth: dict[str, float],
) -> list[Verdict]:
    results: list[Verdict] = []
    for goal in GOALS:
        title, seconds = SCENARIOS[goal.scenario].title, times.get(goal.scenario, {})
        if goal.of_floor and "windlass" in seconds:
            ratio = seconds["windlass"] / seconds[FLOOR]
            results.append(Verdict(f"{title}, async", ratio, goal.of_floor, "x floor"))
        for ours, rival in RIVALS.items():
            if ours in seconds:
                goal_text = f"{title}, {PEERS[ours].partition(', ')[2]}"
                results.append(
                    Verdict(goal_text, seconds[ours] / seconds[rival], goal.of_rival, "x openai")
                )
    if "windlass" in costs and "windlass" in imports:
        results.append(Verdict("import", imports["windlass"], IMPORT_GOAL_SECONDS, " s CPU"))
    for peer, megabytes in growth.items():
        results.append(
            Verdict(f"memory, {PEERS[peer]}", megabytes, MEMORY_GOAL_MB, " MB per 1,000")
        )
    if cost := costs.get("windlass"):
        results.append(Verdict("90th round to 10th", cost.late / cost.early, ROUNDS_GOAL, "x"))
    return results


def show_verdicts(verdicts: list[Verdict]) -> None:
    print("\ngoals")
    for verdict in verdicts:
        print(verdict.line())
    if not verdicts:
        print("  windlass is not installed: no goals to check")


def medians(samples: dict[str, list[float]]) -> Times:
    return {peer: median(values) for peer, values in samples.items()}
