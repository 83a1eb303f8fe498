"""The gateway's Prometheus metrics. Each gateway has its own registry.

Labels contain only names of configured models and tools; every other name becomes `other`. So the
number of series is limited, and labels never contain text of clients or models.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from windlass.content import Usage
from windlass.events import (
    Outcome,
    PartReceived,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.gateway.observe.batches import Batcher

OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MODEL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
SECONDS = (0.001, 0.005, 0.02, *MODEL_SECONDS)
"""Tools and requests can be much faster than a model."""
MAX_TOOLS = 1000
"""MCP servers can add tools without limit; later ones are counted as `other`."""
OPENMETRICS = "application/openmetrics-text"
TOKENS: dict[str, Callable[[Usage], int]] = {
    "input": lambda usage: usage.input_tokens,
    "output": lambda usage: usage.output_tokens,
    "cached": lambda usage: usage.cached_tokens,
    "thought": lambda usage: usage.thought_tokens,
}


_Count: TypeAlias = tuple[Callable[[float], None], float]
"""What counts, and how much."""


class Metrics:
    """The metrics of one gateway. `models` and `tools` are the names that labels may contain."""

    def __init__(self, *, models: Iterable[str] = (), tools: Iterable[str] = ()) -> None:
        self._instruments = _Instruments()
        self._counts = Batcher(_apply)
        self._models = {name: _ModelSeries(self._instruments, name) for name in (*models, OTHER)}
        self._tools: dict[str, _ToolSeries] = {}
        self.add_tools((OTHER, *tools))
        self._requests: dict[tuple[str, str, int, str], tuple[Counter, Histogram]] = {}
        """The series of answered requests: to find them in the library takes longer than to count.
        The labels have few values."""
        self._keys: dict[tuple[str, str], _KeySeries] = {}
        """The series of keys and models, for the same reason."""
        self._key_requests: dict[str, Counter] = {}

    def add_tools(self, names: Iterable[str]) -> None:
        """Adds names of tools, such as those of an MCP server, up to `MAX_TOOLS`."""
        for name in names:
            if name not in self._tools and len(self._tools) < MAX_TOOLS:
                self._tools[name] = _ToolSeries(self._instruments, name)

    def request_done(
        self,
        *,
        route: str,
        method: str,
        status: int,
        seconds: float,
        key: str | None,
        model: str | None,
    ) -> None:
        """Counts an answered request.

        `route` is the template of the route, not the path, and `key` is the name of a valid key:
        both become labels unchanged.
        """
        known_method = method if method in METHODS else OTHER
        known_model = "" if model is None else model if model in self._models else OTHER
        labels = (route, known_method, status, known_model)
        series = self._requests.get(labels)
        if series is None:
            counter = self._instruments.requests.labels(*labels)
            series = counter, self._instruments.request_seconds.labels(route)
            self._requests[labels] = series
        count = self._counts.add
        count((series[0].inc, 1))
        count((series[1].observe, max(0.0, seconds)))
        if key is not None:
            counter = self._key_requests.get(key)
            if counter is None:
                counter = self._key_requests[key] = self._instruments.key_requests.labels(key)
            count((counter.inc, 1))

    def run(self, *, model: str, live: bool, key: str | None = None) -> Callable[[RunEvent], None]:
        """An observer for one run; `key` is the name of its configured key.

        The turns of a run that is not `live` are not streamed, so it has no first token.
        """
        series = self._models.get(model) or self._models[OTHER]
        by_key = None if key is None else self._series_of_key(key, series.model)
        count = self._counts.add
        return _RunMeter(count, self._instruments.running, series, self._tools, live, by_key)

    def _series_of_key(self, key: str, model: str) -> "_KeySeries":
        series = self._keys.get((key, model))
        if series is None:
            series = self._keys[key, model] = _KeySeries(self._instruments, key, model)
        return series

    def refused(self, reason: str) -> None:
        """Counts a refused request; `reason` is an error code of the gateway."""
        self._instruments.refused.labels(reason).inc()

    def flush(self) -> None:
        """Counts what waits to be counted."""
        self._counts.flush()

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """All metrics and their content type, in OpenMetrics if the `Accept` header names it."""
        self.flush()
        # `choose_encoder` does not get the header: it fails for a version that is not a number.
        openmetrics = OPENMETRICS in (accept or "").lower()
        encode, content_type = choose_encoder(OPENMETRICS if openmetrics else "")
        # Of all processes of this gateway, if it has several.
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        source = self._instruments if folder is None else MultiProcessCollector(None, folder)
        return encode(source), content_type


def _apply(count: _Count) -> None:
    add, amount = count
    add(amount)


class _Instruments(Collector):
    """All metrics with their names and labels."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "windlass_requests",
            "Answered HTTP requests.",
            ("route", "method", "status", "model"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "windlass_request_seconds",
            "Time from a request to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=registry,
        )
        self.key_requests = Counter(
            "windlass_key_requests", "HTTP requests by key.", ("key",), registry=registry
        )
        self.refused = Counter(
            "windlass_refused", "Refused requests.", ("reason",), registry=registry
        )
        self.running = Gauge(
            "windlass_running_runs", "Active runs.", registry=registry, multiprocess_mode="livesum"
        )
        self.runs = Counter(
            "windlass_runs", "Ended runs.", ("model", "stop_reason"), registry=registry
        )
        self.run_seconds = Histogram(
            "windlass_run_seconds",
            "Time from a run's start to its end.",
            ("model",),
            buckets=MODEL_SECONDS,
            registry=registry,
        )
        self.rounds = Counter(
            "windlass_rounds", "Requests to a model.", ("model",), registry=registry
        )
        self.model_seconds = Histogram(
            "windlass_model_seconds",
            "Time of a model's complete turn.",
            ("model",),
            buckets=MODEL_SECONDS,
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "windlass_first_token_seconds",
            "Time to the first part of a turn.",
            ("model",),
            buckets=MODEL_SECONDS,
            registry=registry,
        )
        self.tokens = Counter(
            "windlass_tokens",
            "Tokens as counted by the provider.",
            ("model", "kind"),
            registry=registry,
        )
        self.cost = Counter(
            "windlass_cost",
            "Cost by the configured prices.",
            ("model",),
            registry=registry,
        )
        self.key_tokens = Counter(
            "windlass_key_tokens",
            "Tokens by key, as counted by the provider.",
            ("key", "model", "kind"),
            registry=registry,
        )
        self.key_cost = Counter(
            "windlass_key_cost",
            "Cost by key, by the configured prices.",
            ("key", "model"),
            registry=registry,
        )
        self.tool_runs = Counter(
            "windlass_tool_runs", "Answered tool calls.", ("tool", "outcome"), registry=registry
        )
        self.tool_seconds = Histogram(
            "windlass_tool_seconds",
            "Execution time of a tool.",
            ("tool",),
            buckets=SECONDS,
            registry=registry,
        )

    def collect(self) -> Iterator[Metric]:
        """All metrics without their `_created` series, which would double the counters."""
        for metric in self._registry.collect():
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield metric


