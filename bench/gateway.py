"""Compares the gateway with a pass-through: CPU of a request, requests per second, latency, memory.

Each server runs in a separate process, and so do the upstream and the load. CPU as a multiple of
the pass-through is the stable figure. Requests per second and latency depend on what else the
machine does. The latency is the time that a server adds to the upstream's time. With a tool, it
includes a second request.
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
import plots
from gateway_servers import KEY, SCRIPTS, WITH_TOOLS, Server, resident_mb, running_server
from processes import Worker, python
from report import Verdict
from scenarios import MEMORY_GOAL_MB

PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
DECLARED = [gateway_tools.get_weather, gateway_tools.search_notes, gateway_tools.send_mail]
LONG_PROMPT = "The weather in Paris was fair again. " * 1400  # about 50 kB
MIN_MEMORY_REQUESTS = 20_000
MEMORY_REQUESTS = 20_000
MEMORY_POINTS = (10_000, 100_000, 1_000_000)
MAX_GROWTH_MB = 20.0  # after the first 10,000 requests
MAX_RESIDENT_MB = 150.0
WARM_UP = 3_000
"""Requests before the samples of a scenario: a just-in-time compiler needs some thousands."""
MEMORY_CONCURRENCY = 8
"""The number of concurrent requests while memory and pauses are measured."""


class Scenario(NamedTuple):
    title: str
    script: str
    stream: bool
    requests: dict[int, int]  # in one sample, by concurrency
    samples: int = 5
    has_goal: bool = True
    prompt: str = PROMPT


SCENARIOS = {
    "answer": Scenario("one answer", "answer", False, {1: 300, 32: 960, 128: 1280}),
    "burst": Scenario("100 tokens in one burst", "answer", True, {1: 100, 32: 320, 128: 384}),
    "live": Scenario("100 tokens, one every 20 ms", "live", True, {32: 32, 128: 128}, samples=3),
    "tool": Scenario("one tool", "tool", False, {1: 200, 32: 640, 128: 768}, has_goal=False),
    "tool_burst": Scenario(
        "one tool, then a burst", "tool", True, {1: 100, 32: 320, 128: 384}, has_goal=False
    ),
}
MEMORY_SCENARIOS = {
    "prompt": Scenario("prompts of 50 kB", "answer", False, {}, prompt=LONG_PROMPT),
}
MEMORY_SHARES = {"answer": 1.0, "burst": 1.0, "tool": 0.3, "prompt": 0.3}
"""The scenarios whose memory is measured, with their share of the requests."""
ABSOLUTE_MEMORY_GOALS = ("answer", "burst")
"""The scenarios whose memory has absolute goals: chat completions, with and without a stream."""


class Contender(NamedTuple):
    title: str
    server: str
    model: str  # the prefix of the script's name
    goal: float | None = None  # the maximum CPU, as a multiple of the floor
    share: float = 1  # the share of the requests of a sample, less than 1 for slow servers
    max_concurrency: int = 128
    scripts: tuple[str, ...] = SCRIPTS
    wire: str = "chat"  # the protocol of the client


PASS_THROUGH_SCRIPTS = ("answer", "live", "paced")
"""The scripts for a gateway that runs no tools."""
CONTENDERS = {
    "direct": Contender("upstream alone", "upstream", "bench"),
    "floor": Contender("pass-through (floor)", "floor", "bench"),
    "windlass": Contender("windlass -> OpenAI", "windlass", "openai", goal=1.5),
    "gemini": Contender("windlass -> Gemini", "windlass", "gemini", goal=2.0),
    "responses": Contender("windlass, Responses", "windlass", "openai", wire="responses"),
    "messages": Contender("windlass, Messages", "windlass", "openai", wire="messages"),
    "generate": Contender("windlass, generateContent", "windlass", "openai", wire="gemini"),
    "llms": Contender(
        "@musistudio/llms -> OpenAI", "llms", "openai,bench", scripts=PASS_THROUGH_SCRIPTS
    ),
    "llms_gemini": Contender(
        "@musistudio/llms -> Gemini", "llms", "gemini,bench", scripts=("answer",)
    ),
    "litellm": Contender(
        "litellm -> OpenAI", "litellm", "openai", share=0.1, max_concurrency=1, scripts=("answer",)
    ),
}
WIRE_GOAL = 1.15
"""The maximum CPU of a request on another wire, as a multiple of the same chat completion."""
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
WATCHED_GATEWAY = Contender("windlass -> OpenAI", "watched", "openai")
PROFILED = ("windlass", "gemini", "floor")


class Figures(NamedTuple):
    rate: float
    cpu: float
    p50: float
    p99: float
    first: float


class Bench:
    """The upstream, the load and the servers that are running."""

    def __init__(self, stack: ExitStack) -> None:
        child = stack.enter_context(python("gateway_upstream.py"))
        assert child.stdout
        upstream = Server(int(child.stdout.readline()), child.pid)
        self.root = f"http://127.0.0.1:{upstream.port}"
        self.servers = {"upstream": upstream}
        self.load = Worker(stack.enter_context(python("gateway_load.py")))

    def available(self, scenario: Scenario, concurrency: int) -> dict[str, Contender]:
        return {
            name: contender
            for name, contender in CONTENDERS.items()
            if contender.server in self.servers
            and concurrency <= contender.max_concurrency
            and scenario.script in contender.scripts
        }

    def sample(
        self, contender: Contender, scenario: Scenario, concurrency: int, requests: int
    ) -> Figures:
        server = self.servers[contender.server]
        job = {
            "port": server.port,
            "pid": server.pid,
            "path": path(contender, scenario),
            "body": body(contender, scenario),
            "concurrency": concurrency,
            "requests": requests,
            "key": KEY,
        }
        answer = self.load.ask(json.dumps(job))
        rate = requests / answer.pop("seconds")
        return Figures(rate=rate, **answer)


@contextmanager
def bench(*servers: str, profile: Path | None = None) -> Iterator[Bench]:
    with ExitStack() as stack:
        bench_run = Bench(stack)
        for name in servers:
            if server := stack.enter_context(running_server(name, bench_run.root, profile)):
                bench_run.servers[name] = server
        yield bench_run


def model_of(contender: Contender, scenario: Scenario) -> str:
    model = f"{contender.model}-{scenario.script}"
    # The upstream cannot run the tool.
    return model.replace("tool", "answer") if contender.server == "upstream" else model


def path(contender: Contender, scenario: Scenario) -> str:
    if contender.wire != "gemini":
        return PATHS[contender.wire]
    verb = "streamGenerateContent?alt=sse" if scenario.stream else "generateContent"
    return f"/v1beta/models/{model_of(contender, scenario)}:{verb}"


def body(contender: Contender, scenario: Scenario) -> str:
    """Returns the client's request. It has no tools if the gateway has them."""
    has_tools = not (scenario.script in WITH_TOOLS and contender.server in ("windlass", "watched"))
    tools = [declaration_for(tool, contender.wire) for tool in DECLARED] if has_tools else []
    fields: dict[str, Any] = {
        "model": model_of(contender, scenario),
        **prompt_fields(contender.wire, scenario.prompt),
    }
    if tools:
        fields["tools"] = [{"functionDeclarations": tools}] if contender.wire == "gemini" else tools
    if scenario.stream:
        fields["stream"] = True
    if contender.wire == "gemini":  # the path contains the model and the kind of answer
        del fields["model"]
        fields.pop("stream", None)
    return json.dumps(fields, separators=(",", ":"))


