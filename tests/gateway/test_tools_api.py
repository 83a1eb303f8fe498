"""Tools over HTTP: who may see them, what was last done with them, and calls by hand."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gateway.asgi import Answer, bearer, post, request
from tests.gateway.restarting import Place
from tests.gateway.serving import config_of
from tests.gateway.talking import Body, asking

from windlass import Part, Tool, ToolContext, ToolError, tool
from windlass.gateway.config import KeyConfig, LimitsConfig, McpConfig, ModelConfig
from windlass.gateway.keys import new_key
from windlass.testing import Gate, call, calls

WEB, WEB_HASH = new_key()
APP, APP_HASH = new_key()
erased: list[str] = []


@tool(idempotent=True)
def lookup(city: str) -> str:
    """Looks a city up."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return f"sunny in {city}"


@tool(approve=True)
def erase(path: str) -> str:
    """Erases a file."""
    erased.append(path)
    return f"erased {path}"


@tool
def files__read(path: str) -> str:
    """Reads a file of a server."""
    return path


TOOLS = (lookup, erase, files__read)
ONE = ModelConfig(name="one", target="scripted/model", tools=("lookup", "erase", "files__read"))
TWO = ModelConfig(name="two", target="scripted/model", tools=("lookup",))
BARE = ModelConfig(name="bare", target="scripted/model", tools=("erase",), function_calling=False)
SERVED = config_of(ONE, TWO, BARE, mcp={"files": McpConfig(name="files", command="serve")})


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place(None, script, config=SERVED, tools=TOOLS)
    yield place
    await place.gateway.aclose()


def script(request: Any) -> Any:
    """Looks up what it is told to, then answers."""
    last = request.messages[-1]
    if last.role == "tool":
        return "Done."
    return calls(*(call("lookup", city=city) for city in last.text.split()))


async def tools_of(place: Place, *headers: tuple[bytes, bytes]) -> dict[str, Body]:
    answer = await request(place.app, "GET", "/v1/tools", headers=headers)
    assert answer.json["object"] == "list"
    return {each["name"]: each for each in answer.json["data"]}


async def by_hand(place: Place, name: str, *headers: tuple[bytes, bytes], **body: Any) -> Answer:
    return await post(place.app, body, f"/v1/tools/{name}/call", headers=headers)


async def test_a_tool_is_told_as_a_model_has_it(place: Place) -> None:
    tools = await tools_of(place)
    assert list(tools) == ["lookup", "erase", "files__read"]
    assert tools["lookup"] == {
        "name": "lookup",
        "object": "tool",
        "description": "Looks a city up.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "approve": False,
        "idempotent": True,
        "models": ["one", "two"],
        "origin": "gateway",
        "calls": {"count": 0, "failures": 0, "last": []},
    }
    assert (tools["erase"]["approve"], tools["erase"]["models"]) == (True, ["one"])
    assert tools["files__read"]["origin"] == "mcp:files"
    assert (await place.get("/v1/tools/lookup")).json == tools["lookup"]


async def test_a_key_sees_the_tools_of_its_models_alone() -> None:
    keys = (
        KeyConfig(name="web", hash=WEB_HASH, models=("two",)),
        KeyConfig(name="app", hash=APP_HASH),
    )
    place = Place(None, script, config=replace(SERVED, keys=keys), tools=TOOLS)
    mine, theirs = bearer(WEB), bearer(APP)
    tools = await tools_of(place, mine)
    assert {name: each["models"] for name, each in tools.items()} == {"lookup": ["two"]}
    for method, path in (("GET", "/v1/tools/erase"), ("POST", "/v1/tools/erase/call")):
        answer = await request(place.app, method, path, headers=[mine])
        assert (answer.status, answer.error["code"]) == (404, "tool_not_found")
    await post(place.app, asking("Rome", model="two"), headers=[mine])
    await by_hand(place, "lookup", mine, arguments={"city": "Oslo"})
    assert (await tools_of(place, mine))["lookup"]["calls"]["count"] == 2
    assert (await tools_of(place, theirs))["lookup"]["calls"]["count"] == 0
    await place.gateway.aclose()


