"""Runs the benchmarks of Windlass.

Without options, compares the CPU time, the memory and the import of Windlass with a minimal aiohttp
loop and the openai SDK, and runs the benchmarks of the gateway and of stored and remote runs.

    python bench/run.py                       run all benchmarks, in about twenty minutes
    python bench/run.py --quick               take fewer samples, in about two minutes
    python bench/run.py --only tokens         run one benchmark, or several
    python bench/run.py --memory 100000       measure the gateway's memory over 100,000 requests
    python bench/run.py --profile one_tool    profile Windlass in a scenario
    python bench/run.py --profile gateway-live --peer gemini      profile the gateway
    python bench/run.py --profile remote      profile a remote call, in both processes

The comparisons become plots in docs/images/bench.

Each peer runs in a separate process, and so does the upstream. Samples of the peers alternate, and
a figure is the median of its samples. Compare only ratios: the milliseconds depend on the machine.
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
import mcp_calls
import metrics
import parser as parser_bench
import plots
import remote
import report
import sizing
import stored_runs
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
STANDALONE: dict[str, Callable[[bool], list[report.Verdict] | None]] = {
    "parser": parser_bench.show,
    "aistudio": aistudio.show,
    "gateway": gateway.show,
    "processes": gateway_processes.show,
    "streams": gateway_streams.show_streams,
    "readers": gateway_streams.show_readers,
    "durable": durable.show,
    "stored": stored_runs.bench,
    "mcp": mcp_calls.show,
    "metrics": metrics.show,
    "remote": remote.show,
    "fleet": fleet.show,
    "sizing": sizing.show,
    "typed": typed.show,
}
"""Benchmarks that do not use the peers. A benchmark with goals returns verdicts."""
EXTRAS = ("rounds", "import", "memory", *STANDALONE)
GATEWAY_PROFILES = {f"gateway-{name}": name for name in gateway.SCENARIOS}


def rotated(names: list[str], offset: int) -> list[str]:
    """Returns the names rotated by the offset, so that another name comes first each time."""
    offset %= len(names)
    return names[offset:] + names[:offset]


def measure_scenario(
    peers: dict[str, Worker], name: str, scenario: Scenario, quick: bool
) -> report.Times:
    sample_count = max(scenario.samples // 4, 1) if quick else scenario.samples
    runs = max(scenario.runs // 5, 1) if quick and not scenario.concurrent else scenario.runs
    seconds_by_peer: dict[str, list[float]] = {peer: [] for peer in peers}
    for worker in peers.values():
        worker.ask("sample", name, max(runs // 4, 1))  # a warm-up, which does not count
    for number in range(sample_count):
        for peer in rotated(list(peers), number):
            cpu_seconds = peers[peer].ask("sample", name, runs)
            seconds_by_peer[peer].append(cpu_seconds / runs * scenario.runs_per_figure)
    return report.medians(seconds_by_peer)


def measure_rounds(peers: dict[str, Worker], quick: bool) -> dict[str, report.RoundCosts]:
    pairs_by_peer: dict[str, list[tuple[Any, Any]]] = {peer: [] for peer in peers}
    for number in range(1 if quick else 5):
        for peer in rotated(list(peers), number):
            pair = peers[peer].ask("rounds", 50), peers[peer].ask("rounds", 100)
            pairs_by_peer[peer].append(pair)
    return {peer: round_costs(pairs) for peer, pairs in pairs_by_peer.items()}


def round_costs(pairs: list[tuple[Any, Any]]) -> report.RoundCosts:
    return report.RoundCosts(
        fifty=median(fifty["total"] for fifty, _ in pairs),
        hundred=median(hundred["total"] for _, hundred in pairs),
        early=median(cost for _, hundred in pairs for cost in hundred["each"][5:15]),
        late=median(cost for _, hundred in pairs for cost in hundred["each"][85:95]),
    )


def measure_imports(quick: bool) -> report.Times:
    samples: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for code in IMPORTS.values():
        import_cpu(code)
    for _ in range(1 if quick else 9):
        for name, code in IMPORTS.items():
            samples[name].append(import_cpu(code))
    times = report.medians(samples)
    interpreter = times.pop("python alone")
    return {name: seconds - interpreter for name, seconds in times.items()}


def bench(quick: bool, only: list[str]) -> None:
    selected = only or [*SCENARIOS, *EXTRAS]
    verdicts: list[report.Verdict] | None = None
    if set(selected) - set(STANDALONE):
        verdicts = bench_clients(quick, selected)
    for name, show in STANDALONE.items():
        if name in selected and (more := show(quick)) is not None:
            verdicts = [*(verdicts or []), *more]
    if verdicts is not None:
        report.show_verdicts(verdicts)


def bench_clients(quick: bool, selected: list[str]) -> list[report.Verdict]:
    times: dict[str, report.Times] = {}
    costs: dict[str, report.RoundCosts] = {}
    imports: report.Times = {}
    memory_growth: dict[str, float] = {}
    with upstream() as base_url, ExitStack() as stack:
        peers = workers(list(PEERS), base_url, stack)
        for name, scenario in SCENARIOS.items():
            if name in selected:
                times[name] = measure_scenario(peers, name, scenario, quick)
                report.show_times(name, times[name])
        if "rounds" in selected:
            measured = peers
            if quick:  # a long run of the SDK takes seconds
                measured = {name: peers[name] for name in peers if not name.startswith("openai")}
            costs = measure_rounds(measured, quick)
            report.show_rounds(costs)
        if "import" in selected:
            imports = measure_imports(quick)
            report.show_imports(imports)
        if "memory" in selected:
            runs = 1_000 if quick else 10_000
            if "windlass" in peers:
                memory_growth = {"windlass": peers["windlass"].ask("memory", runs)}
            report.show_memory(memory_growth, runs)
    plots.draw(report.plots(times, imports))
    return report.verdicts(times, costs, imports, memory_growth)


def profile(name: str, peer: str) -> None:
    if name == "remote":
        remote.profile()
        return
    if name in GATEWAY_PROFILES:
        gateway.profile(GATEWAY_PROFILES[name], peer)
        return
    with upstream() as base_url:
        driver = worker_module.create_driver(peer, base_url)
        worker_module.profile(driver, SCENARIOS[name])
        driver.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="take fewer samples")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*SCENARIOS, *EXTRAS],
        default=[],
        metavar="BENCHMARK",
        help=f"run only these benchmarks: {', '.join([*SCENARIOS, *EXTRAS])}",
    )
    parser.add_argument(
        "--profile",
        choices=[*SCENARIOS, *GATEWAY_PROFILES, "remote"],
        metavar="SCENARIO",
        help="print where the CPU time of a scenario goes: one of "
        + ", ".join([*SCENARIOS, *GATEWAY_PROFILES, "remote"]),
    )
    parser.add_argument(
        "--peer",
        choices={**PEERS, **dict.fromkeys(gateway.PROFILED)},
        default="windlass",
        metavar="PEER",
        help="the program to profile (default: windlass): one of "
        + ", ".join({**PEERS, **dict.fromkeys(gateway.PROFILED)}),
    )
    parser.add_argument(
        "--memory",
        type=int,
        metavar="REQUESTS",
        help="measure the gateway's memory over this number of requests, and the longest pauses of "
        f"its event loop; at least {gateway.MIN_MEMORY_REQUESTS:,}",
    )
    options = parser.parse_args()
    profilable = gateway.PROFILED if options.profile in GATEWAY_PROFILES else list(PEERS)
    if options.profile and options.peer not in profilable:
        parser.error(f"with --profile {options.profile}, --peer is one of {', '.join(profilable)}")
    if options.memory is not None and options.memory < gateway.MIN_MEMORY_REQUESTS:
        parser.error(f"--memory needs at least {gateway.MIN_MEMORY_REQUESTS:,} requests")
    if options.profile:
        profile(options.profile, options.peer)
    elif options.memory:
        report.show_verdicts(gateway.memory(options.memory))
    else:
        bench(options.quick, options.only)


if __name__ == "__main__":
    main()
