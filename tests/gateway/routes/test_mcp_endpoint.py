"""`/mcp`: the gateway's tools for MCP clients, in both eras, with the gateway's keys."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.support.serving import Serving, config_of

import windlass
from windlass import AsyncClient, Part, ToolContext, tool
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.gateway.config.keys import key_hash
from windlass.gateway.routes import mcp
from windlass.testing import ScriptedModel, call

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def secret() -> str:
    """Only for the key ada."""
    return "42"


@tool(approve=True)
def deletes(path: str) -> str:
    """Needs an approval."""
    return f"deleted {path}"


@tool
async def waits(context: ToolContext) -> str:
    """Reports that it runs, and waits until it is cancelled."""
    context.progress(0.5, "half")
    try:
        await asyncio.Event().wait()
    finally:
        cancelled_runs.append(context.run_id)
    return "never"


@tool
async def books(context: ToolContext) -> str:
    """Asks a question of its own."""
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    call = Part.from_function_call("books:question", {"message": "For whom?", "schema": form})
    decision = await context.ask(call)
    return f"booked for {(decision.arguments or {}).get('name')}" if decision.approved else "no"


cancelled_runs: list[str] = []
TOOLS = [add, secret, deletes, waits, books]


def key(name: str, **fields: Any) -> KeyConfig:
    return KeyConfig(name=name, hash=key_hash(f"key-{name}"), **fields)


def model(name: str, *tools: str, **fields: Any) -> ModelConfig:
    return ModelConfig(name=name, target="scripted/model", tools=tools, **fields)


def served(tmp_path: Path, **fields: Any) -> Serving:
    config = config_of(
        model("common", "add", "deletes", "waits", "books", approval_timeout=5),
        model("private", "secret"),
        keys=(key("ada"), key("bob", models=("common",)), key("eve", models=())),
        runs=RunsConfig(path=str(tmp_path / "runs.db")),
        **fields,
    )
    models = {name: ScriptedModel([]) for name in config.models}
    return Serving(config, models=models, tools=TOOLS)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Serving]:
    with served(tmp_path) as gateway:
        yield gateway


@asynccontextmanager
async def connected(
    gateway: Serving, owner: str, era: str, **options: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer key-{owner}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{gateway.root_url}/mcp", http_client=http)
        async with Client(transport, mode=ERAS[era], cache=None, **options) as client:
            assert client.protocol_version == era
            yield client


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def get(gateway: Serving, path: str, owner: str) -> Any:
    headers = {"Authorization": f"Bearer key-{owner}"}
    return httpx2.get(f"{gateway.base_url}{path}", headers=headers).json()


async def runs_of(gateway: Serving, owner: str) -> list[Any]:
    return (await asyncio.to_thread(get, gateway, "/runs", owner))["data"]


async def test_a_key_sees_and_calls_the_tools_of_its_models(gateway: Serving, era: str) -> None:
    names: dict[str, set[str]] = {}
    for owner in ("ada", "bob", "eve"):
        async with connected(gateway, owner, era) as client:
            names[owner] = {each.name for each in (await client.list_tools()).tools}
            if owner == "ada":
                assert text_of(await client.call_tool("secret")) == "42"
            else:
                with pytest.raises(MCPError, match="Unknown tool: secret"):
                    await client.call_tool("secret")
    assert names["ada"] == {each.name for each in TOOLS}
    assert names["bob"] == names["ada"] - {"secret"}
    assert names["eve"] == set()


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}])
async def test_without_a_key_nothing_is_served(gateway: Serving, header: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=header) as http:
        answer = await http.post(f"{gateway.root_url}/mcp", json=body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_call_is_a_run_of_its_key(gateway: Serving, era: str) -> None:
    async with connected(gateway, "bob", era) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
    (run,) = await runs_of(gateway, "bob")
    assert run["status"] == "ended"
    assert await runs_of(gateway, "ada") == []
    exported = await asyncio.to_thread(get, gateway, f"/runs/{run['id']}/export", "bob")
    assert [each["name"] for each in exported["rounds"][0]["calls"]] == ["add"]
    listed = await asyncio.to_thread(get, gateway, "/tools/add", "bob")
    assert listed["calls"]["count"] == 1


async def test_calls_are_counted_by_the_metrics(gateway: Serving, era: str) -> None:
    async with connected(gateway, "bob", era) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    headers = {"Authorization": "Bearer key-ada"}
    async with httpx2.AsyncClient(headers=headers) as http:
        metrics = (await http.get(f"{gateway.root_url}/metrics")).text
    assert 'windlass_tool_runs_total{outcome="ok",tool="add"} 1.0' in metrics
    assert 'windlass_runs_total{model="common",stop_reason="answer"} 1.0' in metrics


async def test_wrong_arguments_are_an_error_for_the_model(gateway: Serving, era: str) -> None:
    async with connected(gateway, "bob", era) as client:
        result = await client.call_tool("add", {"a": "x", "b": 2})
    assert result.is_error
    assert "a: expected an integer" in text_of(result)


async def test_results_are_resources_of_their_key_alone(gateway: Serving, era: str) -> None:
    async with connected(gateway, "bob", era) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        (resource,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(resource.uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert json.loads(content.text) == {"output": 3}
    async with connected(gateway, "ada", era) as client:
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError):
            await client.read_resource(resource.uri)


async def test_progress_and_cancellation_reach_the_run(gateway: Serving, era: str) -> None:
    heard: asyncio.Queue[tuple[float, str | None]] = asyncio.Queue()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.put_nowait((progress, message))

    cancelled_runs.clear()
    async with connected(gateway, "bob", era) as client:
        call = asyncio.create_task(client.call_tool("waits", progress_callback=progressed))
        assert await heard.get() == (0.5, "half")
        call.cancel()
        await asyncio.wait([call])
        while not cancelled_runs:
            await asyncio.sleep(0.01)
    (run,) = await runs_of(gateway, "bob")
    assert run["id"] == cancelled_runs[0]
    while (await runs_of(gateway, "bob"))[0]["status"] == "running":
        await asyncio.sleep(0.01)


async def test_the_run_of_a_disconnected_client_is_stopped(
    gateway: Serving, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is killed sends no cancellation."""
    monkeypatch.setattr(mcp, "GONE_SECONDS", 0.25)
    cancelled_runs.clear()
    headers = {
        "Authorization": "Bearer key-bob",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
    }
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": client}
    meta: dict[str, Any] = {"progressToken": 1}
    url = f"{gateway.root_url}/mcp"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        if era == "2025-11-25":
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            opened = await http.post(url, json=body)
            http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(url, json=body)).status_code == 202
        else:
            prefix = "io.modelcontextprotocol"
            meta[f"{prefix}/protocolVersion"] = era
            meta[f"{prefix}/clientInfo"] = client
            meta[f"{prefix}/clientCapabilities"] = {}
            http.headers.update({"Mcp-Method": "tools/call", "Mcp-Name": "waits"})
        params = {"name": "waits", "arguments": {}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        async with http.stream("POST", url, json=body) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                if "half" in line:
                    break
    while not cancelled_runs:
        await asyncio.sleep(0.01)
    while (await runs_of(gateway, "bob"))[0]["status"] == "running":
        await asyncio.sleep(0.01)


async def test_a_session_with_another_connection_keeps_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten: list[bool] = []
    session = mcp.McpSession(lambda: forgotten.append(True))
    monkeypatch.setattr(mcp, "GONE_SECONDS", 0.0)
    stopped: list[str] = []

    class Run:
        id = "run_1"

        async def stop(self) -> None:
            stopped.append(self.id)

    with session.calling(Run()):  # pyright: ignore[reportArgumentType]
        for _ in range(2):
            session.connected()
        session.disconnected()
        await asyncio.sleep(0)
        session.disconnected()
        session.connected()  # it is back
        await asyncio.sleep(0.01)
        assert stopped == []
        session.disconnected()
        while not stopped:
            await asyncio.sleep(0)
        assert not forgotten
    assert stopped == ["run_1"]
    assert forgotten


@pytest.mark.parametrize("approve", [True, False])
async def test_the_user_of_the_client_approves(gateway: Serving, era: str, approve: bool) -> None:
    asked: list[str] = []

    async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": approve})

    async with connected(gateway, "bob", era, elicitation_callback=elicited) as client:
        result = await client.call_tool("deletes", {"path": "/tmp"})
    assert text_of(result) == ("deleted /tmp" if approve else "The call was denied.")
    assert asked == ['Run deletes with {"path":"/tmp"}?']
    assert len(await runs_of(gateway, "bob")) == 1


async def test_a_question_of_a_tool_reaches_the_user(gateway: Serving, era: str) -> None:
    async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "For whom?"
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with connected(gateway, "bob", era, elicitation_callback=elicited) as client:
        assert text_of(await client.call_tool("books")) == "booked for Ada"


async def test_a_client_that_cannot_ask_waits_for_the_gateways_approver(
    gateway: Serving, era: str
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.put_nowait(message or "")

    async with connected(gateway, "bob", era) as client:
        call = asyncio.create_task(
            client.call_tool("deletes", {"path": "/tmp"}, progress_callback=progressed)
        )
        assert "waits for approval" in await heard.get()
        (run,) = await runs_of(gateway, "bob")
        waiting = await asyncio.to_thread(get, gateway, f"/runs/{run['id']}/export", "bob")
        (asked,) = waiting["rounds"][0]["calls"]
        url = f"{gateway.base_url}/runs/{run['id']}/approve"
        headers = {"Authorization": "Bearer key-bob"}
        async with httpx2.AsyncClient(headers=headers) as http:
            answer = await http.post(url, json={"call_id": asked["id"], "approved": True})
        assert answer.status_code == 200
        assert text_of(await call) == "deleted /tmp"


async def test_the_rate_of_a_key_limits_its_calls(tmp_path: Path, era: str) -> None:
    config = config_of(
        model("common", "add"), keys=(key("bob", requests_per_minute=1),), limits=LimitsConfig()
    )
    with Serving(config, models={"common": ScriptedModel([])}, tools=TOOLS) as gateway:
        async with connected(gateway, "bob", era) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(MCPError, match="1 requests a minute") as raised:
                await client.call_tool("add", {"a": 1, "b": 2})
    assert raised.value.data["status"] == 429


async def test_a_session_belongs_to_its_key(gateway: Serving) -> None:
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    accept = {"Accept": "application/json, text/event-stream"}
    url = f"{gateway.root_url}/mcp"
    async with httpx2.AsyncClient(headers=accept) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        opened = await http.post(url, json=body, headers={"Authorization": "Bearer key-ada"})
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        stolen = await http.post(
            url, json=body, headers={**session, "Authorization": "Bearer key-bob"}
        )
        own = await http.post(
            url, json=body, headers={**session, "Authorization": "Bearer key-ada"}
        )
    assert stolen.status_code == 404
    assert own.status_code == 200


async def test_a_client_that_listens_does_not_hold_up_a_shutdown(
    tmp_path: Path, era: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path, server=ServerConfig(port=0, shutdown_timeout=0)) as gateway:
        toolset = windlass.mcp(
            f"{gateway.root_url}/mcp",
            name="w",
            headers={"Authorization": "Bearer key-bob"},
            state_dir=tmp_path,
            protocol=era,
        )
        async with AsyncClient(ScriptedModel(["done"])) as client:
            await client.generate("go", tools=[toolset])
    await toolset.aclose()
    assert "graceful shutdown exceeded" not in caplog.text


def restarted(tmp_path: Path, url: str) -> Serving:
    """Another gateway at the address of one that has stopped."""
    again = served(tmp_path)
    again._listener.close()
    port = int(url.rpartition(":")[2].partition("/")[0])
    again._listener = socket.create_server(("127.0.0.1", port), backlog=512)
    return again


@pytest.mark.parametrize("approve", [True, False])
async def test_a_user_may_approve_after_a_restart(tmp_path: Path, approve: bool) -> None:
    """Only without sessions: the state of the call is in the messages."""
    first = served(tmp_path)
    gateways = [first]

    async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert len(gateways) == 1
        await asyncio.to_thread(first.__exit__)
        gateways.append(restarted(tmp_path, first.root_url))
        await asyncio.to_thread(gateways[-1].__enter__)
        return types.ElicitResult(action="accept", content={"approve": approve})

    await asyncio.to_thread(first.__enter__)
    async with connected(first, "bob", "2026-07-28", elicitation_callback=elicited) as client:
        result = await client.call_tool("deletes", {"path": "/tmp"})
    await asyncio.to_thread(gateways[-1].__exit__)
    assert text_of(result) == ("deleted /tmp" if approve else "The call was denied.")


async def test_a_client_continues_after_a_restart(tmp_path: Path, era: Any) -> None:
    """Through Windlass's own client, which opens a new session where the old one is gone."""
    with served(tmp_path) as gateway:
        url = f"{gateway.root_url}/mcp"
        headers = {"Authorization": "Bearer key-bob"}
        toolset = windlass.mcp(url, name="w", headers=headers, state_dir=tmp_path, protocol=era)
        async with AsyncClient(ScriptedModel([call("w__add", a=1, b=2), "done"])) as client:
            first = await client.generate("go", tools=[toolset])
    with restarted(tmp_path, url):
        async with AsyncClient(ScriptedModel([call("w__add", a=1, b=2), "done"])) as client:
            second = await client.generate("go", tools=[toolset])
        await toolset.aclose()
    assert first.results[0].output == second.results[0].output == {"result": 3}