async def test_the_last_calls_of_a_tool_are_those_of_runs_and_by_hand(place: Place) -> None:
    run = await place.ended(await place.start("Rome Atlantis", model="one"))
    done = (await by_hand(place, "lookup", arguments={"city": "Oslo"})).json
    told = (await place.get("/v1/tools/lookup")).json["calls"]
    assert (told["count"], told["failures"]) == (3, 1)
    hand, *of_run = told["last"]
    assert hand == {
        "run_id": None,
        "call_id": done["call_id"],
        "time": hand["time"],
        "seconds": done["seconds"],
        "outcome": "ok",
        "arguments": {"city": "Oslo"},
        "response": {"output": "sunny in Oslo"},
        "by_hand": True,
    }
    assert {each["run_id"] for each in of_run} == {run["id"]}
    assert {each["arguments"]["city"]: each["outcome"] for each in of_run} == {
        "Rome": "ok",
        "Atlantis": "error",
    }


async def test_of_many_and_long_calls_the_newest_are_shown_and_cut(place: Place) -> None:
    for number in range(21):
        await by_hand(place, "lookup", arguments={"city": f"{number} {'x' * 5000}"})
    told = (await place.get("/v1/tools/lookup")).json["calls"]
    assert (told["count"], len(told["last"])) == (21, 20)
    newest = told["last"][0]
    assert newest["arguments"].startswith('{"city":"20 xxx')
    assert len(newest["arguments"]) < 2100
    assert len(newest["response"]["output"]) < 2100


async def test_a_deleted_run_leaves_no_call_behind(place: Place) -> None:
    run = await place.ended(await place.start("Rome", model="one"))
    assert (await place.get("/v1/tools/lookup")).json["calls"]["count"] == 1
    await request(place.app, "DELETE", f"/v1/runs/{run['id']}")
    assert (await place.get("/v1/tools/lookup")).json["calls"]["count"] == 0
    assert run["id"] not in place.gateway.summaries._kept


async def test_pictures_of_a_tool_that_runs_by_hand_come_along() -> None:
    @tool
    def draw() -> Any:
        """Draws a dot."""
        return ["a dot", Part.from_bytes(b"dot", "image/png")]

    model = ModelConfig(name="one", target="scripted/model", tools=("draw",))
    place = Place(None, script, config=config_of(model), tools=[draw])
    drawn = (await by_hand(place, "draw")).json
    assert drawn["parts"] == [{"type": "inline_data", "data": "ZG90", "mime_type": "image/png"}]
    await place.gateway.aclose()


async def test_a_tool_runs_by_hand_as_it_does_for_a_model(place: Place) -> None:
    answer = (await by_hand(place, "lookup", arguments={"city": "Rome"})).json
    assert answer == {
        "call_id": answer["call_id"],
        "name": "lookup",
        "outcome": "ok",
        "response": {"output": "sunny in Rome"},
        "parts": [],
        "seconds": answer["seconds"],
        "effect_unknown": False,
        "progress": [],
    }
    failed = (await by_hand(place, "lookup", arguments={"city": "Atlantis"})).json
    assert (failed["outcome"], failed["response"]) == (
        "error",
        {"error": "there is no such city"},
    )
    invalid = (await by_hand(place, "lookup", arguments={"town": "Rome"})).json
    assert invalid["outcome"] == "invalid_arguments"
    assert "city" in invalid["response"]["error"]


