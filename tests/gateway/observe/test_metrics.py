"""The gateway's metrics of requests and runs, parsed as Prometheus parses them."""

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain
from tests.conftest import events_of

from windlass import AsyncClient, RunEvent, tool
from windlass.content import FunctionResponse, Text, Usage
from windlass.events import (
    PartReceived,
    RoundStarted,
    RunEnded,
    RunStarted,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.gateway.observe.metrics import Metrics
from windlass.testing import Gate, ScriptedModel, call, calls, cut, refuse, say, slow

SECRET = "sk-planted-5ecret"


@tool
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@tool
def broken() -> None:
    """Fails."""
    raise RuntimeError(SECRET)


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    body, _ = metrics.render(None)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in plain(body.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"windlass_{name}", frozenset(labels.items())))


async def observe(
    metrics: Metrics, script: Any, *, live: bool = True, **options: Any
) -> list[RunEvent]:
    """Runs a script as the model `fast` and shows its events to the metrics."""
    async with AsyncClient(ScriptedModel(script), mode="native") as client:
        events = await events_of(client, tools=[double, broken], **options)
    show(metrics, *events, live=live)
    return events


def show(metrics: Metrics, *events: RunEvent, live: bool = True) -> None:
    observer = metrics.run(model="fast", live=live)
    for event in events:
        observer(event)


async def test_a_run_is_counted_with_its_rounds_tools_and_tokens() -> None:
    metrics = Metrics(models=["fast"], tools=["double", "broken"])
    usage = Usage(10, 5, 15, cached_tokens=4, thought_tokens=2)
    both = calls(call("double", number=2), call("broken"), usage=usage)
    await observe(metrics, [both, say("4", usage=usage)])
    assert value(metrics, "runs_total", model="fast", stop_reason="answer") == 1
    assert value(metrics, "rounds_total", model="fast") == 2
    assert value(metrics, "run_seconds_count", model="fast") == 1
    assert value(metrics, "model_seconds_count", model="fast") == 2
    assert value(metrics, "first_token_seconds_count", model="fast") == 2
    assert value(metrics, "tool_runs_total", tool="double", outcome="ok") == 1
    assert value(metrics, "tool_runs_total", tool="broken", outcome="error") == 1
    assert value(metrics, "tool_seconds_count", tool="double") == 1
    counted = {
        kind: value(metrics, "tokens_total", model="fast", kind=kind)
        for kind in ("input", "output", "cached", "thought")
    }
    assert counted == {"input": 20, "output": 10, "cached": 8, "thought": 4}
    assert value(metrics, "running_runs") == 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [([refuse(500, SECRET)], "error"), ([cut(say("a b c"), after=2)], "error")],
)
async def test_a_failed_run_is_counted_and_no_longer_active(script: Any, reason: str) -> None:
    metrics = Metrics(models=["fast"])
    await observe(metrics, script)
    assert value(metrics, "runs_total", model="fast", stop_reason=reason) == 1
    assert value(metrics, "model_seconds_count", model="fast") == 0
    assert value(metrics, "running_runs") == 0


async def test_the_gauge_counts_a_run_from_its_first_event_to_its_last() -> None:
    metrics, gate = Metrics(models=["fast"]), Gate()
    async with AsyncClient(ScriptedModel([slow(say("a"), gate=gate)]), mode="native") as client:
        run = await client.start("?")
        run.log.listen(metrics.run(model="fast", live=True))
        while not run.log.recorded():
            await asyncio.sleep(0)
        assert value(metrics, "running_runs") == 1
        gate.open()
        await run.result()
    assert value(metrics, "running_runs") == 0


async def test_a_run_that_is_stopped_before_it_begins_leaves_the_gauge_at_zero() -> None:
    metrics = Metrics(models=["fast"])
    async with AsyncClient(ScriptedModel(["a"]), mode="native") as client:
        run = await client.start("?")
        run.log.listen(metrics.run(model="fast", live=True))
        await client.stop(run.id)
        assert [type(event) for event in run.log.recorded()] == [RunStarted, RunEnded]
    assert value(metrics, "running_runs") == 0
    assert value(metrics, "runs_total", model="fast", stop_reason="stopped") == 1


def test_run_times_come_from_the_events() -> None:
    metrics = Metrics(models=["fast"])
    show(
        metrics,
        RunStarted("r", "m", (), time=100.0),
        RoundStarted(1, "awaiting_model_call", time=101.0),
        TextDelta("a", time=101.5),
        TextDelta("b", time=103.0),
        TurnEnded("stop", time=104.0),
        RunEnded("answer", time=110.0),
    )
    assert value(metrics, "first_token_seconds_sum", model="fast") == 0.5
    assert value(metrics, "model_seconds_sum", model="fast") == 3.0
    assert value(metrics, "run_seconds_sum", model="fast") == 10.0
    assert value(metrics, "model_seconds_bucket", model="fast", le="2.0") == 0
    assert value(metrics, "model_seconds_bucket", model="fast", le="4.0") == 1


def test_a_clock_that_is_set_back_makes_no_negative_time() -> None:
    metrics = Metrics(models=["fast"])
    show(metrics, RunStarted("r", "m", (), time=100.0), RunEnded("answer", time=50.0))
    assert value(metrics, "run_seconds_sum", model="fast") == 0
    assert value(metrics, "run_seconds_count", model="fast") == 1


