"""Measures durable runs: what a log costs a run, and how fast a long log is read.

Each kind of log runs in a separate process, and their samples alternate. CPU is the time of all
threads of the process, including the writer. The wall time is the time that a run waits. With
`full`, this is the time of the disk.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from durable_scenarios import CASES, GOALS, LOGS, READING_GOAL, Case
from processes import HERE, Worker, import_cpu, python, upstream
from report import Verdict

CLIENT = "import windlass; windlass.Client('openai/x', base_url='http://localhost', api_key='x'{})"
IMPORTS = {
    "a first client": CLIENT.format(""),
    "a first client with a log": CLIENT.format(", log='runs.db'"),
}
LOADED = "; import sys; print('sqlite3' in sys.modules)"
EVENTS = 100_000


class Cost(NamedTuple):
    cpu: float
    wall: float


Costs = dict[str, Cost]  # seconds by kind of log


def show(quick: bool) -> list[Verdict]:
    costs: dict[str, Costs] = {}
    with upstream() as base_url, ExitStack() as stack:
        workers = {
            log: Worker(stack.enter_context(python("durable_worker.py", log, base_url)))
            for log in LOGS
        }
        for name, case in CASES.items():
            costs[name] = measure_case(workers, name, case, quick)
            show_costs(case.title, costs[name])
    show_costs("each further tool round", further_round(costs["tool"], costs["rounds"]))
    verdicts = [
        Verdict(f"{CASES[name].title}, SQLite to memory", ratio(costs[name]), goal, "x")
        for name, goal in GOALS.items()
    ]
    return [*verdicts, *show_reading(quick), show_unused(quick)]


def measure_case(workers: dict[str, Worker], name: str, case: Case, quick: bool) -> Costs:
    sample_count = max(case.samples // 4, 1) if quick else case.samples
    runs = max(case.runs // 5, 1) if quick and not case.concurrent else case.runs
    samples_by_log: dict[str, list[Cost]] = {log: [] for log in workers}
    for number in range(sample_count + 1):
        for log, cost in sample_each_log(workers, name, runs, number, case.all_at_once).items():
            if number or sample_count == 1:  # the first sample is a warm-up
                samples_by_log[log].append(
                    Cost(*(each / runs * case.runs_per_figure for each in cost))
                )
    return {
        log: Cost(*map(median, zip(*costs, strict=True))) for log, costs in samples_by_log.items()
    }


def sample_each_log(
    workers: dict[str, Worker], name: str, runs: int, number: int, all_at_once: bool
) -> dict[str, list[float]]:
    """Takes one sample of each log. Another log comes first each time."""
    logs = list(workers)
    logs = logs[number % len(logs) :] + logs[: number % len(logs)]
    if not all_at_once:
        return {log: workers[log].ask(name, runs) for log in logs}
    for log in logs:
        print(name, runs, file=workers[log].child.stdin, flush=True)
    return {log: workers[log].read_answer() for log in logs}


def further_round(tool: Costs, rounds: Costs) -> Costs:
    return {
        log: Cost(*((many - one) / 9 for one, many in zip(tool[log], rounds[log], strict=True)))
        for log in tool
    }


def ratio(costs: Costs) -> float:
    return costs["normal"].cpu / costs["memory"].cpu


def show_costs(title: str, costs: Costs) -> None:
    print(f"\n{title:<32}{'CPU ms':>10}{'x memory':>10}{'wall ms':>10}")
    for log, cost in costs.items():
        share = cost.cpu / costs["memory"].cpu
        print(f"  {LOGS[log]:<30}{cost.cpu * 1e3:>10.2f}{share:>10.2f}{cost.wall * 1e3:>10.2f}")


def show_reading(quick: bool) -> list[Verdict]:
    command = [sys.executable, "durable_reading.py", str(EVENTS), "1" if quick else "7"]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, check=True)
    costs = {name: Cost(*cost) for name, cost in json.loads(done.stdout).items()}
    print(f"\n{f'a log of {EVENTS:,} events':<52}{'CPU ms':>10}{'wall ms':>10}")
    for name, cost in costs.items():
        print(f"  {name:<50}{cost.cpu * 1e3:>10.1f}{cost.wall * 1e3:>10.1f}")
    floor, read = costs["floor: fetch the rows and decode their JSON"], costs["read"]
    return [Verdict("reading a log, to the floor", read.cpu / floor.cpu, READING_GOAL, "x")]


def show_unused(quick: bool) -> Verdict:
    """Measures a client without a log, and checks that it loads no module of the log."""
    print(f"\n{'import':<32}{'CPU s':>10}")
    for name, code in IMPORTS.items():
        import_cpu(code)
        seconds = median(import_cpu(code) for _ in range(1 if quick else 9))
        print(f"  {name:<30}{seconds:>10.3f}")
    code = IMPORTS["a first client"] + LOADED
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    loaded = float(done.stdout.strip() != "False")
    return Verdict("SQLite modules that a client without a log loads", loaded, 0.0, "")
