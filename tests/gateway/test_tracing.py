"""The spans of runs: their tree, their times, what they hold and what they never hold."""

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode
from tests.conftest import events_of

from windlass import AsyncClient, Message, RunEvent, ToolError, tool
from windlass.content import FunctionCall, FunctionResponse, Part, Usage
from windlass.events import (
    Outcome,
    RoundStarted,
    RunEnded,
    RunStarted,
    ToolRunEnded,
    ToolRunStarted,
)
from windlass.gateway.tracing import Tracing
from windlass.testing import Gate, ScriptedModel, call, calls, cut, refuse, say, slow, think

SECRET = "sk-planted-5ecret"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@tool
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@tool(cache=60)
def kept() -> str:
    """A word, kept for a minute."""
    return "word"


@tool
def scold(word: str) -> None:
    """Says no."""
    raise ToolError(f"not {word}")


class Traces:
    """Tracing into memory."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self._provider, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, by their beginning."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def rounds(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == "chat m"]

    def tree(self) -> dict[str, Any]:
        return self._below(None)

    def _below(self, parent: int | None) -> dict[str, Any]:
        return {
            span.name: self._below(id_of(span)) for span in self.spans if parent_of(span) == parent
        }

    def named(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.spans if span.name == name]
        return span

    def show(self, *events: RunEvent, **options: Any) -> None:
        known: dict[str, Any] = {"model": "m", "provider": "openai", **options}
        observer = self.tracing.run(**known)
        for event in events:
            observer(event)

    async def observe(self, script: Any, *, run: Any = None, **options: Any) -> list[RunEvent]:
        """Runs a script and shows its events."""
        async with AsyncClient(ScriptedModel(script), mode="native") as client:
            events = await events_of(client, tools=[double, kept, scold], **options)
        self.show(*events, **run or {})
        return events


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


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


async def test_a_run_tells_its_model_tokens_and_end() -> None:
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


async def test_a_tool_run_tells_its_name_call_and_outcome() -> None:
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


async def test_a_call_that_never_ran_is_there_and_has_no_length() -> None:
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


@pytest.mark.parametrize("outcome", ["unknown_tool", "not_run"])
def test_the_name_of_a_tool_that_may_not_exist_is_content(outcome: Outcome) -> None:
    silent, open_ = Traces(), Traces(content=True)
    for traces in (silent, open_):
        response = FunctionResponse("made_up", {"error": "no"}, "a")
        traces.show(RunStarted("r", "m", ()), ToolRunEnded(response, outcome), RunEnded("answer"))
    assert "made_up" not in "".join(span.to_json() for span in silent.spans)
    assert attributes(open_.named("execute_tool made_up"))["gen_ai.tool.name"] == "made_up"


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


async def test_a_run_that_is_stopped_in_the_middle_leaves_no_open_span() -> None:
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
    # Whoever stopped it has got what they wanted.
    assert traces.named("invoke_agent").status.status_code == StatusCode.UNSET


async def test_a_run_that_is_stopped_while_the_model_speaks_leaves_no_open_span() -> None:
    traces, gate = Traces(), Gate()
    async with AsyncClient(ScriptedModel([slow(say("a"), gate=gate)]), mode="native") as client:
        run = await client.start("?")
        while len(run.log.recorded()) < 2:
            await asyncio.sleep(0)
        await client.stop(run.id)
        traces.show(*run.log.recorded())
    assert traces.tree() == {"invoke_agent": {"chat m": {}}}
    assert attributes(traces.named("chat m"))["error.type"] == "stopped"


def test_the_last_event_ends_a_tool_whose_end_was_never_told() -> None:
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


def test_a_run_that_never_began_has_no_spans() -> None:
    traces = Traces()
    traces.show(RunEnded("stopped"))
    assert traces.spans == []


async def test_the_trace_of_the_request_goes_on_in_the_run() -> None:
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
async def test_a_broken_traceparent_begins_a_trace_of_its_own(header: str) -> None:
    traces = Traces()
    await traces.observe(["a"], run={"traceparent": {"traceparent": header}})
    assert len(traces.spans) == 2


SAID = [
    calls(call("scold", word=SECRET), call(SECRET), text=SECRET),
    calls(call(SECRET), call("double", number=SECRET)),
    think(SECRET, then=say(SECRET)),
]


async def test_nothing_that_was_said_is_in_a_span() -> None:
    traces = Traces()
    spoken = await traces.observe([*SAID], system=SECRET)
    failed = await traces.observe([refuse(500, SECRET)])
    assert SECRET in repr(spoken)
    assert SECRET in repr(failed)
    assert SECRET not in "".join(span.to_json() for span in traces.spans)


async def test_with_content_the_spans_hold_what_was_said() -> None:
    traces = Traces(content=True)
    turn = think("hm", then=call("double", id="a", number=4))
    await traces.observe([turn, say("It is 8.")], system="Be brief.")
    root, ran = traces.named("invoke_agent"), traces.named("execute_tool double")
    assert json.loads(attributes(root)["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "go"}]},
    ]
    assert json.loads(attributes(ran)["gen_ai.tool.call.arguments"]) == {"number": 4}
    assert attributes(ran)["gen_ai.tool.call.result"] == "8"
    first, last = (json.loads(attributes(span)["gen_ai.output.messages"]) for span in traces.rounds)
    wanted = {"type": "tool_call", "id": "a", "name": "double", "arguments": {"number": 4}}
    thought = {"type": "reasoning", "content": "hm"}
    assert first == [
        {"role": "assistant", "parts": [thought, wanted], "finish_reason": "tool_calls"}
    ]
    assert last[0]["parts"] == [{"type": "text", "content": "It is 8."}]


def test_with_content_the_bytes_of_media_stay_out() -> None:
    traces = Traces(content=True)
    parts = (
        Part.from_bytes(SECRET.encode(), "image/png"),
        Part.from_uri("https://example.com/a.png", "image/png"),
    )
    history = (
        Message.user(*parts),
        Message.tool([FunctionResponse("double", {"output": 8}, "a")]),
    )
    traces.show(RunStarted("r", "m", history), RunEnded("answer"))
    user, answer = json.loads(attributes(traces.named("invoke_agent"))["gen_ai.input.messages"])
    assert user["parts"] == [
        {"type": "blob", "mime_type": "image/png", "size": len(SECRET)},
        {"type": "uri", "mime_type": "image/png", "uri": "https://example.com/a.png"},
    ]
    assert answer["parts"] == [{"type": "tool_call_response", "id": "a", "response": {"output": 8}}]


async def test_every_attribute_is_one_of_the_conventions_or_ours() -> None:
    known = {
        value
        for name, value in vars(gen_ai_attributes).items()
        if name.startswith("GEN_AI_") and isinstance(value, str)
    }
    traces = Traces(content=True)
    await traces.observe([*SAID], run={"key": "web"})
    used = {name for span in traces.spans for name in attributes(span)}
    assert len(used) > 15
    assert {name for name in used if not name.startswith("windlass.")} <= known | {"error.type"}


async def test_a_provider_that_is_shared_is_flushed_and_goes_on() -> None:
    traces = Traces()
    await traces.tracing.aclose()
    traces.show(RunStarted("r", "m", ()), RunEnded("answer"))
    assert traces.tree() == {"invoke_agent": {}}
