"""The gateway beside a pass-through: CPU of a request, requests a second, added latency, memory.

Every server has its own process, and so have the upstream and the load. CPU as a multiple of the
pass-through is the stable figure; requests a second and
latency depend on the load of the machine. Latency is what a server adds to the upstream's own; with
a tool, that includes a second request.
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
from gateway_servers import KEY, SCRIPTS, WITH_TOOLS, Server, resident_mb, served
from processes import Worker, python
from report import Verdict
from scenarios import MEMORY_GOAL_MB

PROMPT = "What is the weather in Paris, and do my notes say anything about it? Mail me both."
DECLARED = [gateway_tools.get_weather, gateway_tools.search_notes, gateway_tools.send_mail]
LONG_PROMPT = "The weather in Paris was fair again. " * 1400  # about 50 kB
LEAST_FOR_MEMORY = 20_000
MEMORY_REQUESTS = 20_000
MEMORY_POINTS = (10_000, 100_000, 1_000_000)
MAX_GROWTH_MB = 20.0  # after the first 10,000 requests
MAX_RESIDENT_MB = 150.0
AT_ONCE = 8  # in a run that measures memory and pauses


class Scenario(NamedTuple):
    title: str
    script: str
    stream: bool
    requests: dict[int, int]  # in one sample, by concurrency
    samples: int = 5
    judged: bool = True
    prompt: str = PROMPT


SCENARIOS = {
    "answer": Scenario("one answer", "answer", False, {1: 300, 32: 960, 128: 1280}),
    "burst": Scenario("100 tokens in one burst", "answer", True, {1: 100, 32: 320, 128: 384}),
    "live": Scenario("100 tokens, one every 20 ms", "live", True, {32: 32, 128: 128}, samples=3),
    "tool": Scenario("one tool", "tool", False, {1: 200, 32: 640, 128: 768}, judged=False),
    "tool_burst": Scenario(
        "one tool, then a burst", "tool", True, {1: 100, 32: 320, 128: 384}, judged=False
    ),
}
MEMORY_SCENARIOS = {
    "prompt": Scenario("prompts of 50 kB", "answer", False, {}, prompt=LONG_PROMPT),
}
REMEMBERED = {"answer": 1.0, "burst": 1.0, "tool": 0.3, "prompt": 0.3}
"""The scenarios whose memory is measured, and of how many of the requests."""
FLAT = ("answer", "burst")
"""Chat completions, streamed and not: their memory has absolute goals."""


class Contender(NamedTuple):
    title: str
    server: str
    model: str  # the prefix of the script's name
    goal: float | None = None  # CPU, as a multiple of the floor's
    share: float = 1  # of a sample's requests
    most: int = 128  # at once
    scripts: tuple[str, ...] = SCRIPTS
    wire: str = "chat"  # the protocol of the client


PASSED = ("answer", "live", "paced")
"""The scripts of a gateway that runs no tools."""
CONTENDERS = {
    "direct": Contender("upstream alone", "upstream", "bench"),
    "floor": Contender("pass-through (floor)", "floor", "bench"),
    "windlass": Contender("windlass -> OpenAI", "windlass", "openai", goal=1.5),
    "gemini": Contender("windlass -> Gemini", "windlass", "gemini", goal=2.0),
    "responses": Contender("windlass, Responses", "windlass", "openai", wire="responses"),
    "messages": Contender("windlass, Messages", "windlass", "openai", wire="messages"),
    "generate": Contender("windlass, generateContent", "windlass", "openai", wire="gemini"),
    "llms": Contender("@musistudio/llms -> OpenAI", "llms", "openai,bench", scripts=PASSED),
    "llms_gemini": Contender(
        "@musistudio/llms -> Gemini", "llms", "gemini,bench", scripts=("answer",)
    ),
    "litellm": Contender(
        "litellm -> OpenAI", "litellm", "openai", share=0.1, most=1, scripts=("answer",)
    ),
}
WIRE_GOAL = 1.15
"""CPU of a request on another wire, as a multiple of the same chat completion."""
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
WATCHED = Contender("windlass -> OpenAI", "watched", "openai")
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
            "path": path(who, what),
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


def model_of(who: Contender, what: Scenario) -> str:
    model = f"{who.model}-{what.script}"
    # The upstream cannot run the tool.
    return model.replace("tool", "answer") if who.server == "upstream" else model


def path(who: Contender, what: Scenario) -> str:
    if who.wire != "gemini":
        return PATHS[who.wire]
    verb = "streamGenerateContent?alt=sse" if what.stream else "generateContent"
    return f"/v1beta/models/{model_of(who, what)}:{verb}"


def body(who: Contender, what: Scenario) -> str:
    """The client's request. The tools that a gateway runs are its own: the client sends none."""
    has_tools = not (what.script in WITH_TOOLS and who.server in ("windlass", "watched"))
    tools = [declared(tool, who.wire) for tool in DECLARED] if has_tools else []
    fields: dict[str, Any] = {"model": model_of(who, what), **asked(who.wire, what.prompt)}
    if tools:
        fields["tools"] = [{"functionDeclarations": tools}] if who.wire == "gemini" else tools
    if what.stream:
        fields["stream"] = True
    if who.wire == "gemini":  # its path has both
        del fields["model"]
        fields.pop("stream", None)
    return json.dumps(fields, separators=(",", ":"))


