"""Durable runs: the cost of a log for a run, and the speed of reading a long log.

Every kind of log has its own process, and their samples are interleaved. CPU counts all threads of
the process, including the writer. The wall time is what a single run waits for; with `full`, it is
the time of the disk.
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
            costs[name] = measured(workers, name, case, quick)
            show_costs(case.title, costs[name])
    show_costs("each further tool round", further_round(costs["tool"], costs["rounds"]))
    found = [
        Verdict(f"{CASES[name].title}, SQLite to memory", ratio(costs[name]), goal, "x")
        for name, goal in GOALS.items()
    ]
    return [*found, *show_reading(quick), show_unused(quick)]


def measured(workers: dict[str, Worker], name: str, case: Case, quick: bool) -> Costs:
    samples = max(case.samples // 4, 1) if quick else case.samples
    runs = max(case.runs // 5, 1) if quick and not case.concurrent else case.runs
    spent: dict[str, list[Cost]] = {log: [] for log in workers}
    for number in range(samples + 1):
        for log, cost in once(workers, name, runs, number, case.together).items():
            if number or samples == 1:  # the first is to warm up
                spent[log].append(Cost(*(each / runs * case.unit_runs for each in cost)))
    return {log: Cost(*map(median, zip(*found, strict=True))) for log, found in spent.items()}


def once(
    workers: dict[str, Worker], name: str, runs: int, number: int, together: bool
) -> dict[str, list[float]]:
    """One sample of each log. Each time another log is first."""
    logs = list(workers)
    logs = logs[number % len(logs) :] + logs[: number % len(logs)]
    if not together:
        return {log: workers[log].ask(name, runs) for log in logs}
    for log in logs:
        print(name, runs, file=workers[log].child.stdin, flush=True)
    return {log: workers[log].heard() for log in logs}


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
    found = {what: Cost(*cost) for what, cost in json.loads(done.stdout).items()}
    print(f"\n{f'a log of {EVENTS:,} events':<52}{'CPU ms':>10}{'wall ms':>10}")
    for what, cost in found.items():
        print(f"  {what:<50}{cost.cpu * 1e3:>10.1f}{cost.wall * 1e3:>10.1f}")
    floor, read = found["floor: its rows, and their JSON decoded"], found["read"]
    return [Verdict("reading a log, to its floor", read.cpu / floor.cpu, READING_GOAL, "x")]


def show_unused(quick: bool) -> Verdict:
    """The cost without a log: none of its modules is loaded."""
    print(f"\n{'import':<32}{'CPU s':>10}")
    for what, code in IMPORTS.items():
        import_cpu(code)
        spent = median(import_cpu(code) for _ in range(1 if quick else 9))
        print(f"  {what:<30}{spent:>10.3f}")
    code = IMPORTS["a first client"] + LOADED
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    loaded = float(done.stdout.strip() != "False")
    return Verdict("SQLite modules that a client without a log loads", loaded, 0.0, "")
