"""Spans of a run, created from its events by OpenTelemetry's conventions for generative AI.

    invoke_agent                    the run
    └── chat {model}                one request to the model
        └── execute_tool {name}     one execution of a tool

This module needs the packages of `windlass[otel]`. It spells out attribute names, because
OpenTelemetry marks its constants for them as unstable.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, assert_never

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
    Usage,
)
from windlass.errors import StreamCut
from windlass.events import (
    FinishReason,
    ModelEvent,
    Outcome,
    PartReceived,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.jsontext import compact_json
from windlass.loop.turn import TurnBuilder
from windlass.models import plug_in

PROVIDERS = {
    "gemini": "gcp.gemini",
    "responses": "openai",
    "vertex": "gcp.vertex_ai",
}
"""The names of providers in the conventions, where they differ from ours."""


def provider_name(provider: str) -> str:
    """The conventions' name of a provider."""
    if provider in PROVIDERS or (found := plug_in(provider)) is None:
        return PROVIDERS.get(provider, provider)
    return found.telemetry_name or provider


FAILED: frozenset[StopReason] = frozenset({"error", "deadline"})
"""The stop reasons that are errors."""

MAYBE_UNKNOWN: frozenset[Outcome] = frozenset({"unknown_tool", "not_run"})
"""Outcomes of calls whose tool may not exist. The name of such a tool is text of the model."""


class TracedRun(Struct, frozen=True, kw_only=True):
    """The attributes of a run; `content` is whether spans contain prompts, answers and results."""

    model: str
    provider: str
    key: str | None
    content: bool


def parent_context(headers: Mapping[str, str] | None) -> Context:
    """The trace in the headers `traceparent` and `tracestate`; an empty one without them."""
    return TraceContextTextMapPropagator().extract(headers or {}, Context())


class RunSpans:
    """An observer of one run. Spans start and end at the times of the events.

    `RunEnded`, the last event of every run, ends all open spans.
    """

    def __init__(self, tracer: Tracer, run: TracedRun, parent: Context) -> None:
        self._tracer = tracer
        self._traced = run
        self._handlers = _CONTENT_HANDLERS if run.content else _HANDLERS
        self._model = {
            "gen_ai.provider.name": provider_name(run.provider),
            "gen_ai.request.model": run.model,
        }
        self._in_run = self._in_chat = parent
        self._run: Span | None = None
        self._chat: Span | None = None
        self._turn = TurnBuilder()
        # Lists, because a model may give two calls of a turn the same id.
        self._tools: dict[str, list[Span]] = {}

    def __call__(self, event: RunEvent) -> None:
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(self, event)

    def run_started(self, event: RunStarted) -> None:
        span = self._run = self._start("invoke_agent", "", self._in_run, event)
        span.set_attributes({**self._model, "windlass.run.id": event.run_id})
        if self._traced.key is not None:
            span.set_attribute("windlass.key", self._traced.key)
        if self._traced.content:
            span.set_attribute("gen_ai.input.messages", input_messages(event.messages))
        # After a resume, tools of a turn of the earlier process get the run as their parent.
        self._in_run = self._in_chat = set_span_in_context(span, Context())

    def round_started(self, event: RoundStarted) -> None:
        span = self._chat = self._start("chat", self._traced.model, self._in_run, event)
        span.set_attributes({**self._model, "windlass.round": event.round})
        self._in_chat = set_span_in_context(span, Context())
        self._turn = TurnBuilder()

    def turn_delta(self, event: ModelEvent) -> None:
        self._turn.add(event)

    def turn_ended(self, event: TurnEnded) -> None:
        span, self._chat = self._chat, None
        if span is None:
            return
        span.set_attribute("gen_ai.response.finish_reasons", [event.finish])
        span.set_attributes(_tokens(event.usage))
        if self._traced.content:
            self._turn.add(event)
            self._record_turn(span)
        span.end(_nanoseconds(event))

    def tool_run_started(self, event: ToolRunStarted) -> None:
        span = self._start_tool(event.call.name, event.call.id, event)
        if self._traced.content:
            span.set_attribute("gen_ai.tool.call.arguments", _valid(event.call.json))
        self._tools.setdefault(event.call.id, []).append(span)

    def tool_run_ended(self, event: ToolRunEnded) -> None:
        response = event.response
        if waiting := self._tools.get(response.id):
            span = waiting.pop(0)
        else:
            # The tool did not run: the call was refused, or the result was cached.
            named = self._traced.content or event.outcome not in MAYBE_UNKNOWN
            span = self._start_tool(response.name if named else "", response.id, event)
        span.set_attribute("windlass.tool.cached", event.cached)
        if event.outcome != "ok":
            _fail(span, event.outcome)
        if self._traced.content:
            span.set_attribute("gen_ai.tool.call.result", _valid(response.text))
        span.end(_nanoseconds(event))

    def run_ended(self, event: RunEnded) -> None:
        still_open = [span for spans in self._tools.values() for span in spans]
        if self._chat is not None:
            still_open.append(self._chat)
        for span in still_open:
            _fail(span, event.reason)
            span.end(_nanoseconds(event))
        if self._run is not None:
            self._run.set_attributes({**_tokens(event.usage), "windlass.rounds": event.rounds})
            self._run.set_attribute("windlass.stop_reason", event.reason)
            if event.reason in FAILED:
                _fail(self._run, event.reason)
            self._run.end(_nanoseconds(event))
        self._tools, self._chat, self._run = {}, None, None

    def _start(self, operation: str, name: str, parent: Context, event: RunEvent) -> Span:
        return self._tracer.start_span(
            f"{operation} {name}".rstrip(),
            parent,
            SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL,
            {"gen_ai.operation.name": operation},
            start_time=_nanoseconds(event),
        )

    def _start_tool(self, name: str, call_id: str, event: RunEvent) -> Span:
        span = self._start("execute_tool", _valid(name), self._in_chat, event)
        span.set_attribute("gen_ai.tool.type", "function")
        span.set_attribute("gen_ai.tool.call.id", _valid(call_id))
        if name:
            span.set_attribute("gen_ai.tool.name", _valid(name))
        return span

    def _record_turn(self, span: Span) -> None:
        try:
            turn = self._turn.turn()
        except StreamCut:
            return
        span.set_attribute("gen_ai.output.messages", output_messages(turn.message, turn.finish))


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.thought_tokens,
    }