async def test_a_tool_that_asks_for_a_yes_gets_it_in_the_call(place: Place) -> None:
    for body in ({}, {"approved": False}):
        refused = await by_hand(place, "erase", arguments={"path": "a"}, **body)
        assert (refused.status, refused.error["code"]) == (409, "approval_needed")
        assert refused.error["param"] == "approved"
    assert "a" not in erased
    answer = await by_hand(place, "erase", arguments={"path": "b"}, approved=True)
    assert answer.json["response"] == {"output": "erased b"}
    assert erased[-1] == "b"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"[]", None),
        (b'{"arguments": []}', "arguments"),
        (b'{"arguments": {}, "approved": "yes"}', "approved"),
        (b'{"argument": {}}', "argument"),
        (b'{"arguments": {"city": %b1%b}}' % (b"[" * 70, b"]" * 70), "arguments"),
        (b'{"arguments": {"city": %b1%b}}' % (b"[" * 50_000, b"]" * 50_000), None),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_body_that_is_no_call_is_refused(
    place: Place, body: bytes, param: str | None
) -> None:
    answer = await post(place.app, body, "/v1/tools/lookup/call")
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize("kind", [b"text/plain", b"application/x-www-form-urlencoded"])
async def test_a_form_of_a_web_page_is_no_call(place: Place, kind: bytes) -> None:
    path, body = "/v1/tools/erase/call", b'{"arguments": {"path": "form"}, "approved": true}'
    headers = [(b"content-type", kind)]
    answer = await request(place.app, "POST", path, headers=headers, pieces=[body])
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")
    assert "form" not in erased


async def test_a_yes_is_to_the_call_and_to_nothing_that_its_tool_asks() -> None:
    asked: list[tuple[bool, str | None]] = []

    @tool(approve=True)
    async def ask(context: ToolContext) -> str:
        """Asks for more than it was called for."""
        decision = await context.ask(Part.from_function_call("ask:changed", {}))
        asked.append((decision.approved, decision.reason))
        return "asked"

    model = ModelConfig(name="one", target="scripted/model", tools=("ask",))
    place = Place(None, script, config=config_of(model), tools=[ask])
    assert (await by_hand(place, "ask", approved=True)).json["outcome"] == "ok"
    assert asked == [(False, "the yes was to the call itself")]
    await place.gateway.aclose()


def waiting(gate: Gate) -> Place:
    """A gateway with one tool, which goes when the gate opens."""

    @tool
    async def wait(context: ToolContext) -> str:
        """Waits."""
        context.report(0.5, "half", {"step": 1})
        await gate.passed()
        return "waited"

    config = config_of(
        ModelConfig(name="m", target="scripted/model", tools=("wait",)),
        limits=LimitsConfig(max_running=1, max_queued=0),
    )
    return Place(None, config=config, tools=[wait])


async def test_what_a_tool_reports_on_the_way_comes_with_its_answer() -> None:
    gate = Gate()
    gate.open()
    place = waiting(gate)
    [progress] = (await by_hand(place, "wait")).json["progress"]
    assert progress.pop("time") > 0
    assert progress == {"progress": 0.5, "message": "half", "data": {"step": 1}}
    await place.gateway.aclose()


async def test_a_call_by_hand_takes_the_place_of_a_run() -> None:
    gate = Gate()
    place = waiting(gate)
    first = asyncio.create_task(by_hand(place, "wait"))
    await gate.reached.wait()
    refused = await by_hand(place, "wait")
    assert (refused.status, refused.error["code"]) == (503, "overloaded")
    gate.open()
    assert (await first).json["outcome"] == "ok"
    assert (await by_hand(place, "wait")).status == 200
    await place.gateway.aclose()


async def test_a_client_that_leaves_calls_its_call_off() -> None:
    gate, leaves = Gate(), asyncio.Event()
    place = waiting(gate)
    path = "/v1/tools/wait/call"
    task = asyncio.create_task(post(place.app, {}, path, leaves=leaves))
    await gate.reached.wait()
    leaves.set()
    assert (await task).status == 0
    [last] = (await place.get("/v1/tools/wait")).json["calls"]["last"]
    assert (last["outcome"], last["by_hand"]) == ("stopped", True)
    gate.open()
    assert (await by_hand(place, "wait")).status == 200  # its place is free
    await place.gateway.aclose()


async def test_a_call_that_goes_when_the_gateway_ends_is_told_so() -> None:
    gate = Gate()
    place = waiting(gate)
    task = asyncio.create_task(by_hand(place, "wait"))
    await gate.reached.wait()
    await place.gateway.drain(0)
    answer = await task
    assert (answer.status, answer.error["code"]) == (503, "shutting_down")
    await place.gateway.aclose()


