"""Windlass beside a raw aiohttp loop and the openai SDK: CPU, memory, import, in one run.

    python bench/run.py                       everything, about twenty minutes
    python bench/run.py --quick               the same with fewer samples, some two
    python bench/run.py --only tokens         one scenario, or several
    python bench/run.py --profile one_tool    where Windlass's time goes
    python bench/run.py --profile gateway-live --peer gemini      and the gateway's
    python bench/run.py --profile remote      and a remote call's, on both sides
    python bench/run.py --memory 100000       the gateway's memory over so many requests

The figures beside the peers become plots in docs/images/bench.

Every peer is a process of its own, and so is the upstream. Samples are interleaved, a figure is the
median of its samples, and only ratios mean anything: the milliseconds are this machine's.
"""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any

import aistudio
import durable
import fleet
import gateway
import gateway_processes
import gateway_streams
import kept_runs
import mcp_calls
import metrics
import parser as parser_bench
import plots
import remote
import report
import sizing
import typed
import worker as worker_module
from processes import Worker, import_cpu, upstream, workers
from scenarios import PEERS, SCENARIOS, Scenario

FIRST_CLIENT = (
    "import windlass; windlass.Client('openai/x', base_url='http://localhost', api_key='x')"
)
IMPORTS = {
    "python alone": "pass",
    "aiohttp": "import aiohttp",
    "openai": "import openai",
    "windlass": "import windlass",
    "windlass, and a first client": FIRST_CLIENT,
}
APART: dict[str, Callable[[bool], list[report.Verdict] | None]] = {
    "parser": parser_bench.show,
    "aistudio": aistudio.show,
    "gateway": gateway.show,
    "processes": gateway_processes.show,
    "streams": gateway_streams.show_streams,
    "readers": gateway_streams.show_readers,
    "durable": durable.show,
    "kept": kept_runs.bench,
    "mcp": mcp_calls.show,
    "metrics": metrics.show,
    "remote": remote.show,
    "fleet": fleet.show,
    "sizing": sizing.show,
    "typed": typed.show,
}
"""Benchmarks that need neither the upstream nor the peers. Some have goals."""
EXTRAS = ("rounds", "import", "memory", *APART)
GATEWAY_PROFILES = {f"gateway-{name}": name for name in gateway.SCENARIOS}


def turned(names: list[str], by: int) -> list[str]:
    """The names in rotation, so that none is always first."""
    by %= len(names)
    return names[by:] + names[:by]


def measured(found: dict[str, Worker], name: str, scenario: Scenario, quick: bool) -> report.Times:
    samples = max(scenario.samples // 4, 1) if quick else scenario.samples
    runs = max(scenario.runs // 5, 1) if quick and not scenario.concurrent else scenario.runs
    spent: dict[str, list[float]] = {peer: [] for peer in found}
    for worker in found.values():
        worker.ask("sample", name, max(runs // 4, 1))  # to warm up; does not count
    for number in range(samples):
        for peer in turned(list(found), number):
            seconds = found[peer].ask("sample", name, runs)
            spent[peer].append(seconds / runs * scenario.unit_runs)
    return report.middle(spent)


def measured_rounds(found: dict[str, Worker], quick: bool) -> dict[str, report.RoundCosts]:
    heard: dict[str, list[tuple[Any, Any]]] = {peer: [] for peer in found}
    for number in range(1 if quick else 5):
        for peer in turned(list(found), number):
            heard[peer].append((found[peer].ask("rounds", 50), found[peer].ask("rounds", 100)))
    return {peer: round_costs(pairs) for peer, pairs in heard.items()}


def round_costs(pairs: list[tuple[Any, Any]]) -> report.RoundCosts:
    return report.RoundCosts(
        fifty=median(fifty["total"] for fifty, _ in pairs),
        hundred=median(hundred["total"] for _, hundred in pairs),
        early=median(cost for _, hundred in pairs for cost in hundred["each"][5:15]),
        late=median(cost for _, hundred in pairs for cost in hundred["each"][85:95]),
    )


def measured_imports(quick: bool) -> report.Times:
    spent: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for code in IMPORTS.values():
        import_cpu(code)
    for _ in range(1 if quick else 9):
        for name, code in IMPORTS.items():
            spent[name].append(import_cpu(code))
    times = report.middle(spent)
    bare = times.pop("python alone")
    return {name: seconds - bare for name, seconds in times.items()}


def bench(quick: bool, only: list[str]) -> None:
    wanted = only or [*SCENARIOS, *EXTRAS]
    judged = [bench_clients(quick, wanted)] if set(wanted) - set(APART) else []
    for name, show in APART.items():
        if name in wanted and (found := show(quick)) is not None:
            judged.append(found)
    if judged:
        report.show_verdicts([verdict for found in judged for verdict in found])


def bench_clients(quick: bool, wanted: list[str]) -> list[report.Verdict]:
    times: dict[str, report.Times] = {}
    costs: dict[str, report.RoundCosts] = {}
    imports: report.Times = {}
    grown: dict[str, float] = {}
    with upstream() as base_url, ExitStack() as stack:
        found = workers(list(PEERS), base_url, stack)
        for name, scenario in SCENARIOS.items():
            if name in wanted:
                times[name] = measured(found, name, scenario, quick)
                report.show_times(name, times[name])
        if "rounds" in wanted:
            # The SDK's long runs take seconds each.
            chosen = {p: w for p, w in found.items() if not (quick and p.startswith("openai"))}
            costs = measured_rounds(chosen, quick)
            report.show_rounds(costs)
        if "import" in wanted:
            imports = measured_imports(quick)
            report.show_imports(imports)
        if "memory" in wanted:
            runs = 1_000 if quick else 10_000
            ours = [peer for peer in found if peer == "windlass"]
            grown = {peer: found[peer].ask("memory", runs) for peer in ours}
            report.show_memory(grown, runs)
    plots.draw(report.plots(times, imports))
    return report.verdicts(times, costs, imports, grown)


def profile(name: str, peer: str) -> None:
    if name == "remote":
        remote.profile()
        return
    if name in GATEWAY_PROFILES:
        gateway.profile(GATEWAY_PROFILES[name], peer)
        return
    with upstream() as base_url:
        drive = worker_module.driver(peer, base_url)
        worker_module.profile(drive, SCENARIOS[name])
        drive.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*SCENARIOS, *EXTRAS], default=[])
    parser.add_argument("--profile", choices=[*SCENARIOS, *GATEWAY_PROFILES, "remote"])
    parser.add_argument(
        "--peer",
        choices={**PEERS, **dict.fromkeys(gateway.PROFILED)},
        default="windlass",
        help="whom to profile",
    )
    parser.add_argument(
        "--memory", type=int, metavar="REQUESTS", help="the gateway's, and its pauses"
    )
    options = parser.parse_args()
    profiled = gateway.PROFILED if options.profile in GATEWAY_PROFILES else list(PEERS)
    if options.profile and options.peer not in profiled:
        parser.error(f"--peer of {options.profile} is one of {', '.join(profiled)}")
    if options.memory is not None and options.memory < gateway.LEAST_FOR_MEMORY:
        parser.error(f"--memory takes {gateway.LEAST_FOR_MEMORY:,} requests or more")
    if options.profile:
        profile(options.profile, options.peer)
    elif options.memory:
        report.show_verdicts(gateway.memory(options.memory))
    else:
        bench(options.quick, options.only)


if __name__ == "__main__":
    main()