def _fail(span: Span, kind: Outcome | StopReason) -> None:
    """Records only the kind of the failure: its message may contain content."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _nanoseconds(event: RunEvent) -> int:
    return int(event.time * 1_000_000_000)


def _valid(text: str) -> str:
    """Replaces lone surrogates, because one in a span makes the export of its batch fail."""
    return text.encode("utf-8", "replace").decode()


_Handlers: TypeAlias = dict[type[RunEvent], Callable[[RunSpans, Any], None]]
_HANDLERS: _Handlers = {
    RunStarted: RunSpans.run_started,
    RoundStarted: RunSpans.round_started,
    TurnEnded: RunSpans.turn_ended,
    ToolRunStarted: RunSpans.tool_run_started,
    ToolRunEnded: RunSpans.tool_run_ended,
    RunEnded: RunSpans.run_ended,
}
_CONTENT_HANDLERS: _Handlers = {
    **_HANDLERS,
    TextDelta: RunSpans.turn_delta,
    ThoughtDelta: RunSpans.turn_delta,
    PartReceived: RunSpans.turn_delta,
    ToolCallStarted: RunSpans.turn_delta,
    ToolCallEnded: RunSpans.turn_delta,
}


def input_messages(messages: Iterable[Message]) -> str:
    """The value of `gen_ai.input.messages`."""
    return compact_json([_message(message) for message in messages])


def output_messages(message: Message, finish: FinishReason) -> str:
    """The value of `gen_ai.output.messages`: always one message."""
    return compact_json([{**_message(message), "finish_reason": finish}])


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: AnyPart) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "content": part.text}
        case Thought():
            return {"type": "reasoning", "content": part.text}
        case FunctionCall():
            arguments = part.arguments
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
        case FunctionResponse():
            return {"type": "tool_call_response", "id": part.id, "response": part.response}
        case FileData():
            return {"type": "uri", "mime_type": part.mime_type, "uri": part.uri}
        case InlineData():
            # Only the size: images and audio would make traces too large.
            return {"type": "blob", "mime_type": part.mime_type, "size": len(part.data)}
        case Opaque():
            return {"type": "other", "provider": part.provider}
        case _:
            assert_never(part)