def prompt_fields(wire: str, prompt: str) -> dict[str, Any]:
    match wire:
        case "responses":
            return {"input": prompt}
        case "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
        case "messages":
            return {"max_tokens": 4096, "messages": [{"role": "user", "content": prompt}]}
        case _:
            return {"messages": [{"role": "user", "content": prompt}]}


def declaration_for(tool: Any, wire: str) -> dict[str, object]:
    declaration = tool.declaration
    name_and_description = {"name": declaration.name, "description": declaration.description}
    match wire:
        case "responses":
            return {
                "type": "function",
                **name_and_description,
                "parameters": declaration.parameters,
            }
        case "gemini":
            return {**name_and_description, "parametersJsonSchema": declaration.parameters}
        case "messages":
            return {**name_and_description, "input_schema": declaration.parameters}
        case _:
            return {
                "type": "function",
                "function": {**name_and_description, "parameters": declaration.parameters},
            }


def warm_up(bench_run: Bench, scenario: Scenario, quick: bool) -> None:
    """Sends requests that do not count, unless they take as long as a live stream."""
    if scenario.script == "live":
        return
    for contender in bench_run.available(scenario, 1).values():
        requests = int(WARM_UP * contender.share / (3 if quick else 1))
        bench_run.sample(contender, scenario, min(32, contender.max_concurrency), requests)