@pytest.mark.parametrize(
    "first",
    [ThoughtDelta("hm"), TextDelta("a"), ToolCallStarted(0, "c", "f"), PartReceived(Text("a"))],
)
def test_every_first_delta_counts_as_the_first_token(first: RunEvent) -> None:
    metrics = Metrics(models=["fast"])
    show(metrics, RoundStarted(1, "awaiting_model_call"), first, TurnEnded("stop"), TextDelta("b"))
    assert value(metrics, "first_token_seconds_count", model="fast") == 1


def test_a_turn_without_deltas_has_no_first_token() -> None:
    metrics = Metrics(models=["fast"])
    show(metrics, RoundStarted(1, "awaiting_model_call"), TurnEnded("stop"), TextDelta("late"))
    assert value(metrics, "first_token_seconds_count", model="fast") == 0


async def test_a_blocking_run_has_no_first_token() -> None:
    metrics = Metrics(models=["fast"])
    await observe(metrics, ["a"], live=False)
    assert value(metrics, "first_token_seconds_count", model="fast") == 0
    assert value(metrics, "model_seconds_count", model="fast") == 1


async def test_a_call_that_never_ran_has_no_tool_time() -> None:
    metrics = Metrics(models=["fast"], tools=["double"])
    await observe(metrics, [call("double", number="many"), "sorry"])
    assert value(metrics, "tool_runs_total", tool="double", outcome="invalid_arguments") == 1
    assert value(metrics, "tool_seconds_count", tool="double") == 0


def test_requests_are_counted_by_route_method_status_model_and_key() -> None:
    metrics = Metrics(models=["fast"])
    done = {"route": "/v1/runs/{id}", "method": "GET", "key": "web", "model": "fast"}
    for seconds in (0.1, 0.3):
        metrics.request_done(status=200, seconds=seconds, **done)
    metrics.request_done(
        route="/health", method="GET", status=200, seconds=0.0, key=None, model=None
    )
    labels = {"route": "/v1/runs/{id}", "method": "GET", "status": "200", "model": "fast"}
    assert value(metrics, "requests_total", **labels) == 2
    assert value(metrics, "request_seconds_sum", route="/v1/runs/{id}") == pytest.approx(0.4)
    assert value(metrics, "key_requests_total", key="web") == 2
    health = {"route": "/health", "method": "GET", "status": "200", "model": ""}
    assert value(metrics, "requests_total", **health) == 1


def test_refusals_are_counted_by_reason() -> None:
    metrics = Metrics()
    metrics.refused("rate_limit")
    metrics.refused("rate_limit")
    assert value(metrics, "refused_total", reason="rate_limit") == 2


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1)), min_size=1)
)
def test_unknown_names_create_no_series(made_up: list[tuple[str, str, str]]) -> None:
    metrics = Metrics(models=["fast"], tools=["double"])
    one = {"route": "/x", "status": 404, "seconds": 0.0, "key": None}
    metrics.request_done(method="BREW", model=SECRET, **one)
    before = samples(metrics).keys()
    for model, method, name in made_up:
        metrics.request_done(method=f"{method}!", model=f"{model}!", **one)
        observer = metrics.run(model=f"{model}!", live=True)
        observer(RunStarted("r", "m", ()))
        observer(_unknown_tool(f"{name}!"))
        observer(RunEnded("answer"))
    assert samples(metrics).keys() == before
    assert value(metrics, "runs_total", model="other", stop_reason="answer") == len(made_up)
    assert value(metrics, "tool_runs_total", tool="other", outcome="unknown_tool") == len(made_up)


def _unknown_tool(name: str) -> ToolRunEnded:
    return ToolRunEnded(FunctionResponse(name, {"error": "no such tool"}), "unknown_tool")


async def test_added_tools_get_their_own_series() -> None:
    metrics = Metrics(models=["fast"])
    await observe(metrics, [call("double", number=1), "2"])
    metrics.add_tools(["double", "double"])
    await observe(metrics, [call("double", number=1), "2"])
    assert value(metrics, "tool_runs_total", tool="other", outcome="ok") == 1
    assert value(metrics, "tool_runs_total", tool="double", outcome="ok") == 1


def test_every_stop_reason_has_a_series_from_the_start() -> None:
    metrics = Metrics(models=["fast"])
    for reason in get_args(StopReason):
        assert value(metrics, "runs_total", model="fast", stop_reason=reason) == 0


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        (
            "application/openmetrics-text; version=nonsense",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ],
)
def test_the_accept_header_chooses_the_format(accept: str | None, content_type: str) -> None:
    metrics = Metrics(models=["fast"])
    body, said = metrics.render(accept)
    assert said == content_type
    parse = openmetrics if "openmetrics" in said else plain
    assert "windlass_runs" in {
        family.name.removesuffix("_total") for family in parse(body.decode())
    }


def test_two_gateways_in_one_process_count_separately() -> None:
    first, second = Metrics(), Metrics()
    first.refused("queue_full")
    assert value(second, "refused_total", reason="queue_full") is None


async def test_the_metrics_contain_no_content() -> None:
    metrics = Metrics(models=["fast"], tools=["broken"])
    script = [calls(call("broken", word=SECRET), call(SECRET)), refuse(500, SECRET)]
    events = await observe(metrics, script, system=SECRET)
    assert SECRET in repr(events)
    assert SECRET not in metrics.render(None)[0].decode()
