"""Helpers of the tests of traces: tracing into memory, and a few tools."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.conftest import events_of

from windlass import AsyncClient, RunEvent, ToolError, tool
from windlass.gateway.observe.tracing import Tracing
from windlass.testing import ScriptedModel

SECRET = "sk-planted-5ecret"


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
    """Raises a `ToolError`."""
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
