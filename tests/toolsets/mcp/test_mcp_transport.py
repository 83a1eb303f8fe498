"""What a server does wrong on the wire: bytes, sizes, statuses and refused connections."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.toolsets.mcp.serving import starts, tiny

import windlass
from windlass import AsyncClient, ConfigError, FunctionResponse, InlineData
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp import connection
from windlass.toolsets.mcp.calls import requires_task, value_of
from windlass.toolsets.mcp.transport import LineSplitter, TooLarge

PIXEL = "iVBORw0KGgo="


async def response(toolset: Any, name: str, **arguments: Any) -> FunctionResponse:
    async with AsyncClient(ScriptedModel([call(name, **arguments), "done"])) as client:
        (result,) = (await client.generate("go", tools=[toolset])).results
    return result


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    text = b"".join(line + b"\n" for line in lines)
    reader, found = LineSplitter(100), list[bytes | TooLarge]()
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += reader.feed(text[:size])
        text = text[size:]
    assert found == lines


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 7, "result": {"text": "x" * 3000}},
        {"id": 7, "result": {"text": "x" * 3000}},
        {"result": {"text": "x" * 3000}, "id": 7, "jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "result": {"text": "x" * 3000}, "id": 7},
    ],
)
def test_a_message_that_is_too_large_ends_its_request(message: dict[str, Any]) -> None:
    reader, found = LineSplitter(1000), list[bytes | TooLarge]()
    for byte in json.dumps(message).encode() + b"\n{}\n":
        found += reader.feed(bytes([byte]))
    large, after = found
    assert isinstance(large, TooLarge)
    error = large.error(1000)
    assert error is not None
    assert error.id == 7
    assert after == b"{}"


@pytest.mark.process
async def test_an_invalid_byte_affects_only_its_own_character(tmp_path: Path) -> None:
    async with windlass.mcp(tiny(tmp_path), name="t") as toolset:
        assert (await response(toolset, "t__garbles")).output == "caf\N{REPLACEMENT CHARACTER}"
        assert (await response(toolset, "t__add", a=1, b=2)).output == "3"
    assert len(starts(tmp_path)) == 1


@pytest.mark.process
async def test_a_result_above_the_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with windlass.mcp(tiny(tmp_path), name="t", max_result_bytes=100_000) as toolset:
        long = await response(toolset, "t__long", size=200_000)
        assert long.error == "The result of t__long is larger than 100000 bytes."
        longer = await response(toolset, "t__long", size=5_000_000)
        assert "the message is larger than 4394304 bytes" in (longer.error or "")
        assert (await response(toolset, "t__add", a=1, b=2)).output == "3"
    assert len(starts(tmp_path)) == 1


@pytest.mark.process
async def test_a_large_result_arrives_whole(tmp_path: Path) -> None:
    async with windlass.mcp(tiny(tmp_path), name="t") as toolset:
        tools = {tool.name: tool for tool in await toolset.list_tools()}
        value = await tools["t__long"].function(  # pyright: ignore[reportOptionalCall]
            windlass_context=windlass.ToolContext(), size=20_000_000
        )
    assert len(value) == 20_000_000


@pytest.mark.process
async def test_a_server_that_hangs_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PING_SECONDS", 0.2)
    async with windlass.mcp(tiny(tmp_path), name="t", timeout=0.3) as toolset:
        hung = await response(toolset, "t__hangs")
        assert "returned no result" in (hung.error or "")
        while len(starts(tmp_path)) < 2:
            await response(toolset, "t__add", a=1, b=2)
        assert (await response(toolset, "t__add", a=1, b=2)).output == "3"


def test_structured_content_does_not_repeat_an_image_as_text() -> None:
    block = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    result = types.CallToolResult(
        content=[types.ImageContent(data=PIXEL, mime_type="image/png")],
        structured_content={"result": [block, "a caption"]},
    )
    value = value_of(result)
    assert isinstance(value, FunctionResponse)
    assert PIXEL not in json.dumps(value.response)
    assert "a caption" in json.dumps(value.response)
    (part,) = value.parts
    assert isinstance(part, InlineData)


@pytest.mark.parametrize(
    ("support", "required"), [("required", True), ("optional", False), (None, False)]
)
def test_tools_that_require_tasks_are_known(support: Any, required: bool) -> None:
    execution = types.ToolExecution(task_support=support)
    tool = types.Tool(name="t", input_schema={"type": "object"}, execution=execution)
    assert requires_task(tool) is required


class ServerThread:
    """A small HTTP server in a thread of the test."""

    def __init__(self, app: Any) -> None:
        import threading

        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self.listener]}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()


@pytest.fixture
def refusing(request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    """A server that answers every request with one status."""

    async def refuse(_: Request) -> Response:
        return JSONResponse({"error": "no"}, request.param)

    app = Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST", "DELETE"])])
    server = ServerThread(app)
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("refusing", "said"),
    [
        (401, "answered HTTP 401: its credentials are missing, wrong or expired; set its token"),
        (403, "answered HTTP 403: these credentials do not allow it; set its token"),
        (405, "answered HTTP 405 and offers neither streamable HTTP nor the older HTTP.SSE"),
        (500, "answered HTTP 500"),
    ],
    indirect=["refusing"],
)
def test_a_status_and_its_remedy_are_named(refusing: ServerThread, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        windlass.mcp(f"http://127.0.0.1:{refusing.port}/mcp").list()


def sample_app() -> Any:
    from mcp.server import MCPServer

    server = MCPServer("sample")

    @server.tool(structured_output=False)
    def add(a: int, b: int) -> str:
        return str(a + b)

    return server


class Gate:
    """Lets requests through until it is told a status."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.status = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self.status:
            await Response("no", self.status)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_call_names_the_status_and_did_not_run(
    status: int, protocol: Any, tmp_path: Path
) -> None:
    gate = Gate(sample_app().streamable_http_app())
    server = ServerThread(gate)
    url = f"http://127.0.0.1:{server.port}/mcp"
    async with windlass.mcp(url, name="s", state_dir=tmp_path, protocol=protocol) as toolset:
        assert (await response(toolset, "s__add", a=1, b=2)).output == "3"
        gate.status = status
        refused = (await response(toolset, "s__add", a=1, b=2)).error or ""
        gate.status = 0
    server.stop()
    assert f"refused the call with HTTP {status}" in refused
    assert "The tool was not run." in refused
    assert "effect unknown" not in refused


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_a_call_that_could_not_be_sent_did_not_run(protocol: Any, tmp_path: Path) -> None:
    server = ServerThread(sample_app().streamable_http_app())
    url = f"http://127.0.0.1:{server.port}/mcp"
    async with windlass.mcp(url, name="s", state_dir=tmp_path, protocol=protocol) as toolset:
        assert (await response(toolset, "s__add", a=1, b=2)).output == "3"
        server.stop()
        refused = (await response(toolset, "s__add", a=1, b=2)).error or ""
    assert "The tool was not run." in refused
    assert "effect unknown" not in refused


async def test_a_server_of_the_older_transport_is_used(tmp_path: Path) -> None:
    server = ServerThread(sample_app().sse_app())
    url = f"http://127.0.0.1:{server.port}/sse"
    async with windlass.mcp(url, name="s", state_dir=tmp_path) as toolset:
        assert (await response(toolset, "s__add", a=1, b=2)).output == "3"
    server.stop()