class _ModelSeries:
    """The series of one model, so that they are shown from the start."""

    def __init__(self, instruments: _Instruments, model: str) -> None:
        self.model = model
        self.cost = instruments.cost.labels(model)
        reasons: tuple[StopReason, ...] = get_args(StopReason)
        self.runs = {reason: instruments.runs.labels(model, reason) for reason in reasons}
        self.run_seconds = instruments.run_seconds.labels(model)
        self.rounds = instruments.rounds.labels(model)
        self.model_seconds = instruments.model_seconds.labels(model)
        self.first_token_seconds = instruments.first_token_seconds.labels(model)
        self.tokens = [
            (instruments.tokens.labels(model, kind), count) for kind, count in TOKENS.items()
        ]


class _KeySeries:
    """The series of one key and model. They are shown from the key's first run."""

    def __init__(self, instruments: _Instruments, key: str, model: str) -> None:
        self.cost = instruments.key_cost.labels(key, model)
        self.tokens = [
            (instruments.key_tokens.labels(key, model, kind), count)
            for kind, count in TOKENS.items()
        ]


class _ToolSeries:
    """The series of one tool, so that they are shown from the start."""

    def __init__(self, instruments: _Instruments, tool: str) -> None:
        outcomes: tuple[Outcome, ...] = get_args(Outcome)
        self.runs = {outcome: instruments.tool_runs.labels(tool, outcome) for outcome in outcomes}
        self.seconds = instruments.tool_seconds.labels(tool)