def asked(wire: str, prompt: str) -> dict[str, Any]:
    match wire:
        case "responses":
            return {"input": prompt}
        case "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
        case "messages":
            return {"max_tokens": 4096, "messages": [{"role": "user", "content": prompt}]}
        case _:
            return {"messages": [{"role": "user", "content": prompt}]}


def declared(tool: Any, wire: str) -> dict[str, object]:
    known = tool.declaration
    named = {"name": known.name, "description": known.description}
    match wire:
        case "responses":
            return {"type": "function", **named, "parameters": known.parameters}
        case "gemini":
            return {**named, "parametersJsonSchema": known.parameters}
        case "messages":
            return {**named, "input_schema": known.parameters}
        case _:
            return {"type": "function", "function": {**named, "parameters": known.parameters}}


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
    columns = ["req/s", "CPU ms", "x floor", "x llms", "goal", "+p50 ms", "+p99 ms"]
    columns += ["+first ms"] if what.stream else []
    title = f"{what.title}, {concurrency} at once"
    print(f"\n{title:<40}" + "".join(f"{column:>10}" for column in columns))
    for name, its in by_name.items():
        added = [its.p50 - direct.p50, its.p99 - direct.p99]
        added += [its.first - direct.first] if what.stream else []
        later = "".join(f"{seconds * 1e3:>10.2f}" for seconds in added)
        who = CONTENDERS[name]
        goal = who.goal if who.goal and what.judged else ""
        ratio = f"{its.cpu / by_name['llms'].cpu:.2f}" if "llms" in by_name else ""
        cpu = f"{its.cpu * 1e3:>10.3f}{its.cpu / floor.cpu:>10.2f}{ratio:>10}{goal:>10}"
        print(f"  {who.title:<38}{its.rate:>10.0f}{cpu}{later}")


def show(quick: bool) -> list[Verdict]:
    """Measures, prints, and returns the goals that were missed."""
    worst: dict[tuple[str, str], float] = {}
    wires: dict[tuple[str, str], list[float]] = {}
    with bench("floor", "windlass", "llms", "litellm") as running:
        for key, what in SCENARIOS.items():
            for concurrency in what.requests:
                by_name = measured(running, what, concurrency, quick)
                show_figures(what, concurrency, by_name)
                if concurrency == min(what.requests):
                    plots.draw({f"gateway_{key}": plot(what, by_name)})
                for name, its in by_name.items():
                    ratio = its.cpu / by_name["floor"].cpu
                    worst[key, name] = max(worst.get((key, name), 0), ratio)
                    if CONTENDERS[name].wire != "chat":
                        wires.setdefault((key, name), []).append(its.cpu / by_name["windlass"].cpu)
    # A short run cannot measure memory: the gateway first fills its store of finished runs.
    verdicts = cpu_verdicts(worst) + wire_verdicts(wires)
    return verdicts + ([] if quick else memory(MEMORY_REQUESTS))