def measure_contenders(
    bench_run: Bench, scenario: Scenario, concurrency: int, quick: bool
) -> dict[str, Figures]:
    """Returns the median of each figure, by contender. The samples of the contenders alternate."""
    contenders = bench_run.available(scenario, concurrency)
    names = list(contenders)
    share = 0.25 if quick else 1
    samples: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(2 if quick else scenario.samples):
        offset = number % len(names)
        for name in names[offset:] + names[:offset]:
            contender = contenders[name]
            requests = max(
                int(scenario.requests[concurrency] * contender.share * share), concurrency
            )
            samples[name].append(bench_run.sample(contender, scenario, concurrency, requests))
    return {
        name: Figures(*(median(column) for column in zip(*figures, strict=True)))
        for name, figures in samples.items()
    }


def show_figures(scenario: Scenario, concurrency: int, by_name: dict[str, Figures]) -> None:
    direct, floor = by_name["direct"], by_name["floor"]
    columns = ["req/s", "CPU ms", "x floor", "x llms", "goal", "+p50 ms", "+p99 ms"]
    columns += ["+first ms"] if scenario.stream else []
    title = f"{scenario.title}, {concurrency} concurrent"
    print(f"\n{title:<40}" + "".join(f"{column:>10}" for column in columns))
    for name, figures in by_name.items():
        added_seconds = [figures.p50 - direct.p50, figures.p99 - direct.p99]
        added_seconds += [figures.first - direct.first] if scenario.stream else []
        added_cells = "".join(f"{seconds * 1e3:>10.2f}" for seconds in added_seconds)
        contender = CONTENDERS[name]
        goal = contender.goal if contender.goal and scenario.has_goal else ""
        ratio = f"{figures.cpu / by_name['llms'].cpu:.2f}" if "llms" in by_name else ""
        cpu = f"{figures.cpu * 1e3:>10.3f}{figures.cpu / floor.cpu:>10.2f}{ratio:>10}{goal:>10}"
        print(f"  {contender.title:<38}{figures.rate:>10.0f}{cpu}{added_cells}")


def show(quick: bool) -> list[Verdict]:
    """Measures all contenders, prints the figures, and returns the goals."""
    worst: dict[tuple[str, str], float] = {}
    wires: dict[tuple[str, str], list[float]] = {}
    with bench("floor", "windlass", "llms", "litellm") as bench_run:
        for key, scenario in SCENARIOS.items():
            warm_up(bench_run, scenario, quick)
            for concurrency in scenario.requests:
                by_name = measure_contenders(bench_run, scenario, concurrency, quick)
                show_figures(scenario, concurrency, by_name)
                if concurrency == min(scenario.requests):
                    plots.draw({f"gateway_{key}": plot(scenario, by_name)})
                for name, figures in by_name.items():
                    ratio = figures.cpu / by_name["floor"].cpu
                    worst[key, name] = max(worst.get((key, name), 0), ratio)
                    if CONTENDERS[name].wire != "chat":
                        wires.setdefault((key, name), []).append(
                            figures.cpu / by_name["windlass"].cpu
                        )
    # A short run cannot measure memory, because the gateway first fills its store of finished runs.
    verdicts = cpu_verdicts(worst) + wire_verdicts(wires)
    return verdicts + ([] if quick else memory(MEMORY_REQUESTS))


PLOTTED = {
    "floor": "pass-through",
    "windlass": "windlass",
    "gemini": "windlass to Gemini",
    "llms": "@musistudio/llms",
    "litellm": "LiteLLM",
}


def plot(scenario: Scenario, by_name: dict[str, Figures]) -> plots.Plot:
    bars = {
        title: round(by_name[name].cpu * 1e3, 3)
        for name, title in PLOTTED.items()
        if name in by_name
    }
    return plots.Plot(f"Gateway: {scenario.title}", "CPU milliseconds of a request", bars)


