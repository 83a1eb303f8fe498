"""Two gateways against one, on one NATS: the cost of a run with a remote tool, by process.

Every gateway, worker and NATS server has its own process, and so have the upstream and the two
loads, which share the requests. CPU by process is the stable figure. Where the processes are more
than the cores, requests a second show the limit of
this machine, not the effect of a second gateway.
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
"""CPU of a run with two gateways, as a multiple of one's: with half of the load each, they combine
fewer events in one write."""


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


def asked(
    senders: list[Worker], gateways: list[Server], model: str, concurrency: int, requests: int
) -> list[dict[str, float]]:
    """Sends this many requests from each load. The loads alternate between the gateways."""
    for number, load in enumerate(senders):
        server = gateways[number % len(gateways)]
        job = {"port": server.port, "pid": server.pid, "body": body(model), "key": KEY}
        job |= {"concurrency": concurrency, "requests": requests}
        print(json.dumps(job), file=load.child.stdin, flush=True)
    return [load.heard() for load in senders]


def sample(
    running: Fleet, name: str, senders: list[Worker], what: Scenario, requests: int
) -> Figures:
    gateways = running.gateways[name]
    groups = [[server.pid for server in gateways], [running.worker], [running.nats]]
    before = [sum(map(cpu_seconds, group)) for group in groups]
    heard = asked(senders, gateways, what.model, what.concurrency, requests)
    runs = LOADS * (requests + what.concurrency)  # the warm-up requests cost the same
    after = [sum(map(cpu_seconds, group)) for group in groups]
    spent = [(end - begin) / runs for begin, end in zip(before, after, strict=True)]
    rate = sum(requests / each["seconds"] for each in heard)
    p50, p99 = (median(each[key] for each in heard) for key in ("p50", "p99"))
    return Figures(rate, spent[0], spent[1], spent[2], p50, p99)


def measured(
    running: Fleet, senders: list[Worker], what: Scenario, quick: bool
) -> dict[str, Figures]:
    """The medians of interleaved samples, by setup."""
    heard: dict[str, list[Figures]] = {name: [] for name in what.setups}
    names = list(what.setups)
    requests = max(what.requests // 4, what.concurrency) if quick else what.requests
    for number in range(1 if quick else what.samples):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            heard[name].append(sample(running, name, senders, what, requests))
    return {
        name: Figures(*(median(values) for values in zip(*found, strict=True)))
        for name, found in heard.items()
    }


def show(quick: bool) -> list[Verdict]:
    with fleet(SETUPS) as running, loads() as senders:
        burst = SCENARIOS["burst"]
        for name in SETUPS:  # to warm up
            sample(running, name, senders, burst, burst.concurrency)
        found = {key: measured(running, senders, what, quick) for key, what in SCENARIOS.items()}
    for key, by_name in found.items():
        show_figures(SCENARIOS[key], by_name)
    ratio = found["burst"]["two"].cpu / found["burst"]["nats"].cpu
    return [Verdict("a run on two gateways, CPU to one's", ratio, GOAL, "x")]


def show_figures(what: Scenario, by_name: dict[str, Figures]) -> None:
    columns = ["runs/s", "CPU ms", "gateway", "worker", "NATS", "x own", "p50 ms", "p99 ms"]
    title = f"{what.title}; {LOADS * what.concurrency} at once"
    print(f"\n{title:<40}" + "".join(f"{column:>9}" for column in columns))
    for name, its in by_name.items():
        spent = [its.cpu, its.gateways, its.worker, its.nats]
        cells = "".join(f"{seconds * 1e3:>9.2f}" for seconds in spent)
        cells += f"{its.cpu / by_name['own'].cpu:>9.2f}"
        later = "".join(f"{seconds * 1e3:>9.1f}" for seconds in (its.p50, its.p99))
        print(f"  {SETUPS[name].title:<38}{its.rate:>9.0f}{cells}{later}")
