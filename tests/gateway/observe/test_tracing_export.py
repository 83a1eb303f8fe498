"""The export of traces: what turns it on, and what a collector receives."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.conftest import events_of
from tests.gateway.observe.traced import SECRET, double

from windlass import AsyncClient, ConfigError, Message
from windlass.content import FunctionResponse
from windlass.events import RunEnded, RunStarted, ToolRunEnded
from windlass.gateway.observe.tracing import tracing_from
from windlass.testing import ScriptedModel, call, say


class Collector(ThreadingHTTPServer):
    """A receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.paths: list[str] = []
        self.received: list[ExportTraceServiceRequest] = []


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.paths.append(self.path)
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces"),
    ],
)
async def test_spans_reach_a_collector(collector: Collector, variable: str, path: str) -> None:
    tracing = tracing_from({variable: collector.url + path})
    assert tracing is not None
    observer = tracing.run(model="m", provider="openai")
    script = [call("double", number=SECRET), say("b")]
    async with AsyncClient(ScriptedModel(script), mode="native") as client:
        for event in await events_of(client, tools=[double]):
            observer(event)
    await tracing.aclose()
    assert collector.paths == ["/v1/traces"]
    [resource] = collector.received[0].resource_spans
    service = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert service["service.name"] == "windlass"
    spans = [span for scope in resource.scope_spans for span in scope.spans]
    assert sorted(span.name for span in spans) == [
        "chat m",
        "chat m",
        "execute_tool double",
        "invoke_agent",
    ]
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans)
    assert SECRET not in str(collector.received)


async def test_an_invalid_character_does_not_stop_the_export_of_spans(
    collector: Collector,
) -> None:
    tracing = tracing_from({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, content=True)
    assert tracing is not None
    observer = tracing.run(model="m", provider="openai")
    response = FunctionResponse("\ud800", {"error": "\ud800"}, "\ud800")
    observer(RunStarted("r", "m", (Message.user("\ud800"),)))
    observer(ToolRunEnded(response, "unknown_tool"))
    observer(RunEnded("answer"))
    await tracing.aclose()
    [scope] = collector.received[0].resource_spans[0].scope_spans
    names = {span.name: {each.key for each in span.attributes} for span in scope.spans}
    assert "gen_ai.input.messages" in names["invoke_agent"]
    assert names["execute_tool ?"] >= {"gen_ai.tool.call.id", "gen_ai.tool.call.result"}


async def test_the_environment_names_the_service(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "front")
    tracing = tracing_from({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert tracing is not None
    observer = tracing.run(model="m", provider="openai")
    observer(RunStarted("r", "m", ()))
    observer(RunEnded("answer"))
    await tracing.aclose()
    attributes = collector.received[0].resource_spans[0].resource.attributes
    assert "front" in {each.value.string_value for each in attributes if each.key == "service.name"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost"},
        {"OTEL_SDK_DISABLED": "True", "OTEL_TRACES_EXPORTER": "otlp"},
    ],
)
def test_without_an_exporter_there_is_no_tracing(environ: dict[str, str]) -> None:
    assert tracing_from(environ) is None


@pytest.mark.parametrize("exporter", ["otlp", "console", "Console, otlp"])
def test_the_exporter_variable_alone_turns_tracing_on(exporter: str) -> None:
    tracing = tracing_from({"OTEL_TRACES_EXPORTER": exporter})
    assert tracing is not None
    tracing.shutdown()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER must be one of otlp, console, none, not 'zipkin'",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, not 'grpc'",
        ),
    ],
)
def test_an_invalid_exporter_is_a_clear_error(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tracing_from(environ)


def test_missing_packages_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'windlass\[otel\]'"):
        tracing_from({"OTEL_TRACES_EXPORTER": "otlp"})


@pytest.mark.process
def test_the_gateway_runs_without_opentelemetry() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from windlass.gateway.observe.tracing import tracing_from\n"
        "assert tracing_from({}) is None"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