def wire_verdicts(wires: dict[tuple[str, str], list[float]]) -> list[Verdict]:
    """Returns a verdict for each wire: the median over all concurrencies."""
    return [
        Verdict(
            f"gateway, {SCENARIOS[key].title}, {CONTENDERS[name].title}",
            median(ratios),
            WIRE_GOAL,
            "x chat completion",
        )
        for (key, name), ratios in wires.items()
    ]


def cpu_verdicts(worst: dict[tuple[str, str], float]) -> list[Verdict]:
    return [
        Verdict(
            f"gateway, {SCENARIOS[key].title}, {contender.title}", ratio, contender.goal, "x floor"
        )
        for (key, name), ratio in worst.items()
        if (contender := CONTENDERS[name]).goal and SCENARIOS[key].has_goal
    ]


def memory(requests: int) -> list[Verdict]:
    """Measures resident memory over this many requests, with a new gateway for each scenario."""
    columns = "".join(f"{column:>10}" for column in ("pause ms", "CPU ms", "gc ms"))
    print(f"\n{'memory of the gateway':<28}{'requests: MB':>52}{columns}")
    verdicts: list[Verdict] = []
    for key, share in MEMORY_SHARES.items():
        scenario = (SCENARIOS | MEMORY_SCENARIOS)[key]
        growth = measure_growth(scenario, int(requests * share))
        if growth is None:
            return []
        print(growth.line(scenario.title), flush=True)
        goal = f"gateway, memory, {scenario.title}"
        verdicts.append(Verdict(goal, growth.per_thousand, MEMORY_GOAL_MB, " MB per 1,000"))
        if key in ABSOLUTE_MEMORY_GOALS:
            grown_mb = growth.since_first_point
            verdicts.append(Verdict(f"{goal}, growth", grown_mb, MAX_GROWTH_MB, " MB"))
            max_mb = max(growth.megabytes.values())
            verdicts.append(Verdict(f"{goal}, in total", max_mb, MAX_RESIDENT_MB, " MB"))
    return verdicts


class Growth(NamedTuple):
    """Resident memory by the number of requests, and the longest pauses of the event loop."""

    megabytes: dict[int, float]
    loop: float  # seconds
    loop_cpu: float  # CPU seconds of the event loop in a pause
    collector: float

    @property
    def per_thousand(self) -> float:
        """The growth between the last two points. Before, the gateway fills its store of runs."""
        *_, (first, first_mb), (last, last_mb) = self.megabytes.items()
        return (last_mb - first_mb) / (last - first) * 1_000

    @property
    def since_first_point(self) -> float:
        """The growth since the first point with requests."""
        _, first, *rest = self.megabytes.values()
        return (rest[-1] if rest else first) - first

    def line(self, title: str) -> str:
        points = "".join(f"{f'{count:,}: {mb:.0f}':>13}" for count, mb in self.megabytes.items())
        pauses = (self.loop, self.loop_cpu, self.collector)
        pause_cells = "".join(f"{seconds * 1e3:>10.1f}" for seconds in pauses)
        return f"  {title:<26}{points}{pause_cells}"


def measure_growth(scenario: Scenario, requests: int) -> Growth | None:
    with bench("watched") as bench_run:
        if "watched" not in bench_run.servers:
            return None
        server, done = bench_run.servers["watched"], 0
        megabytes = {0: resident_mb(server.pid)}
        for point in memory_points(requests):
            # The warm-up adds one request for each connection.
            count = point - done - MEMORY_CONCURRENCY
            bench_run.sample(WATCHED_GATEWAY, scenario, MEMORY_CONCURRENCY, count)
            megabytes[point], done = resident_mb(server.pid), point
        return Growth(megabytes, **json.loads(server.pauses.read_text()))


def memory_points(requests: int) -> list[int]:
    """Returns the numbers of requests after which to read the memory."""
    points = [point for point in MEMORY_POINTS if point < requests]
    return [*points, requests] if len(points) > 1 else [requests // 10, requests // 2, requests]


def profile(key: str, name: str) -> None:
    """Prints where the gateway's CPU time goes, including its start."""
    scenario, contender = SCENARIOS[key], CONTENDERS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile")
        with bench(contender.server, profile=path) as bench_run:
            if contender.server in bench_run.servers:
                bench_run.sample(contender, scenario, 32, scenario.requests[32] * 10)
        if path.exists():
            pstats.Stats(str(path)).sort_stats("tottime").print_stats(40)
