"""The spans of runs: their tree, their times and their ends."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from tests.gateway.observe.traced import SECRET, Traces, attributes, id_of, parent_of

from windlass import AsyncClient, tool
from windlass.content import FunctionCall, FunctionResponse, Usage
from windlass.events import RoundStarted, RunEnded, RunStarted, ToolRunEnded, ToolRunStarted
from windlass.testing import Gate, ScriptedModel, call, calls, cut, refuse, say, slow

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_run_is_a_tree_of_rounds_and_their_tools() -> None:
    traces = Traces()
    both = calls(call("double", id="a", number=1), call("kept", id="b"))
    await traces.observe([both, call("scold", id="c", word="x"), "done"])
    names = [span.name for span in traces.spans]
    assert sorted(names) == sorted(
        ["invoke_agent", "chat m", "chat m", "chat m"]
        + [f"execute_tool {name}" for name in ("double", "kept", "scold")]
    )
    rounds: dict[int | None, int] = {
        id_of(span): attributes(span)["windlass.round"] for span in traces.rounds
    }
    tools = [span for span in traces.spans if span.name.startswith("execute_tool")]
    assert {attributes(span)["gen_ai.tool.call.id"]: rounds[parent_of(span)] for span in tools} == {
        "a": 1,
        "b": 1,
        "c": 2,
    }
    root = traces.named("invoke_agent")
    assert parent_of(root) is None
    assert {parent_of(span) for span in traces.rounds} == {id_of(root)}


async def test_a_run_span_has_model_tokens_and_stop_reason() -> None:
    traces = Traces()
    usage = Usage(10, 5, 15, cached_tokens=4, thought_tokens=2)
    run = {"model": "gemini-2.5-flash", "provider": "gemini", "key": "web"}
    events = await traces.observe([say("hi", usage=usage)], run=run)
    tokens = {
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    model = {"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-2.5-flash"}
    started = events[0]
    assert isinstance(started, RunStarted)
    root, chat = traces.named("invoke_agent"), traces.named("chat gemini-2.5-flash")
    assert attributes(root) == {
        "gen_ai.operation.name": "invoke_agent",
        **model,
        **tokens,
        "windlass.run.id": started.run_id,
        "windlass.key": "web",
        "windlass.rounds": 1,
        "windlass.stop_reason": "answer",
    }
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        **model,
        **tokens,
        "gen_ai.response.finish_reasons": ("stop",),
        "windlass.round": 1,
    }
    assert (root.kind, chat.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}


async def test_spans_begin_and_end_with_their_events() -> None:
    traces = Traces()
    events = await traces.observe([call("double", number=1), "2"])
    times = {
        type(event): int(event.time * 1e9)
        for event in events
        if not isinstance(event, RoundStarted)
    }
    root, ran = traces.named("invoke_agent"), traces.named("execute_tool double")
    assert (root.start_time, root.end_time) == (times[RunStarted], times[RunEnded])
    assert (ran.start_time, ran.end_time) == (times[ToolRunStarted], times[ToolRunEnded])


async def test_a_tool_span_has_name_call_and_outcome() -> None:
    traces = Traces()
    await traces.observe([call("double", id="a", number=1), call("scold", word="x"), "done"])
    good, bad = traces.named("execute_tool double"), traces.named("execute_tool scold")
    assert attributes(good) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "double",
        "gen_ai.tool.call.id": "a",
        "gen_ai.tool.type": "function",
        "windlass.tool.cached": False,
    }
    assert good.status.status_code == StatusCode.UNSET
    assert attributes(bad)["error.type"] == "error"
    assert bad.status.status_code == StatusCode.ERROR


async def test_a_call_that_never_ran_is_a_span_of_zero_length() -> None:
    traces = Traces()
    refused = calls(call("double", number="many"), call("kept"), call("no_such_tool"))
    await traces.observe([refused, call("kept"), "done"])
    invalid = traces.named("execute_tool double")
    assert attributes(invalid)["error.type"] == "invalid_arguments"
    assert invalid.start_time == invalid.end_time
    cached = [attributes(each) for each in traces.spans if each.name == "execute_tool kept"]
    assert [each["windlass.tool.cached"] for each in cached] == [False, True]
    # The name is the model's own text.
    unknown = attributes(traces.named("execute_tool"))
    assert unknown["error.type"] == "unknown_tool"
    assert "gen_ai.tool.name" not in unknown


def test_two_calls_with_one_id_are_two_spans() -> None:
    traces = Traces()
    same = FunctionCall("double", id="a")
    answer = FunctionResponse("double", {"output": 2}, "a")
    traces.show(
        RunStarted("r", "m", ()),
        RoundStarted(1, "awaiting_model_call"),
        ToolRunStarted(same, 1, time=1.0),
        ToolRunStarted(same, 1, time=2.0),
        ToolRunEnded(answer, "ok", time=3.0),
        ToolRunEnded(answer, "ok", time=4.0),
        RunEnded("answer", time=5.0),
    )
    spans = [span for span in traces.spans if span.name == "execute_tool double"]
    assert [(span.start_time, span.end_time) for span in spans] == [
        (1_000_000_000, 3_000_000_000),
        (2_000_000_000, 4_000_000_000),
    ]


@pytest.mark.parametrize("fault", [refuse(500, SECRET), cut(say("a b c"), after=2)])
async def test_a_model_that_fails_fails_its_round_and_the_run(fault: Any) -> None:
    traces = Traces()
    await traces.observe([fault])
    assert traces.tree() == {"invoke_agent": {"chat m": {}}}
    assert {attributes(span)["error.type"] for span in traces.spans} == {"error"}
    assert {span.status.status_code for span in traces.spans} == {StatusCode.ERROR}
    assert {span.status.description for span in traces.spans} == {None}


async def test_a_run_stopped_during_a_tool_leaves_no_open_span() -> None:
    started = asyncio.Event()

    @tool
    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    traces = Traces()
    async with AsyncClient(ScriptedModel([call("forever")]), mode="native") as client:
        run = await client.start("?", tools=[forever])
        await started.wait()
        await client.stop(run.id)
        traces.show(*run.log.recorded())
    assert traces.tree() == {"invoke_agent": {"chat m": {"execute_tool forever": {}}}}
    assert attributes(traces.named("execute_tool forever"))["error.type"] == "stopped"
    # A stop on request is not an error.
    assert traces.named("invoke_agent").status.status_code == StatusCode.UNSET


async def test_a_run_stopped_during_a_turn_leaves_no_open_span() -> None:
    traces, gate = Traces(), Gate()
    async with AsyncClient(ScriptedModel([slow(say("a"), gate=gate)]), mode="native") as client:
        run = await client.start("?")
        while len(run.log.recorded()) < 2:
            await asyncio.sleep(0)
        await client.stop(run.id)
        traces.show(*run.log.recorded())
    assert traces.tree() == {"invoke_agent": {"chat m": {}}}
    assert attributes(traces.named("chat m"))["error.type"] == "stopped"


def test_the_last_event_ends_a_tool_without_an_end_event() -> None:
    traces = Traces()
    traces.show(
        RunStarted("r", "m", (), time=1.0),
        RoundStarted(1, "awaiting_model_call", time=2.0),
        ToolRunStarted(FunctionCall("double", id="a"), 1, time=3.0),
        RunEnded("deadline", time=9.0),
    )
    assert {span.end_time for span in traces.spans} == {9_000_000_000}
    assert {attributes(span)["error.type"] for span in traces.spans} == {"deadline"}
    assert len(traces.spans) == 3


def test_a_run_that_never_started_has_no_spans() -> None:
    traces = Traces()
    traces.show(RunEnded("stopped"))
    assert traces.spans == []


async def test_the_trace_of_the_request_is_the_parent_of_the_run() -> None:
    traces = Traces()
    headers = {"traceparent": PARENT, "tracestate": "vendor=1", "authorization": SECRET}
    await traces.observe(["a"], run={"traceparent": headers})
    root = traces.named("invoke_agent")
    assert parent_of(root) == 0xB7AD6B7169203331
    assert {span.context and span.context.trace_id for span in traces.spans} == {
        0x0AF7651916CD43DD8448EB211C80319C
    }
    assert root.context is not None
    assert root.context.trace_state.get("vendor") == "1"


async def test_a_request_that_is_not_sampled_makes_no_spans() -> None:
    traces = Traces()
    await traces.observe(["a"], run={"traceparent": {"traceparent": PARENT[:-1] + "0"}})
    assert traces.spans == []


@pytest.mark.parametrize("header", ["", "nonsense", "00-0-0-01", f"{PARENT}\n", "00" * 40])
async def test_an_invalid_traceparent_starts_a_new_trace(header: str) -> None:
    traces = Traces()
    await traces.observe(["a"], run={"traceparent": {"traceparent": header}})
    assert len(traces.spans) == 2


async def test_a_shared_provider_is_flushed_and_stays_usable() -> None:
    traces = Traces()
    await traces.tracing.aclose()
    traces.show(RunStarted("r", "m", ()), RunEnded("answer"))
    assert traces.tree() == {"invoke_agent": {}}
