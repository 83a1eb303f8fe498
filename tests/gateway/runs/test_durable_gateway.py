"""Runs that outlive their gateway: found, resumed, or ended with a reason.

A new gateway on the same file simulates a restart, and two gateways on one file two processes.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import bearer, post, request
from tests.support.restarting import (
    SERVED,
    TOOLS,
    Places,
    content,
    data,
    erase,
    names,
)
from tests.support.serving import config_of
from tests.support.talking import SECONDS, asking, function

from windlass import ApprovalRequested, tool
from windlass.content import FunctionResponse
from windlass.events import RunResumed, TextDelta, ToolRunEnded, ToolRunStarted, TurnEnded
from windlass.gateway import GatewayConfig
from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.runs.service import CLIENT_LOST
from windlass.testing import Gate, call, calls, slow

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()
KEYS = (KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH))
TEXT = "One two three."

streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def test_an_ended_run_is_identical_after_a_restart(places: Places) -> None:
    before = places.open([call("lookup", city="Rome"), "Sunny."])
    run_id = await before.start()
    told, shown = await before.events(run_id), await before.ended(run_id)
    [listed] = (await before.get("/v1/runs")).json["data"]
    await before.gateway.aclose()
    after = places.open()
    assert await after.events(run_id) == told
    assert await after.events(run_id, after=3) == told[told.index(b"id: 4\n") :]
    assert await after.show(run_id) == shown
    # The mode is only in the run's events, which a list does not read.
    assert (await after.get("/v1/runs")).json["data"] == [{**listed, "mode": None}]
    late = await after.get(f"/v1/runs/{run_id}/events?after={len(names(told))}")
    assert (late.status, late.body) == (204, b"")


async def test_an_interrupted_run_and_its_readers_resume(places: Places) -> None:
    before = places.open([call("lookup", city="Rome"), slow(TEXT, Gate(), after=1)])
    run_id = await before.start()
    await before.until(run_id, TextDelta)
    await before.crash()
    after = places.open([TEXT])
    seen = await before.get(f"/v1/runs/{run_id}/events")  # its log was not lost
    [run] = await after.resume()
    assert run.id == run_id
    whole = await after.events(run_id)
    assert whole.startswith(seen.body.replace(b": \n\n", b""))
    assert names(whole).count("tool_run_started") == 1
    assert names(whole)[len(names(seen.body)) :][:2] == ["run_resumed", "round_restarted"]
    assert content(await after.ended(run_id)) == TEXT
    [asked] = after.model.requests
    assert asked.messages[-1].responses[0].response == {"output": "sunny in Rome"}


async def test_an_active_run_of_another_process_can_be_followed(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow(TEXT, gate, after=1)]), places.open()
    run_id = await there.start()
    reading = asyncio.create_task(here.events(run_id))
    await there.until(run_id, TextDelta)
    shown = await here.show(run_id)
    assert (shown["status"], shown["model"], shown["title"]) == ("running", "m", "Go.")
    gate.open()
    assert await reading == await there.events(run_id)
    assert await here.show(run_id) == await there.show(run_id)


async def test_an_active_run_of_another_process_is_not_resumed(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow(TEXT, gate)]), places.open()
    run_id = await there.start()
    assert await here.resume() == []
    gate.open()
    assert content(await there.ended(run_id)) == TEXT


async def test_a_run_is_stopped_from_another_process(places: Places) -> None:
    there, here = places.open([slow(TEXT, Gate())]), places.open()
    run_id = await there.start()
    stopped = await post(here.app, {}, f"/v1/runs/{run_id}/stop")
    assert (stopped.status, stopped.json["stop_reason"]) == (200, "stopped")
    assert (await there.ended(run_id))["stop_reason"] == "stopped"


@tool
async def pay(amount: int) -> str:
    """Pays, and never returns."""
    return await asyncio.Future[str]()


PAYING = config_of(ModelConfig(name="m", target="scripted/model", tools=("pay",)))


async def test_a_chat_continues_after_its_run_was_stopped_while_being_resumed(
    places: Places,
) -> None:
    turn = calls(call("pay", amount=1, id="a"), call("pay", amount=2, id="b"))
    before = places.open([turn], config=PAYING, tools=(pay,))
    run_id = await before.start(chat_id="c")
    await before.until(run_id, ToolRunStarted)
    await before.crash()
    after = places.open([TEXT], config=PAYING, tools=(pay,))
    resume = asyncio.create_task(after.resume())
    while not after.gateway.runs.running():
        await asyncio.sleep(0)
    [run] = after.gateway.runs.running()
    await run.stop()
    await resume
    told = data(await after.events(run_id))
    ends = [e["response"]["id"] for e in told if e["event"] == "tool_run_ended"]
    assert sorted(ends) == ["a", "b"]
    assert (await after.ask("And now?", chat_id="c"))["content"] == TEXT
    _, asked, answers, _ = after.model.requests[-1].messages
    assert [each.id for each in answers.responses] == [each.id for each in asked.calls]
    assert all("effect unknown" in str(each.error) for each in answers.responses)


async def test_a_call_is_approved_from_another_process(places: Places) -> None:
    there, here = places.open([call("erase", path="a"), "Gone."]), places.open()
    run_id = await there.start()
    asked = await there.until(run_id, ApprovalRequested)
    path = f"/v1/runs/{run_id}/approve"
    unknown = await post(here.app, {"call_id": "call_0"}, path)
    assert (unknown.status, unknown.error["code"]) == (409, "nothing_to_approve")
    decision = {"call_id": asked.call.id, "arguments": {"path": "b"}}
    assert (await post(here.app, decision, path)).status == 200
    assert content(await there.ended(run_id)) == "Gone."
    [end] = [e for e in data(await here.events(run_id)) if e["event"] == "tool_run_ended"]
    assert end["response"]["response"] == {"output": "erased b"}
    assert (await post(here.app, decision, path)).status == 409


async def test_a_run_stopped_while_its_gateway_was_down_starts_nothing(
    places: Places,
) -> None:
    before = places.open([call("lookup", city="Rome"), slow(TEXT, Gate())])
    run_id = await before.start()
    await before.until(run_id, TurnEnded)
    await before.crash()
    beside, after = places.open(), places.open([call("lookup", city="Oslo"), TEXT])
    stopping = asyncio.create_task(post(beside.app, {}, f"/v1/runs/{run_id}/stop"))
    assert beside.gateway.service.control is not None
    while not beside.gateway.service.control._waiting:  # then the stop is stored
        await asyncio.sleep(0)
    await after.resume()
    stopped = await stopping
    assert (stopped.status, stopped.json["stop_reason"]) == (200, "stopped")
    told = names(await after.events(run_id))
    assert "tool_run_started" not in told[told.index("run_resumed") :]
    assert after.model.requests == []


async def test_a_stop_that_is_not_executed_in_time_is_stored_and_returns_202(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.gateway.runs.storage.STOP_SECONDS", 0.01)
    before = places.open([slow(TEXT, Gate())])
    run_id = await before.start()
    await before.crash()
    beside, after = places.open(), places.open([TEXT])
    stopped = await post(beside.app, {}, f"/v1/runs/{run_id}/stop")
    assert (stopped.status, stopped.json["status"]) == (202, "running")
    await after.resume()
    assert (await after.ended(run_id))["stop_reason"] == "stopped"


@pytest.mark.parametrize("where", ["here", "beside"])
async def test_a_call_with_a_result_cannot_be_decided(places: Places, where: str) -> None:
    there = places.open([calls(call("erase", path="a", id="x"), call("lookup", city="Rome"))])
    run_id = await there.start()
    asked = await there.until(run_id, ApprovalRequested)
    place = there if where == "here" else places.open()
    await post(there.app, {}, f"/v1/runs/{run_id}/stop")
    for call_id in (asked.call.id, "never"):
        refused = await post(place.app, {"call_id": call_id}, f"/v1/runs/{run_id}/approve")
        assert (refused.status, refused.error["code"]) == (409, "nothing_to_approve")


async def test_a_call_with_a_result_in_the_log_of_an_active_run_cannot_be_decided(
    places: Places,
) -> None:
    before = places.open([call("erase", path="a", id="x")])
    run_id = await before.start()
    await before.until(run_id, ApprovalRequested)
    [run] = before.gateway.runs.running()
    run.log.append(ToolRunEnded(FunctionResponse("erase", {"error": "stopped"}, "x"), "not_run"))
    await before.crash()
    beside = places.open()
    refused = await post(beside.app, {"call_id": "x"}, f"/v1/runs/{run_id}/approve")
    assert (refused.status, refused.error["code"]) == (409, "nothing_to_approve")


async def test_a_late_decision_is_a_conflict_and_not_lost(
    places: Places,
) -> None:
    there, beside = places.open([call("erase", path="a", id="x"), TEXT]), places.open()
    run_id = await there.start()
    await there.until(run_id, ApprovalRequested)
    [run] = there.gateway.runs.running()
    run.log.on_order = None  # it is busy
    deciding = asyncio.create_task(post(beside.app, {"call_id": "x"}, f"/v1/runs/{run_id}/approve"))
    assert beside.gateway.service.control is not None
    while not beside.gateway.service.control._waiting:
        await asyncio.sleep(0)
    assert run.approve("x", False, reason="no")
    refused = await deciding
    assert (refused.status, refused.error["code"]) == (409, "nothing_to_approve")


async def test_an_approval_waits_over_a_restart_and_takes_effect_at_once(places: Places) -> None:
    before = places.open([call("erase", path="a")])
    run_id = await before.start()
    asked = await before.until(run_id, ApprovalRequested)
    await before.crash()
    after = places.open(["Gone."])
    await after.resume()
    decided = await post(after.app, {"call_id": asked.call.id}, f"/v1/runs/{run_id}/approve")
    assert decided.status == 200, "before the run has come so far by itself"
    assert content(await after.ended(run_id)) == "Gone."
    told = names(await after.events(run_id))
    assert (told.count("approval_requested"), told.count("approval_resolved")) == (1, 1)


async def test_an_approval_waits_over_any_number_of_restarts(places: Places) -> None:
    place = places.open([call("erase", path="a")])
    run_id = await place.start()
    asked = await place.until(run_id, ApprovalRequested)
    for _ in range(25):
        await place.crash()
        place = places.open(["Gone."])
        await place.resume()
        await place.until(run_id, RunResumed)
    await post(place.app, {"call_id": asked.call.id}, f"/v1/runs/{run_id}/approve")
    assert content(await place.ended(run_id)) == "Gone."


@streaming
async def test_a_background_completion_can_be_read_by_its_id(places: Places, stream: bool) -> None:
    gate, leaves = Gate(), asyncio.Event()
    before = places.open([slow(TEXT, gate, after=1)])
    body = asking("Go.", background=True, stream=stream)
    asking_for = asyncio.create_task(post(before.app, body, leaves=leaves))
    await gate.reached.wait()
    [run] = before.gateway.runs.running()
    leaves.set()
    await asking_for
    assert (await before.show(run.id))["status"] == "running"
    await before.crash()
    after = places.open([TEXT])
    await after.resume()
    assert content(await after.ended(run.id)) == TEXT


@streaming
async def test_a_completion_whose_client_was_lost_in_a_restart_ends_with_a_reason(
    places: Places, stream: bool
) -> None:
    gate, leaves = Gate(), asyncio.Event()
    before = places.open([slow(TEXT, gate, after=1)])
    waiting = asyncio.create_task(post(before.app, asking("Go.", stream=stream), leaves=leaves))
    await gate.reached.wait()
    [run] = before.gateway.runs.running()
    await before.crash()
    leaves.set()
    await asyncio.wait([waiting])
    after = places.open([TEXT])
    await after.resume()
    shown = await after.ended(run.id)
    assert (shown["status"], shown["error"]["message"]) == ("failed", CLIENT_LOST)
    assert data(await after.events(run.id))[-1]["error"] == CLIENT_LOST
    assert after.model.requests == [], "nobody waits for what it would cost"


async def test_a_shutdown_leaves_background_runs_to_the_next_start(
    places: Places,
) -> None:
    gate = Gate()
    before = places.open([call("lookup", city="Rome"), slow(TEXT, gate)])
    run_id = await before.start()
    await gate.reached.wait()
    reading = asyncio.create_task(before.events(run_id))
    await before.gateway.drain(0)
    assert "run_ended" not in names(await reading), "its readers come back for the rest"
    steered = await post(before.app, {"call_id": "a"}, f"/v1/runs/{run_id}/approve")
    assert (steered.status, steered.error["code"]) == (503, "shutting_down")
    await before.gateway.aclose()
    after = places.open([TEXT])
    await after.resume()
    assert content(await after.ended(run_id)) == TEXT
    assert names(await after.events(run_id)).count("tool_run_started") == 1


async def test_a_shutdown_releases_readers_of_runs_of_other_processes(
    places: Places,
) -> None:
    there, here = places.open([slow(TEXT, Gate(), after=1)]), places.open()
    run_id = await there.start()
    await there.until(run_id, TextDelta)
    reading = asyncio.create_task(here.events(run_id))
    while not here.gateway.followers:
        await asyncio.sleep(0)
    await here.gateway.drain(0)
    assert "run_ended" not in names(await reading)
    assert (await there.show(run_id))["status"] == "running"


GONE: list[tuple[GatewayConfig, tuple[Any, ...], str]] = [
    (config_of(ModelConfig(name="other", target="scripted/model")), TOOLS, "'m' does not exist"),
    (
        config_of(ModelConfig(name="m", target="scripted/model", tools=("erase",))),
        (erase,),
        "its tools are missing: lookup",
    ),
]


@pytest.mark.parametrize(("config", "tools", "reason"), GONE, ids=["model", "tool"])
async def test_a_run_without_its_model_or_tool_ends_with_that_reason(
    places: Places, config: GatewayConfig, tools: tuple[Any, ...], reason: str
) -> None:
    before = places.open([call("lookup", city="Rome"), slow(TEXT, Gate())])
    run_id = await before.start()
    await before.until(run_id, ToolRunStarted)
    await before.crash()
    after = places.open([TEXT], config=config, tools=tools)
    await after.resume()
    shown = await after.ended(run_id)
    assert shown["status"] == "failed"
    assert reason in shown["error"]["message"]
    assert reason in data(await after.events(run_id))[-1]["error"]


@pytest.mark.parametrize("where", ["here", "beside", "restarted"])
async def test_a_key_sees_and_controls_only_its_own_runs(places: Places, where: str) -> None:
    config = replace(SERVED, keys=KEYS)
    place = places.open([call("erase", path="a"), "Gone."], config=config)
    mine, theirs = [bearer(WEB)], [bearer(OTHER)]
    started = await post(place.app, asking("Go.", chat_id="c"), "/v1/runs", headers=mine)
    run_id = started.json["id"]
    [run] = place.gateway.runs.running()
    asked = [e async for e in _up_to_the_question(run.events())][-1]
    if where == "restarted":
        await place.crash()
    if where != "here":
        place = places.open(["Gone."], config=config)
        await place.resume()
    decision = {"call_id": asked.call.id}
    for method, path in (
        ("GET", f"/v1/runs/{run_id}"),
        ("GET", f"/v1/runs/{run_id}/events"),
        ("POST", f"/v1/runs/{run_id}/stop"),
        ("POST", f"/v1/runs/{run_id}/approve"),
        ("DELETE", f"/v1/runs/{run_id}"),
        ("GET", "/v1/chats/c"),
        ("DELETE", "/v1/chats/c"),
    ):
        if method == "POST":
            refused = await post(place.app, decision, path, headers=theirs)
        else:
            refused = await request(place.app, method, path, headers=theirs)
        assert refused.status == 404, (method, path)
    for path in ("/v1/runs", "/v1/chats"):
        assert (await request(place.app, "GET", path, headers=theirs)).json["data"] == []
        assert len((await request(place.app, "GET", path, headers=mine)).json["data"]) == 1
    path = f"/v1/runs/{run_id}"
    assert (await post(place.app, decision, f"{path}/approve", headers=mine)).status == 200
    await request(place.app, "GET", f"{path}/events", headers=mine)
    assert content((await request(place.app, "GET", path, headers=mine)).json) == "Gone."


async def _up_to_the_question(events: Any) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        if isinstance(event, ApprovalRequested):
            return


@streaming
async def test_client_results_find_their_turn_after_a_restart(places: Places, stream: bool) -> None:
    mixed = calls(
        call("lookup", city="Oslo", signature="bWl4ZWQ="),
        call("ring", times=1),
        text="Let me see. ",
        thoughts="Hm.",
    )
    before = places.open([mixed])
    tools = [function("ring")]
    run_id = await before.start(tools=tools, stream=stream)
    message = (await before.ended(run_id))["response"]["choices"][0]["message"]
    await before.gateway.aclose()
    after = places.open(["It rang."])
    [made] = message["tool_calls"]
    bare = {"role": "assistant", "content": message["content"], "tool_calls": [made]}
    rang = {"role": "tool", "tool_call_id": made["id"], "content": "rang"}
    assert (await after.ask("Go.", bare, rang, tools=tools))["content"] == "It rang."
    _, turn, answers = after.model.requests[-1].messages
    assert turn.thoughts == "Hm."
    assert [(each.name, each.signature) for each in turn.calls] == [
        ("lookup", "bWl4ZWQ="),
        ("ring", None),
    ]
    assert [(each.name, each.text) for each in answers.responses] == [
        ("lookup", "sunny in Oslo"),
        ("ring", "rang"),
    ]


async def test_a_running_gateway_resumes_interrupted_runs(places: Places) -> None:
    before = places.open([slow(TEXT, Gate())])
    run_id = await before.start()
    await before.crash()
    after = places.open([TEXT])
    maintaining = asyncio.create_task(after.gateway.maintain_log())
    async with asyncio.timeout(SECONDS):
        assert content(await after.ended(run_id)) == TEXT
    maintaining.cancel()


async def test_a_run_is_resumed_while_old_ones_are_being_deleted(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.gateway.gateway.RESUME_SECONDS", 0.01)
    before, after = places.open([slow(TEXT, Gate())]), places.open([TEXT])
    deleting, asked = asyncio.Event(), asyncio.Event()

    async def expire(_: object) -> int:
        asked.set()
        await deleting.wait()
        return 0

    assert after.gateway.service.control is not None
    monkeypatch.setattr(after.gateway.service.log, "expire", expire)
    maintaining = asyncio.create_task(after.gateway.maintain_log())
    async with asyncio.timeout(SECONDS):
        await asked.wait()
        run_id = await before.start()
        await before.crash()
        assert content(await after.ended(run_id)) == TEXT
    maintaining.cancel()