async def test_calls_by_hand_are_counted_like_those_of_models(place: Place) -> None:
    await by_hand(place, "lookup", arguments={"city": "Rome"})
    counted = (await place.get("/metrics")).body.decode()
    assert 'windlass_tool_runs_total{outcome="ok",tool="lookup"} 1.0' in counted
    assert 'route="/v1/tools/{name}/call"' in counted


async def test_a_key_may_call_by_hand_as_often_as_it_may_ask() -> None:
    keys = (KeyConfig(name="web", hash=WEB_HASH, requests_per_minute=1),)
    place = Place(None, script, config=replace(SERVED, keys=keys), tools=TOOLS)
    assert (await by_hand(place, "lookup", bearer(WEB), arguments={"city": "Rome"})).status == 200
    refused = await by_hand(place, "lookup", bearer(WEB), arguments={"city": "Rome"})
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    await place.gateway.aclose()


async def test_a_session_of_workers_needs_workers(place: Place) -> None:
    answer = await request(place.app, "GET", "/v1/tools", headers=[(b"x-windlass-session", b"s1")])
    assert (answer.status, answer.error["code"]) == (404, "no_workers")


def found(city: str) -> str:
    """Finds a city."""
    return city


class FakeWorkers:
    """Every session has one tool, which bears its name; notes what is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def tools(self, sessions: list[str]) -> tuple[Tool, ...]:
        self.asked += sessions
        return tuple(tool(name=f"of_{each}")(found) for each in sessions)

    async def aclose(self) -> None:
        pass


async def test_a_session_that_many_models_have_is_asked_once() -> None:
    models = [
        ModelConfig(name=name, target="scripted/model", sessions=("shared", name))
        for name in ("one", "two", "three")
    ]
    place = Place(None, script, config=config_of(*models), tools=())
    workers: Any = FakeWorkers()
    place.gateway.sessions.workers = workers
    tools = await tools_of(place, (b"x-windlass-session", b"own"))
    assert sorted(workers.asked) == ["one", "own", "shared", "three", "two"]
    assert {name: (each["origin"], each["models"]) for name, each in tools.items()} == {
        "of_shared": ("worker:shared", ["one", "two", "three"]),
        "of_one": ("worker:one", ["one"]),
        "of_own": ("worker:own", ["one", "two", "three"]),
        "of_two": ("worker:two", ["two"]),
        "of_three": ("worker:three", ["three"]),
    }
    await place.gateway.aclose()


async def test_a_key_sees_and_calls_nothing_of_a_session_that_it_may_not_name() -> None:
    keys = (KeyConfig(name="web", hash=WEB_HASH, sessions=("mine",)),)
    place = Place(None, script, config=replace(SERVED, keys=keys), tools=TOOLS)
    workers: Any = FakeWorkers()
    place.gateway.sessions.workers = workers
    for session, status in ((b"mine", 200), (b"theirs", 403)):
        headers = [bearer(WEB), (b"x-windlass-session", session)]
        name = f"of_{session.decode()}"
        for path in ("/v1/tools", f"/v1/tools/{name}"):
            assert (await request(place.app, "GET", path, headers=headers)).status == status
        called = await by_hand(place, name, *headers, arguments={"city": "Rome"})
        assert called.status == status
    assert (
        await request(place.app, "GET", "/v1/tools/of_mine", headers=[bearer(WEB)])
    ).status == 404
    assert "theirs" not in workers.asked
    await place.gateway.aclose()


async def test_a_model_says_which_tools_it_offers(place: Place) -> None:
    models = {each["id"]: each for each in (await place.get("/v1/models")).json["data"]}
    assert models["two"]["windlass"] == {
        "tools": ["lookup"],
        "mode": "auto",
        "max_rounds": 5,
        "sessions": [],
    }
    assert models["bare"]["windlass"]["tools"] == []
    assert (await place.get("/v1/models/two")).json == models["two"]
