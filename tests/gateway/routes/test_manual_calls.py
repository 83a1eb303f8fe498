"""Tool calls that clients make over HTTP, under the same rules as calls of a model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import bearer, post, request
from tests.support.offering import SERVED, TOOLS, by_hand, erased, script
from tests.support.restarting import Place
from tests.support.serving import config_of

from windlass import Part, ToolContext, tool
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import Gate

WEB, WEB_HASH = new_key()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place(None, script, config=SERVED, tools=TOOLS)
    yield place
    await place.gateway.aclose()


async def test_a_manual_call_returns_the_images_of_its_tool() -> None:
    @tool
    def draw() -> Any:
        """Draws a dot."""
        return ["a dot", Part.from_bytes(b"dot", "image/png")]

    model = ModelConfig(name="one", target="scripted/model", tools=("draw",))
    place = Place(None, script, config=config_of(model), tools=[draw])
    drawn = (await by_hand(place, "draw")).json
    assert drawn["parts"] == [{"type": "inline_data", "data": "ZG90", "mime_type": "image/png"}]
    await place.gateway.aclose()


async def test_a_manual_call_runs_like_a_call_of_a_model(place: Place) -> None:
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


async def test_a_manual_call_can_contain_its_approval(place: Place) -> None:
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
        (b'{"arguments": {"city": %b1%b}}' % (b"[" * 50_000, b"]" * 50_000), "arguments"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_invalid_body_is_refused(place: Place, body: bytes, param: str | None) -> None:
    answer = await post(place.app, body, "/v1/tools/lookup/call")
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize("kind", [b"text/plain", b"application/x-www-form-urlencoded"])
async def test_a_web_form_is_refused(place: Place, kind: bytes) -> None:
    path, body = "/v1/tools/erase/call", b'{"arguments": {"path": "form"}, "approved": true}'
    headers = [(b"content-type", kind)]
    answer = await request(place.app, "POST", path, headers=headers, pieces=[body])
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")
    assert "form" not in erased


async def test_an_approval_covers_the_call_and_no_nested_request() -> None:
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
    assert asked == [(False, "the approval covers only the call itself")]
    await place.gateway.aclose()


def waiting(gate: Gate, **options: Any) -> Place:
    """A gateway with one tool, which returns when the gate opens."""

    @tool
    async def wait(context: ToolContext) -> str:
        """Waits."""
        context.report(0.5, "half", {"step": 1})
        await gate.passed()
        return "waited"

    config = config_of(
        ModelConfig(name="m", target="scripted/model", tools=("wait",), **options),
        limits=LimitsConfig(max_running=1, max_queued=0),
    )
    return Place(None, config=config, tools=[wait])


async def test_a_manual_call_returns_the_progress_of_its_tool() -> None:
    gate = Gate()
    gate.open()
    place = waiting(gate)
    [progress] = (await by_hand(place, "wait")).json["progress"]
    assert progress.pop("time") > 0
    assert progress == {"progress": 0.5, "message": "half", "data": {"step": 1}}
    await place.gateway.aclose()


async def test_a_manual_call_has_the_timeout_of_a_run() -> None:
    place = waiting(Gate(), tool_timeout=0.01)
    late = (await by_hand(place, "wait")).json
    assert (late["outcome"], late["effect_unknown"]) == ("timeout", True)
    assert "0.01 seconds" in late["response"]["error"]
    await place.gateway.aclose()


async def test_a_manual_call_takes_the_slot_of_a_run() -> None:
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


async def test_a_client_that_leaves_cancels_its_manual_call() -> None:
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


async def test_a_shutdown_refuses_an_active_manual_call() -> None:
    gate = Gate()
    place = waiting(gate)
    task = asyncio.create_task(by_hand(place, "wait"))
    await gate.reached.wait()
    await place.gateway.drain(0)
    answer = await task
    assert (answer.status, answer.error["code"]) == (503, "shutting_down")
    await place.gateway.aclose()


async def test_manual_calls_are_counted_like_those_of_models(place: Place) -> None:
    await by_hand(place, "lookup", arguments={"city": "Rome"})
    counted = (await place.get("/metrics")).body.decode()
    assert 'windlass_tool_runs_total{outcome="ok",tool="lookup"} 1.0' in counted
    assert 'route="/v1/tools/{name}/call"' in counted


async def test_manual_calls_count_for_the_rate_of_the_key() -> None:
    keys = (KeyConfig(name="web", hash=WEB_HASH, requests_per_minute=1),)
    place = Place(None, script, config=replace(SERVED, keys=keys), tools=TOOLS)
    assert (await by_hand(place, "lookup", bearer(WEB), arguments={"city": "Rome"})).status == 200
    refused = await by_hand(place, "lookup", bearer(WEB), arguments={"city": "Rome"})
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    await place.gateway.aclose()
