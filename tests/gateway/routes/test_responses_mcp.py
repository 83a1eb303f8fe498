"""MCP servers that a request names: which are allowed, the items of their calls, and what is
stored."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import uvicorn
from mcp.server import MCPServer
from msgspec.structs import replace
from openai import AsyncOpenAI
from tests.support.asgi import Answer
from tests.support.responding import (
    is_stored,
    item_of,
    kinds,
    last_response,
    posted,
    replayed,
    respond,
    retrieved,
    run_count,
    stream,
    text_of,
)
from tests.support.restarting import SERVED, Place, Places
from tests.support.serving import Serving
from tests.support.talking import SECONDS, Body

from windlass.gateway.config import ResponsesConfig
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp.connection import run_in_background

SECRET = "token-of-the-client"


class Remote:
    """An MCP server on a port of this machine, and the headers that it received."""

    def __init__(self) -> None:
        server = MCPServer("Weather", version="1.0")
        reads = types.ToolAnnotations(read_only_hint=True)

        @server.tool(structured_output=False, annotations=reads)
        def forecast(city: str) -> str:
            """The weather of tomorrow."""
            return f"rain in {city}"

        @server.tool(structured_output=False)
        def order(what: str) -> str:
            """Orders something."""
            return f"ordered {what}"

        self.headers: list[dict[str, str]] = []
        self._app = server.streamable_http_app()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._recorded, log_level="error", ws="none", lifespan="on", interface="asgi3"
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self.server.run, args=([self._listener],), daemon=True
        )
        self._thread.start()

    async def _recorded(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.headers.append({n.decode(): v.decode() for n, v in scope["headers"]})
            if scope["path"] == "/moved":
                there = self.host.replace("127.0.0.1", "localhost")
                place = (b"location", f"http://{there}/mcp".encode())
                await send({"type": "http.response.start", "status": 307, "headers": [place]})
                return await send({"type": "http.response.body", "body": b""})
        return await self._app(scope, receive, send)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(60)
        self._listener.close()

    def tool(self, **fields: Any) -> Body:
        """The entry of `tools` in a request."""
        given = {"type": "mcp", "server_label": "weather", "server_url": f"http://{self.host}/mcp"}
        return {**given, "require_approval": "never", **fields}


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    remote = Remote()
    yield remote
    remote.stop()


def open_to(places: Places, *hosts: str, script: Any = ()) -> Place:
    """A gateway that allows these hosts."""
    return places.open(script, config=replace(SERVED, responses=ResponsesConfig(mcp_hosts=hosts)))


FORECAST = [call("weather__forecast", city="Oslo"), "Rain."]


@pytest.mark.parametrize("streams", [False, True])
async def test_the_gateway_runs_the_tools_of_an_allowed_server(
    places: Places, remote: Remote, streams: bool
) -> None:
    place = open_to(places, remote.host, script=FORECAST)
    tools = [remote.tool()]
    if streams:
        sent = await stream(place, "Weather?", tools=tools)
        response = last_response(sent)
        assert await replayed(place, response["id"]) == sent
    else:
        response = await respond(place, "Weather?", tools=tools)
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "message"]
    listing, made = item_of(response, "mcp_list_tools"), item_of(response, "mcp_call")
    assert listing["server_label"] == made["server_label"] == "weather"
    assert [tool["name"] for tool in listing["tools"]] == ["forecast", "order"]
    assert listing["tools"][0]["annotations"]["readOnlyHint"] is True
    assert (made["name"], made["output"]) == ("forecast", "rain in Oslo")
    assert await retrieved(place, response["id"]) == response
    assert await retrieved(places.open([]), response["id"]) == response


async def test_the_server_gets_the_headers_of_the_request_and_nothing_stores_them(
    places: Places, remote: Remote, file: Path
) -> None:
    place = open_to(places, remote.host, script=FORECAST)
    remote.headers.clear()
    given = {"authorization": SECRET, "headers": {"X-Team": SECRET, "Host": "evil.example"}}
    response = await respond(place, "Weather?", tools=[remote.tool(**given)])
    assert text_of(response) == "Rain."
    assert {each["authorization"] for each in remote.headers} == {f"Bearer {SECRET}"}
    assert {each["x-team"] for each in remote.headers} == {SECRET}
    assert {each["host"] for each in remote.headers} == {remote.host}
    assert SECRET not in str(response)
    assert run_count(file) == 1
    assert not is_stored(file, SECRET)


@pytest.mark.parametrize(
    ("allowed", "offered"),
    [
        (["order"], {"weather__order"}),
        ({"tool_names": ["forecast"]}, {"weather__forecast"}),
        ({"read_only": True}, {"weather__forecast"}),
        ([], set[str]()),
    ],
)
async def test_allowed_tools_choose_what_the_model_is_offered(
    places: Places, remote: Remote, allowed: Any, offered: set[str]
) -> None:
    place = open_to(places, remote.host, script=["Fine."])
    await respond(place, "Hi.", tools=[remote.tool(allowed_tools=allowed)])
    names = {getattr(tool, "name", "") for tool in place.model.requests[0].tools}
    assert names == {"lookup", "erase", *offered}


APPROVALS: dict[str, tuple[Any, bool]] = {
    "by default": (None, True),
    "always": ("always", True),
    "never": ("never", False),
    "never for this one": ({"never": {"tool_names": ["forecast"]}}, False),
    "never for another": ({"never": {"tool_names": ["order"]}}, True),
    "never for what only reads": ({"never": {"read_only": True}}, False),
}


@pytest.mark.parametrize("case", APPROVALS)
async def test_calls_wait_for_an_approval_unless_the_request_says_otherwise(
    places: Places, remote: Remote, case: str
) -> None:
    required, waits = APPROVALS[case]
    place = open_to(places, remote.host, script=FORECAST)
    first = await respond(place, "Weather?", tools=[remote.tool(require_approval=required)])
    assert ("mcp_approval_request" in kinds(first)) is waits
    if not waits:
        return
    waiting = item_of(first, "mcp_approval_request")
    assert (waiting["server_label"], waiting["name"]) == ("weather", "forecast")
    yes = {"type": "mcp_approval_response", "approval_request_id": waiting["id"], "approve": True}
    second = await respond(place, [yes], previous_response_id=first["id"])
    assert kinds(second) == ["mcp_call", "message"]
    assert item_of(second, "mcp_call")["output"] == "rain in Oslo"


REFUSED: dict[str, tuple[Body, int, str]] = {
    "another host": ({"server_url": "https://evil.example/mcp"}, 400, "mcp_server_not_allowed"),
    "another port": ({"server_url": "http://127.0.0.1:1/mcp"}, 400, "mcp_server_not_allowed"),
    "user info": ({"server_url": "http://{host}@evil.example/"}, 400, "mcp_server_not_allowed"),
    "a file": ({"server_url": "file:///etc/passwd"}, 400, "mcp_server_not_allowed"),
    "no URL": ({"server_url": "http://["}, 400, "mcp_server_not_allowed"),
    "a connector": (
        {"server_url": None, "connector_id": "connector_x"},
        400,
        "mcp_server_not_allowed",
    ),
    "no such path": ({"server_url": "http://{host}/nowhere"}, 424, "mcp_server_unreachable"),
    "a redirect to another host": (
        {"server_url": "http://{host}/moved"},
        424,
        "mcp_server_unreachable",
    ),
}


def refusal(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error["code"]


@pytest.mark.parametrize("case", REFUSED)
async def test_other_servers_are_refused_and_nothing_is_stored(
    places: Places, remote: Remote, file: Path, case: str
) -> None:
    fields, status, code = REFUSED[case]
    url = fields["server_url"] and fields["server_url"].replace("{host}", remote.host)
    place = open_to(places, remote.host, script=["Never said."])
    answer = await posted(place, "Hi.", tools=[remote.tool(**{**fields, "server_url": url})])
    assert refusal(answer) == (status, code)
    assert answer.error["param"] == "tools[0].server_url"
    assert (run_count(file), place.model.requests) == (0, [])


async def test_without_allowed_hosts_no_server_can_be_named(places: Places, remote: Remote) -> None:
    answer = await posted(open_to(places), "Hi.", tools=[remote.tool()])
    assert refusal(answer) == (400, "mcp_server_not_allowed")
    assert "mcp_hosts" in answer.error["message"]


async def test_the_official_sdk_reads_the_items(remote: Remote) -> None:
    config = replace(SERVED, responses=ResponsesConfig(mcp_hosts=(remote.host,)))
    config = replace(config, models={"m": replace(config.models["m"], tools=())})
    entry: Any = remote.tool()
    async with (
        Serving(config, models={"m": ScriptedModel(FORECAST)}) as serving,
        AsyncOpenAI(base_url=serving.base_url, api_key="none", max_retries=0) as client,
        client.responses.stream(model="m", input="Weather?", tools=[entry]) as streamed,
    ):
        async for _ in streamed:
            pass
        final = await streamed.get_final_response()
    assert [item.type for item in final.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert final.output_text == "Rain."


async def test_connections_are_closed_at_the_end_of_the_run(places: Places, remote: Remote) -> None:
    place = open_to(places, remote.host, script=[FORECAST[0], "Rain.", "Never said."])
    await respond(place, "Weather?", tools=[remote.tool(server_label="closing")])
    first = remote.tool(server_label="closing")
    other = remote.tool(server_label="other", server_url=f"http://{remote.host}/nowhere")
    refused = await posted(place, "Weather?", tools=[first, other])
    assert refusal(refused) == (424, "mcp_server_unreachable")
    assert await run_in_background(connections_left("mcp closing", "mcp other")) == set()


async def connections_left(*names: str) -> set[str]:
    """The names of supervisors that do not end by themselves."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() in names]
    _, left = await asyncio.wait(tasks, timeout=SECONDS) if tasks else (set(), set())
    return {task.get_name() for task in left}
