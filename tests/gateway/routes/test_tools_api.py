"""Tools over HTTP: permissions and last calls."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import bearer, post, request
from tests.support.offering import SERVED, TOOLS, by_hand, script, tools_of
from tests.support.restarting import Place
from tests.support.serving import config_of
from tests.support.talking import asking

from windlass import Tool, tool
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key

WEB, WEB_HASH = new_key()
APP, APP_HASH = new_key()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place(None, script, config=SERVED, tools=TOOLS)
    yield place
    await place.gateway.aclose()


async def test_a_tool_is_listed_as_the_model_gets_it(place: Place) -> None:
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


async def test_a_key_sees_only_the_tools_of_its_models() -> None:
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


async def test_the_last_calls_of_a_tool_include_runs_and_manual_calls(place: Place) -> None:
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


async def test_the_newest_calls_are_shown_and_long_ones_shortened(place: Place) -> None:
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
    assert run["id"] not in place.gateway.summaries._cache


async def test_a_session_of_workers_needs_workers(place: Place) -> None:
    answer = await request(place.app, "GET", "/v1/tools", headers=[(b"x-windlass-session", b"s1")])
    assert (answer.status, answer.error["code"]) == (404, "no_workers")


def found(city: str) -> str:
    """Finds a city."""
    return city


class FakeWorkers:
    """Every session has one tool with its name. Records the requested sessions."""

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
    settings = models["two"]["windlass"]
    assert len(settings.pop("examples")) == 4
    target = settings["target"]
    assert settings == {
        "target": target,
        "title": target.partition("/")[2],
        "tools": ["lookup"],
        "mode": "auto",
        "max_rounds": 5,
        "sessions": [],
        "status": "ready",
        "ready_in": None,
        "approval_timeout": 300.0,
        "attachments": ["audio", "file", "image"],
    }
    assert models["bare"]["windlass"]["tools"] == []
    assert (await place.get("/v1/models/two")).json["windlass"].items() >= settings.items()
