"""Runs that outlive their gateway: found again, gone on with, or ended with a reason.

A gateway that is made anew on the same file stands for a restart, and two on one file for two
processes.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gateway.asgi import bearer, post, request
from tests.gateway.restarting import (
    SERVED,
    TOOLS,
    Place,
    Places,
    content,
    data,
    erase,
    names,
    places_on,
)
from tests.gateway.serving import config_of
from tests.gateway.talking import SECONDS, asking, function

from windlass import ApprovalRequested
from windlass.errors import RunNotFound
from windlass.events import RunResumed, TextDelta, ToolRunStarted
from windlass.gateway import GatewayConfig
from windlass.gateway.config import KeyConfig, ModelConfig, RunsConfig
from windlass.gateway.durable import CLIENT_LOST
from windlass.gateway.keys import new_key
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import Gate, call, calls, slow

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()
KEYS = (KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH))
TEXT = "One two three."

streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def places(file: Path) -> AsyncIterator[Places]:
    async with asyncio.timeout(30), places_on(file) as places:
        yield places


async def test_an_ended_run_is_found_again_to_the_last_byte(places: Places) -> None:
    before = places.open([call("lookup", city="Rome"), "Sunny."])
    run_id = await before.start()
    told, shown = await before.events(run_id), await before.ended(run_id)
    [listed] = (await before.get("/v1/runs")).json["data"]
    await before.gateway.aclose()
    after = places.open()
    assert await after.events(run_id) == told
    assert await after.events(run_id, after=3) == told[told.index(b"id: 4\n") :]
    assert await after.show(run_id) == shown
    # How tools were brought to the model stands in its events, which a list does not read.
    assert (await after.get("/v1/runs")).json["data"] == [{**listed, "mode": None}]
    late = await after.get(f"/v1/runs/{run_id}/events?after={len(names(told))}")
    assert (late.status, late.body) == (204, b"")


async def test_a_run_that_was_cut_off_goes_on_and_its_readers_read_on(places: Places) -> None:
    before = places.open([call("lookup", city="Rome"), slow(TEXT, Gate(), after=1)])
    run_id = await before.start()
    await before.until(run_id, TextDelta)
    await before.crash()
    after = places.open([TEXT])
    seen = await before.get(f"/v1/runs/{run_id}/events")  # the log that it had was not lost
    [run] = await after.resume()
    assert run.id == run_id
    whole = await after.events(run_id)
    assert whole.startswith(seen.body.replace(b": \n\n", b""))
    assert names(whole).count("tool_run_started") == 1
    assert names(whole)[len(names(seen.body)) :][:2] == ["run_resumed", "round_restarted"]
    assert content(await after.ended(run_id)) == TEXT
    [asked] = after.model.requests
    assert asked.messages[-1].responses[0].response == {"output": "sunny in Rome"}


async def test_a_run_that_another_process_has_is_followed_while_it_goes(places: Places) -> None:
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


async def test_a_run_that_another_process_has_is_not_taken_over(places: Places) -> None:
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


async def test_a_call_is_decided_about_from_another_process(places: Places) -> None:
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


async def test_an_approval_waits_over_a_restart_and_is_taken_at_once(places: Places) -> None:
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
async def test_a_completion_in_the_background_is_read_on_by_its_id(
    places: Places, stream: bool
) -> None:
    gate, leaves = Gate(), asyncio.Event()
    before = places.open([slow(TEXT, gate, after=1)])
    body = asking("Go.", background=True, stream=stream)
    asking_for = asyncio.create_task(post(before.app, body, leaves=leaves))
    await gate.reached.wait()
    [run] = before.gateway.runs.all()
    leaves.set()
    await asking_for
    assert (await before.show(run.id))["status"] == "running"
    await before.crash()
    after = places.open([TEXT])
    await after.resume()
    assert content(await after.ended(run.id)) == TEXT


@streaming
async def test_a_completion_whose_client_went_with_the_gateway_is_ended_with_a_reason(
    places: Places, stream: bool
) -> None:
    gate, leaves = Gate(), asyncio.Event()
    before = places.open([slow(TEXT, gate, after=1)])
    waiting = asyncio.create_task(post(before.app, asking("Go.", stream=stream), leaves=leaves))
    await gate.reached.wait()
    [run] = before.gateway.runs.all()
    await before.crash()
    leaves.set()
    await asyncio.wait([waiting])
    after = places.open([TEXT])
    await after.resume()
    shown = await after.ended(run.id)
    assert (shown["status"], shown["error"]["message"]) == ("failed", CLIENT_LOST)
    assert data(await after.events(run.id))[-1]["error"] == CLIENT_LOST
    assert after.model.requests == [], "nobody waits for what it would cost"


async def test_an_end_in_order_leaves_what_goes_in_the_background_to_the_next_start(
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


async def test_an_end_in_order_lets_go_of_readers_of_runs_that_go_elsewhere(
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
        "its tools are gone: lookup",
    ),
]


@pytest.mark.parametrize(("config", "tools", "reason"), GONE, ids=["model", "tool"])
async def test_a_run_whose_model_or_tool_is_gone_ends_with_that_reason(
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


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_key_sees_and_steers_its_own_runs_alone(places: Places, restarted: bool) -> None:
    config = replace(SERVED, keys=KEYS)
    place = places.open([call("erase", path="a"), "Gone."], config=config)
    mine, theirs = [bearer(WEB)], [bearer(OTHER)]
    started = await post(place.app, asking("Go.", chat_id="c"), "/v1/runs", headers=mine)
    run_id = started.json["id"]
    run = place.gateway.runs.get(run_id)
    asked = [e async for e in _up_to_the_question(run.run.events())][-1]
    if restarted:
        await place.crash()
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
async def test_a_client_s_results_find_their_turn_after_a_restart(
    places: Places, stream: bool
) -> None:
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


@streaming
async def test_a_file_that_cannot_be_written_is_an_error_and_not_a_hang(
    tmp_path: Path, stream: bool
) -> None:
    (tmp_path / "file").write_text("in the way")
    place = Place(SQLiteLog(tmp_path / "file" / "runs.db"), [TEXT, TEXT])
    for path in ("/v1/runs", "/v1/chat/completions"):
        answer = await post(place.app, asking("Go.", stream=stream), path)
        assert (answer.status, answer.error["code"]) == (500, "storage_failed")
        assert "file" not in answer.error["message"]
    assert place.model.requests == [], "nothing is asked that could not be written down"
    await place.gateway.aclose()


@streaming
async def test_a_file_that_fails_on_the_way_ends_the_answer_with_an_error(
    places: Places, file: Path, stream: bool
) -> None:
    gate = Gate()
    place = places.open([call("lookup", city="Rome"), slow(TEXT, gate)])
    waiting = asyncio.create_task(post(place.app, asking("Go.", stream=stream)))
    await gate.reached.wait()
    [run] = place.gateway.runs.all()
    reading = asyncio.create_task(place.events(run.id))
    with sqlite3.connect(file) as breaking:
        breaking.execute("DROP TABLE batches")
    breaking.close()
    gate.open()
    answer = await waiting
    assert b'"storage_failed"' in answer.body
    assert answer.status == 500 or stream
    assert "run_ended" not in names(await reading)


async def test_the_end_of_a_run_is_not_over_for_readers_before_it_is_written(
    places: Places, file: Path
) -> None:
    gate = Gate()
    place = places.open([slow(TEXT, gate)])
    run_id = await place.start()
    await gate.reached.wait()
    log = place.gateway.runs.get(run_id).run.log
    busy = sqlite3.connect(file, isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    gate.open()
    while not log.ended:
        await asyncio.sleep(0)
    known = len(log.recorded())
    reading = asyncio.create_task(place.events(run_id, after=known))
    await asyncio.sleep(0)
    busy.execute("ROLLBACK")
    busy.close()
    assert names(await reading)[-1] == "run_ended"


async def test_a_damaged_run_holds_up_no_other(places: Places, file: Path) -> None:
    before = places.open(slow(TEXT, Gate()))
    strange, torn, sound = [await before.start() for _ in range(3)]
    await before.crash()
    with sqlite3.connect(file) as damaging:
        damaging.execute(
            """UPDATE runs SET origin = '{"kind": "gateway"}' WHERE id = ?""", [strange]
        )
        damaging.execute("UPDATE batches SET data = '[' WHERE run_id = ?", [torn])
    damaging.close()
    after = places.open(TEXT)
    assert {run.id for run in await after.resume()} == {strange, sound}
    assert content(await after.ended(sound)) == TEXT
    assert "cannot be read" in (await after.ended(strange))["error"]["message"]
    assert b"run_ended" not in (await after.get(f"/v1/runs/{torn}/events")).body


async def test_only_so_many_ended_runs_are_kept_as_the_configuration_says(places: Places) -> None:
    place = places.open(TEXT, config=replace(SERVED, runs=RunsConfig(max_runs=1)))
    first, second = await place.start(), await place.start()
    await place.ended(first)
    await place.ended(second)
    await place.gateway.aclose()
    after = places.open(config=replace(SERVED, runs=RunsConfig(max_runs=1)))
    assert after.gateway.durable is not None
    await after.gateway.durable.expire()
    kept = [run["id"] for run in (await after.get("/v1/runs")).json["data"]]
    assert len(kept) == 1
    [gone] = {first, second} - set(kept)
    assert (await after.get(f"/v1/runs/{gone}")).status == 404


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_deleted_run_is_gone(places: Places, file: Path, restarted: bool) -> None:
    place = places.open(["A secret."])
    run_id = await place.start("Tell me.")
    await place.ended(run_id)
    if restarted:
        await place.gateway.aclose()
        place = places.open()
    deleted = await request(place.app, "DELETE", f"/v1/runs/{run_id}")
    assert deleted.json == {"id": run_id, "object": "run.deleted", "deleted": True}
    for path in ("", "/events"):
        assert (await place.get(f"/v1/runs/{run_id}{path}")).status == 404
    assert (await place.get("/v1/runs")).json["data"] == []
    assert (await request(place.app, "DELETE", f"/v1/runs/{run_id}")).status == 404
    assert place.gateway.durable is not None
    with pytest.raises(RunNotFound):
        await place.gateway.durable.log.status(run_id)
    for each in file.parent.iterdir():
        assert b"secret" not in each.read_bytes()


async def test_a_run_that_goes_is_not_deleted(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow(TEXT, gate)]), places.open()
    run_id = await there.start()
    for place in (there, here):
        refused = await request(place.app, "DELETE", f"/v1/runs/{run_id}")
        assert (refused.status, refused.error["code"]) == (409, "run_goes")
    gate.open()
    assert content(await there.ended(run_id)) == TEXT


async def test_without_a_log_a_run_can_be_deleted_too() -> None:
    place = Place(None, [TEXT])
    run_id = await place.start()
    await place.ended(run_id)
    assert (await request(place.app, "DELETE", f"/v1/runs/{run_id}")).status == 200
    assert (await place.get(f"/v1/runs/{run_id}")).status == 404
    await place.gateway.aclose()


async def test_a_gateway_that_serves_takes_up_what_was_left_open(places: Places) -> None:
    before = places.open([slow(TEXT, Gate())])
    run_id = await before.start()
    await before.crash()
    after = places.open([TEXT])
    tending = asyncio.create_task(after.gateway.tend())
    async with asyncio.timeout(SECONDS):
        assert content(await after.ended(run_id)) == TEXT
    tending.cancel()