class _RunMeter:
    """Measures one run by its events.

    The gauge counts a run from `RunStarted` to `RunEnded`, which is the last event of every run and
    the only one of a run that was stopped before its start.
    """

    __slots__ = (
        "_asked_at",
        "_count",
        "_key",
        "_live",
        "_model",
        "_running",
        "_started_at",
        "_tools",
        "kinds",
    )

    def __init__(
        self,
        count: Callable[[_Count], None],
        running: Gauge,
        model: _ModelSeries,
        tools: dict[str, _ToolSeries],
        live: bool,
        key: _KeySeries | None = None,
    ) -> None:
        self._count, self._key = count, key
        self._running = running
        self._model = model
        self._tools = tools
        self._live = live
        self._started_at: float | None = None
        self._asked_at: float | None = None
        self.kinds: set[type[RunEvent]] = set(_HANDLERS) - _DELTAS
        """The events that this observer receives: of a turn's deltas only the first."""

    def __call__(self, event: RunEvent) -> None:
        handle = _HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    def run_started(self, event: RunStarted) -> None:
        self._started_at = event.time
        self._count((self._running.inc, 1))

    def round_started(self, event: RoundStarted) -> None:
        self._asked_at = event.time
        self._count((self._model.rounds.inc, 1))
        if self._live:
            self.kinds |= _DELTAS

    def delta(self, event: RunEvent) -> None:
        if not self.kinds.isdisjoint(_DELTAS):
            self.kinds -= _DELTAS
            self._observe(self._model.first_token_seconds, self._asked_at, event.time)

    def turn_ended(self, event: TurnEnded) -> None:
        self.kinds -= _DELTAS
        self._observe(self._model.model_seconds, self._asked_at, event.time)
        for series in (self._model, self._key):
            if series is None:
                continue
            for counter, count in series.tokens:
                if (tokens := count(event.usage)) > 0:
                    self._count((counter.inc, tokens))
            if event.usage.cost is not None:
                self._count((series.cost.inc, float(event.usage.cost)))

    def tool_run_ended(self, event: ToolRunEnded) -> None:
        series = self._tools.get(event.response.name) or self._tools[OTHER]
        self._count((series.runs[event.outcome].inc, 1))
        # For a refused or cached call the tool did not run.
        if event.seconds > 0:
            self._count((series.seconds.observe, event.seconds))

    def run_ended(self, event: RunEnded) -> None:
        self._count((self._model.runs[event.reason].inc, 1))
        if self._started_at is not None:
            self._count((self._running.dec, 1))
            self._observe(self._model.run_seconds, self._started_at, event.time)
            self._started_at = None

    def _observe(self, times: Histogram, since: float | None, until: float) -> None:
        """Observes a duration; it is never negative, even if the clock was set back."""
        if since is not None:
            self._count((times.observe, max(0.0, until - since)))


_DELTAS: frozenset[type[RunEvent]] = frozenset(
    {TextDelta, ThoughtDelta, PartReceived, ToolCallStarted}
)
_HANDLERS: dict[type[RunEvent], Callable[[_RunMeter, Any], None]] = {
    RunStarted: _RunMeter.run_started,
    RoundStarted: _RunMeter.round_started,
    TextDelta: _RunMeter.delta,
    ThoughtDelta: _RunMeter.delta,
    PartReceived: _RunMeter.delta,
    ToolCallStarted: _RunMeter.delta,
    TurnEnded: _RunMeter.turn_ended,
    ToolRunEnded: _RunMeter.tool_run_ended,
    RunEnded: _RunMeter.run_ended,
}
