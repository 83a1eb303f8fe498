"""The gateway beside a pass-through: CPU of a request, requests a second, added latency, memory.

Every server is a process of its own, and so are the upstream and the load. CPU as a multiple of the
pass-through is the stable figure; requests a second and latency depend on who else is at work here.
Latency is what a server adds to the upstream's own; with a tool, that holds a second request too.
"""

import json
import pstats
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gateway_tools
from gateway_servers import KEY, SCRIPTS, Server, resident_mb, served
from processes import Worker, python
from report import Verdict
from scenarios import MEMORY_GOAL_MB

PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
DECLARED = [gateway_tools.get_weather, gateway_tools.search_notes, gateway_tools.send_mail]
WARM_REQUESTS = 10_000
LEAST_FOR_MEMORY = 2_000


class Scenario(NamedTuple):
    title: str
    script: str
    stream: bool
    requests: dict[int, int]  # in one sample, by concurrency
    samples: int = 5
    judged: bool = True


SCENARIOS = {
    "answer": Scenario("one answer", "answer", False, {1: 300, 32: 960, 128: 1280}),
    "burst": Scenario("100 tokens in one burst", "answer", True, {1: 100, 32: 320, 128: 384}),
    "live": Scenario("100 tokens, one every 20 ms", "live", True, {32: 32, 128: 128}, samples=3),
    "tool": Scenario("one tool", "tool", False, {1: 200, 32: 640, 128: 768}, judged=False),
    "tool_burst": Scenario(
        "one tool, then a burst", "tool", True, {1: 100, 32: 320, 128: 384}, judged=False
    ),
}


class Contender(NamedTuple):
    title: str
    server: str
    model: str  # what comes before the script's name
    goal: float | None = None  # CPU, as a multiple of the floor's
    share: float = 1  # of a sample's requests
    most: int = 128  # at once
    scripts: tuple[str, ...] = SCRIPTS


CONTENDERS = {
    "direct": Contender("upstream alone", "upstream", "bench"),
    "floor": Contender("pass-through (floor)", "floor", "bench"),
    "windlass": Contender("windlass -> OpenAI", "windlass", "openai", goal=1.5),
    "gemini": Contender("windlass -> Gemini", "windlass", "gemini", goal=2.0),
    "litellm": Contender(
        "litellm -> OpenAI", "litellm", "openai", share=0.1, most=1, scripts=("answer",)
    ),
}
PROFILED = ("windlass", "gemini", "floor")


class Figures(NamedTuple):
    rate: float
    cpu: float
    p50: float
    p99: float
    first: float


class Bench:
    """The upstream, the load and the servers, while they run."""

    def __init__(self, stack: ExitStack) -> None:
        child = stack.enter_context(python("gateway_upstream.py"))
        assert child.stdout
        upstream = Server(int(child.stdout.readline()), child.pid)
        self.root = f"http://127.0.0.1:{upstream.port}"
        self.servers = {"upstream": upstream}
        self.load = Worker(stack.enter_context(python("gateway_load.py")))

    def present(self, what: Scenario, concurrency: int) -> dict[str, Contender]:
        return {
            name: who
            for name, who in CONTENDERS.items()
            if who.server in self.servers and concurrency <= who.most and what.script in who.scripts
        }

    def sample(self, who: Contender, what: Scenario, concurrency: int, requests: int) -> Figures:
        server = self.servers[who.server]
        job = {
            "port": server.port,
            "pid": server.pid,
            "body": body(who, what),
            "concurrency": concurrency,
            "requests": requests,
            "key": KEY,
        }
        heard = self.load.ask(json.dumps(job))
        rate = requests / heard.pop("seconds")
        return Figures(rate=rate, **heard)


@contextmanager
def bench(*servers: str, profile: Path | None = None) -> Iterator[Bench]:
    with ExitStack() as stack:
        made = Bench(stack)
        for name in servers:
            if server := stack.enter_context(served(name, made.root, profile)):
                made.servers[name] = server
        yield made


def body(who: Contender, what: Scenario) -> str:
    """The client's request. The tools that a gateway runs are its own: the client sends none."""
    model = f"{who.model}-{what.script}"
    if who.server == "upstream":
        model = model.replace("tool", "answer")  # nobody there to run the tool
    fields: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    if not (what.script == "tool" and who.server == "windlass"):
        fields["tools"] = [declared(tool) for tool in DECLARED]
    if what.stream:
        fields["stream"] = True
    return json.dumps(fields, separators=(",", ":"))


