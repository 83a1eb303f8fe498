"""OpenTelemetry traces of runs, if the environment configures an exporter.

OpenTelemetry is an optional dependency, so it is imported only if traces are on.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from windlass.errors import ConfigError
from windlass.events import RunEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


__all__ = ["Tracing", "tracing_from"]

EXPORTERS = ("otlp", "console", "none")
PROTOCOL = "http/protobuf"


class Tracing:
    """Creates a tree of spans for each run with a tracer provider.

    With `content`, spans contain prompts, arguments, results and answers. `shutdown` shuts down a
    provider that is `owned`, and only flushes any other.
    """

    def __init__(
        self, provider: "TracerProvider", *, content: bool = False, owned: bool = False
    ) -> None:
        from windlass.gateway.observe import spans

        self._spans = spans
        self._provider = provider
        self._tracer = provider.get_tracer("windlass")
        self._content = content
        self._owned = owned

    def run(
        self,
        *,
        model: str,
        provider: str,
        key: str | None = None,
        traceparent: Mapping[str, str] | None = None,
    ) -> Callable[[RunEvent], None]:
        """An observer for one run.

        `traceparent` is the headers of its request, with names in lower case: the trace in them
        becomes the parent of the run.
        """
        traced = self._spans.TracedRun(
            model=model, provider=provider, key=key, content=self._content
        )
        return self._spans.RunSpans(self._tracer, traced, self._spans.parent_context(traceparent))

    def shutdown(self) -> None:
        """Sends all pending spans and waits until they are sent."""
        if self._owned:
            self._provider.shutdown()
        else:
            self._provider.force_flush()

    async def aclose(self) -> None:
        """Calls `shutdown` without blocking the event loop."""
        await asyncio.to_thread(self.shutdown)


def tracing_from(environ: Mapping[str, str], *, content: bool = False) -> Tracing | None:
    """Tracing as OpenTelemetry's standard variables configure it; None if they configure none.

    The variables are `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and
    `OTEL_EXPORTER_OTLP_ENDPOINT`; `OTEL_SDK_DISABLED` overrides them. OpenTelemetry reads the other
    settings (headers, sampling, batches, resource) from the process's environment. Raises
    `ConfigError` for an invalid value, and if the packages are missing.
    """
    names = _exporters(environ)
    if not names:
        return None
    try:
        provider = _provider(names, _endpoint(environ))
    except ImportError as error:
        raise ConfigError(
            "the environment configures traces, but their packages are missing: "
            "pip install 'windlass[otel]'"
        ) from error
    return Tracing(provider, content=content, owned=True)


def _exporters(environ: Mapping[str, str]) -> list[str]:
    """The names of the exporters, each once. An empty variable counts as not set."""
    if _value(environ, "OTEL_SDK_DISABLED").lower() == "true":
        return []
    asked = _value(environ, "OTEL_TRACES_EXPORTER") or ("otlp" if _endpoint(environ) else "none")
    names = list(dict.fromkeys(name.strip().lower() for name in asked.split(",")))
    for name in names:
        if name not in EXPORTERS:
            known = ", ".join(EXPORTERS)
            raise ConfigError(f"OTEL_TRACES_EXPORTER must be one of {known}, not {name!r}")
    if "otlp" in names:
        _check_protocol(environ)
    return [name for name in names if name != "none"]


def _check_protocol(environ: Mapping[str, str]) -> None:
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := _value(environ, variable):
            if protocol != PROTOCOL:
                raise ConfigError(f"{variable} must be {PROTOCOL}, not {protocol!r}")
            return


def _endpoint(environ: Mapping[str, str]) -> str | None:
    """The URL for traces, or None. The general endpoint gets the path `/v1/traces`."""
    if traces := _value(environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return traces
    base = _value(environ, "OTEL_EXPORTER_OTLP_ENDPOINT")
    return f"{base.removesuffix('/')}/v1/traces" if base else None


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _provider(exporters: list[str], endpoint: str | None) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    # The service name of the environment overrides ours.
    resource = Resource.create({"service.name": "windlass"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    for name in exporters:
        exporter = OTLPSpanExporter(endpoint) if name == "otlp" else ConsoleSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