PLOTTED = {
    "floor": "pass-through",
    "windlass": "windlass",
    "gemini": "windlass to Gemini",
    "litellm": "LiteLLM",
}


def plot(what: Scenario, by_name: dict[str, Figures]) -> plots.Plot:
    bars = {
        title: round(by_name[name].cpu * 1e3, 3)
        for name, title in PLOTTED.items()
        if name in by_name
    }
    return plots.Plot(f"Gateway: {what.title}", "CPU milliseconds of a request", bars)


def wire_verdicts(wires: dict[tuple[str, str], list[float]]) -> list[Verdict]:
    """The median over all numbers of requests at once."""
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
        Verdict(f"gateway, {SCENARIOS[key].title}, {who.title}", ratio, who.goal, "x floor")
        for (key, name), ratio in worst.items()
        if (who := CONTENDERS[name]).goal and SCENARIOS[key].judged
    ]


def memory(requests: int) -> list[Verdict]:
    """Resident memory over that many requests. Each kind of request has its own gateway."""
    columns = "".join(f"{column:>10}" for column in ("pause ms", "CPU ms", "gc ms"))
    print(f"\n{'memory of the gateway':<28}{'requests: MB':>52}{columns}")
    found: list[Verdict] = []
    for key, share in REMEMBERED.items():
        scenario = (SCENARIOS | MEMORY_SCENARIOS)[key]
        growth = grown(scenario, int(requests * share))
        if growth is None:
            return []
        print(growth.line(scenario.title), flush=True)
        what = f"gateway, memory, {scenario.title}"
        found.append(Verdict(what, growth.per_thousand, MEMORY_GOAL_MB, " MB per 1,000"))
        if key in FLAT:
            grown_mb = growth.since_first_point
            found.append(Verdict(f"{what}, growth", grown_mb, MAX_GROWTH_MB, " MB"))
            most = max(growth.megabytes.values())
            found.append(Verdict(f"{what}, in total", most, MAX_RESIDENT_MB, " MB"))
    return found


class Growth(NamedTuple):
    """Resident memory by the number of requests, and the longest pauses."""

    megabytes: dict[int, float]
    loop: float  # seconds
    own: float  # CPU seconds of the event loop in a pause
    collector: float

    @property
    def per_thousand(self) -> float:
        """Between the last two points: until then the gateway fills its store of finished runs."""
        *_, (first, begun), (last, ended) = self.megabytes.items()
        return (ended - begun) / (last - first) * 1_000

    @property
    def since_first_point(self) -> float:
        """The growth since the first point with requests."""
        _, first, *rest = self.megabytes.values()
        return (rest[-1] if rest else first) - first

    def line(self, title: str) -> str:
        counted = "".join(f"{f'{count:,}: {mb:.0f}':>13}" for count, mb in self.megabytes.items())
        pauses = (self.loop, self.own, self.collector)
        shown = "".join(f"{seconds * 1e3:>10.1f}" for seconds in pauses)
        return f"  {title:<26}{counted}{shown}"


def grown(what: Scenario, requests: int) -> Growth | None:
    with bench("watched") as running:
        if "watched" not in running.servers:
            return None
        server, done = running.servers["watched"], 0
        megabytes = {0: resident_mb(server.pid)}
        for point in memory_points(requests):
            running.sample(
                WATCHED, what, AT_ONCE, point - done - AT_ONCE
            )  # and the warm-up requests
            megabytes[point], done = resident_mb(server.pid), point
        return Growth(megabytes, **json.loads(server.pauses.read_text()))


def memory_points(requests: int) -> list[int]:
    """After how many requests the memory is read."""
    points = [point for point in MEMORY_POINTS if point < requests]
    return [*points, requests] if len(points) > 1 else [requests // 10, requests // 2, requests]


def profile(key: str, name: str) -> None:
    """Prints where the gateway's time goes, including its start."""
    what, who = SCENARIOS[key], CONTENDERS[name]
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "profile")
        with bench(who.server, profile=written) as running:
            if who.server in running.servers:
                running.sample(who, what, 32, what.requests[32] * 10)
        if written.exists():
            pstats.Stats(str(written)).sort_stats("tottime").print_stats(40)