def declared(tool: Any) -> dict[str, object]:
    known = tool.declaration
    function = {
        "name": known.name,
        "description": known.description,
        "parameters": known.parameters,
    }
    return {"type": "function", "function": function}


def measured(running: Bench, what: Scenario, concurrency: int, quick: bool) -> dict[str, Figures]:
    """The medians of interleaved samples, by contender."""
    present = running.present(what, concurrency)
    names = list(present)
    share = 0.25 if quick else 1
    heard: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(2 if quick else what.samples):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            who = present[name]
            requests = max(int(what.requests[concurrency] * who.share * share), concurrency)
            heard[name].append(running.sample(who, what, concurrency, requests))
    return {
        name: Figures(*(median(values) for values in zip(*figures, strict=True)))
        for name, figures in heard.items()
    }


def show_figures(what: Scenario, concurrency: int, by_name: dict[str, Figures]) -> None:
    direct, floor = by_name["direct"], by_name["floor"]
    columns = ["req/s", "CPU ms", "x floor", "goal", "+p50 ms", "+p99 ms"]
    columns += ["+first ms"] if what.stream else []
    title = f"{what.title}, {concurrency} at once"
    print(f"\n{title:<40}" + "".join(f"{column:>10}" for column in columns))
    for name, its in by_name.items():
        added = [its.p50 - direct.p50, its.p99 - direct.p99]
        added += [its.first - direct.first] if what.stream else []
        later = "".join(f"{seconds * 1e3:>10.2f}" for seconds in added)
        who = CONTENDERS[name]
        goal = who.goal if who.goal and what.judged else ""
        cpu = f"{its.cpu * 1e3:>10.3f}{its.cpu / floor.cpu:>10.2f}{goal:>10}"
        print(f"  {who.title:<38}{its.rate:>10.0f}{cpu}{later}")


def show(quick: bool) -> list[Verdict]:
    """Measures and prints; what the goals say to it."""
    worst: dict[tuple[str, str], float] = {}
    with bench("floor", "windlass", "litellm") as running:
        for key, what in SCENARIOS.items():
            for concurrency in what.requests:
                by_name = measured(running, what, concurrency, quick)
                show_figures(what, concurrency, by_name)
                for name, its in by_name.items():
                    ratio = its.cpu / by_name["floor"].cpu
                    worst[key, name] = max(worst.get((key, name), 0), ratio)
    # A short run says nothing of memory: the gateway keeps its last runs, and must have them first.
    return cpu_verdicts(worst) + ([] if quick else memory(WARM_REQUESTS))


def cpu_verdicts(worst: dict[tuple[str, str], float]) -> list[Verdict]:
    return [
        Verdict(f"gateway, {SCENARIOS[key].title}, {who.title}", ratio, who.goal, "x floor")
        for (key, name), ratio in worst.items()
        if (who := CONTENDERS[name]).goal and SCENARIOS[key].judged
    ]


def memory(requests: int) -> list[Verdict]:
    """Resident memory at ten points of so many requests, after those that warm the gateway up."""
    with bench("windlass") as running:
        if "windlass" not in running.servers:
            return []
        pid = running.servers["windlass"].pid
        print(f"\n{'memory of the gateway':<40}{'MB':>10}")
        spend(running, WARM_REQUESTS)
        begun = now = resident_mb(pid)
        print(f"  {f'after {WARM_REQUESTS:,} requests':<38}{begun:>10.1f}")
        for point in range(1, 11):
            spend(running, requests // 10)
            now = resident_mb(pid)
            print(f"  {f'and {requests * point // 10:,} more':<38}{now:>10.1f}")
    grown = (now - begun) / requests * 1000
    return [Verdict("gateway, memory", grown, MEMORY_GOAL_MB, " MB per 1,000")]


def spend(running: Bench, requests: int) -> None:
    """So many requests, of every kind in equal parts."""
    kinds = [SCENARIOS["answer"], SCENARIOS["burst"], SCENARIOS["tool"]]
    pairs = [(CONTENDERS[name], what) for name in ("windlass", "gemini") for what in kinds]
    for who, what in pairs:
        running.sample(who, what, 32, max(requests // len(pairs) - 32, 1))


def profile(key: str, name: str) -> None:
    """Prints where the gateway's time goes. Its start is in it too."""
    what, who = SCENARIOS[key], CONTENDERS[name]
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "profile")
        with bench(who.server, profile=written) as running:
            if who.server in running.servers:
                running.sample(who, what, 32, what.requests[32] * 10)
        if written.exists():
            pstats.Stats(str(written)).sort_stats("tottime").print_stats(40)
