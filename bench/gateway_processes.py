"""Requests a second of two processes of the gateway, beside one.

    make bench ARGS="--only processes"

The load and the upstream need cores of their own: on two cores they compete with the gateway, and
the ratio shows what they leave. CPU of a request, over all processes, is the stable figure.
"""

from pathlib import Path
from statistics import median

import gateway
from gateway_load import cpu_seconds
from report import Verdict

MIN_RATIO = 1.8
AT_ONCE = 64
SERVERS = {"windlass": "one process", "two_processes": "two processes"}


def show(quick: bool) -> list[Verdict]:
    what = gateway.SCENARIOS["answer"]
    requests, samples = (640, 2) if quick else (6_400, 5)
    rates: dict[str, list[float]] = {name: [] for name in SERVERS}
    costs: dict[str, list[float]] = {name: [] for name in SERVERS}
    with gateway.bench(*SERVERS) as running:
        for _ in range(samples):
            for name in SERVERS:
                server = running.servers[name]
                who = gateway.Contender(name, name, "openai")
                before = all_cpu_seconds(server.pid)
                rates[name].append(running.sample(who, what, AT_ONCE, requests).rate)
                costs[name].append((all_cpu_seconds(server.pid) - before) / (requests + AT_ONCE))
    print(f"\n{'one answer, ' + str(AT_ONCE) + ' at once':<40}{'req/s':>10}{'CPU ms':>10}")
    for name, title in SERVERS.items():
        cost = median(costs[name]) * 1e3
        print(f"  {title:<38}{median(rates[name]):>10.0f}{cost:>10.3f}")
    ratio = median(rates["windlass"]) / median(rates["two_processes"])
    return [Verdict("throughput of one process", ratio, 1 / MIN_RATIO, "x two processes")]


def all_cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_seconds(pid) + sum(cpu_seconds(int(child)) for child in children)
