"""Compares two gateways with one, on one NATS server: the cost of a run with a remote tool.

Each gateway, worker and NATS server runs in a separate process, and so do the upstream and the two
loads, which share the requests. The CPU time of each process is the stable figure. If there are
more processes than cores, the requests per second show the limit of the machine, and not the effect
of a second gateway.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import NamedTuple

from fleet_servers import SETUPS, Fleet, fleet
from gateway_load import cpu_seconds
from gateway_servers import KEY, Server
from processes import Worker, python
from report import Verdict

PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
LOADS = 2
GOAL = 1.25
"""The maximum CPU of a run on two gateways, as a multiple of one gateway.

It is more than 1, because a gateway with half of the load combines fewer events into one write.
"""


class Scenario(NamedTuple):
    title: str
    model: str
    setups: tuple[str, ...]
    concurrency: int  # of each load
    requests: int
    samples: int


SCENARIOS = {
    "burst": Scenario("one tool, then 100 tokens", "tool", tuple(SETUPS), 16, 128, 5),
    "live": Scenario("100 tokens in 2 s", "live", ("own", "sqlite", "nats", "two"), 64, 64, 2),
}


class Figures(NamedTuple):
    rate: float
    gateways: float  # CPU seconds of a run
    worker: float
    nats: float
    p50: float
    p99: float

    @property
    def cpu(self) -> float:
        return self.gateways + self.worker + self.nats


@contextmanager
def loads() -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        yield [Worker(stack.enter_context(python("gateway_load.py"))) for _ in range(LOADS)]


def body(model: str) -> str:
    messages = [{"role": "user", "content": PROMPT}]
    return json.dumps({"model": model, "messages": messages, "stream": True})


def send_requests(
    senders: list[Worker], gateways: list[Server], model: str, concurrency: int, requests: int
) -> list[dict[str, float]]:
    """Sends this many requests from each load. The loads are distributed over the gateways."""
    for number, load in enumerate(senders):
        server = gateways[number % len(gateways)]
        job = {"port": server.port, "pid": server.pid, "body": body(model), "key": KEY}
        job |= {"concurrency": concurrency, "requests": requests}
        print(json.dumps(job), file=load.child.stdin, flush=True)
    return [load.read_answer() for load in senders]


def take_sample(
    running: Fleet, name: str, senders: list[Worker], scenario: Scenario, requests: int
) -> Figures:
    gateways = running.gateways[name]
    groups = [[server.pid for server in gateways], [running.worker], [running.nats]]
    before = [sum(map(cpu_seconds, group)) for group in groups]
    answers = send_requests(senders, gateways, scenario.model, scenario.concurrency, requests)
    runs = LOADS * (requests + scenario.concurrency)  # the warm-up requests cost the same
    after = [sum(map(cpu_seconds, group)) for group in groups]
    cpu = [(end - begin) / runs for begin, end in zip(before, after, strict=True)]
    rate = sum(requests / answer["seconds"] for answer in answers)
    p50, p99 = (median(answer[key] for answer in answers) for key in ("p50", "p99"))
    return Figures(rate, cpu[0], cpu[1], cpu[2], p50, p99)


def measure(
    running: Fleet, senders: list[Worker], scenario: Scenario, quick: bool
) -> dict[str, Figures]:
    """Returns the median of each figure, by setup. The samples of the setups alternate."""
    samples: dict[str, list[Figures]] = {name: [] for name in scenario.setups}
    names = list(scenario.setups)
    requests = max(scenario.requests // 4, scenario.concurrency) if quick else scenario.requests
    for number in range(1 if quick else scenario.samples):
        offset = number % len(names)
        for name in names[offset:] + names[:offset]:
            samples[name].append(take_sample(running, name, senders, scenario, requests))
    return {
        name: Figures(*(median(values) for values in zip(*figures, strict=True)))
        for name, figures in samples.items()
    }


def show(quick: bool) -> list[Verdict]:
    with fleet(SETUPS) as running, loads() as senders:
        burst = SCENARIOS["burst"]
        for name in SETUPS:  # a warm-up
            take_sample(running, name, senders, burst, burst.concurrency)
        figures = {
            key: measure(running, senders, scenario, quick) for key, scenario in SCENARIOS.items()
        }
    for key, by_name in figures.items():
        show_figures(SCENARIOS[key], by_name)
    ratio = figures["burst"]["two"].cpu / figures["burst"]["nats"].cpu
    return [Verdict("CPU of a run on two gateways, to one gateway", ratio, GOAL, "x")]


def show_figures(scenario: Scenario, by_name: dict[str, Figures]) -> None:
    columns = ["runs/s", "CPU ms", "gateway", "worker", "NATS", "x own", "p50 ms", "p99 ms"]
    title = f"{scenario.title}; {LOADS * scenario.concurrency} concurrent"
    print(f"\n{title:<40}" + "".join(f"{column:>9}" for column in columns))
    for name, figures in by_name.items():
        cpu = [figures.cpu, figures.gateways, figures.worker, figures.nats]
        cells = "".join(f"{seconds * 1e3:>9.2f}" for seconds in cpu)
        cells += f"{figures.cpu / by_name['own'].cpu:>9.2f}"
        latencies = "".join(f"{seconds * 1e3:>9.1f}" for seconds in (figures.p50, figures.p99))
        print(f"  {SETUPS[name].title:<38}{figures.rate:>9.0f}{cells}{latencies}")
