"""Approvals over `/v1/responses`, decided there or on `/v1/runs`, and readers on other gateways."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.asgi import post
from tests.support.responding import (
    PATH,
    events,
    item_of,
    kinds,
    last_response,
    posted,
    replayed,
    respond,
    retrieved,
    stream,
    text_of,
)
from tests.support.restarting import Place, Places, names, places_on
from tests.support.talking import Body

from windlass.events import ApprovalRequested, TextDelta
from windlass.testing import Gate, call, calls, say, slow

ERASE = [call("erase", path="/tmp/x"), "Erased it."]


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[Places]:
    async with places_on(tmp_path / "runs.db") as places:
        yield places


async def asked(place: Place, given: Any, *, streams: bool, **fields: Any) -> Body:
    """The response, by either way."""
    if not streams:
        return await respond(place, given, **fields)
    sent = await stream(place, given, **fields)
    assert events(sent)[-1]["type"] == "response.completed"
    return last_response(sent)


def decision(response: Body, approve: bool = True, **fields: Any) -> Body:
    waiting = item_of(response, "mcp_approval_request")
    return {
        "type": "mcp_approval_response",
        "approval_request_id": waiting["id"],
        "approve": approve,
        **fields,
    }


either_way = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


@either_way
async def test_a_response_asks_for_approval_and_the_next_one_continues(
    places: Places, streams: bool
) -> None:
    place = places.open(ERASE)
    first = await asked(place, "Erase x.", streams=streams)
    waiting = item_of(first, "mcp_approval_request")
    assert (first["status"], waiting["name"]) == ("completed", "erase")
    assert json.loads(waiting["arguments"]) == {"path": "/tmp/x"}
    second = await asked(
        place, [decision(first)], streams=streams, previous_response_id=first["id"]
    )
    made = item_of(second, "mcp_call")
    assert (made["output"], made["approval_request_id"]) == ("erased /tmp/x", waiting["id"])
    assert text_of(second) == "Erased it."
    assert first["id"] != second["id"]
    assert await retrieved(place, first["id"]) == first
    assert await retrieved(place, second["id"]) == second


@either_way
async def test_a_denied_call_does_not_run_and_the_model_reads_the_reason(
    places: Places, streams: bool
) -> None:
    place = places.open([call("erase", path="/tmp/x"), "As you wish."])
    first = await asked(place, "Erase x.", streams=streams)
    no = decision(first, approve=False, reason="too risky")
    second = await asked(place, [no], streams=streams, previous_response_id=first["id"])
    [result] = place.model.requests[-1].messages[-1].responses
    assert "too risky" in str(result.response)
    assert text_of(second) == "As you wish."
    assert not any("erased" in str(item.get("output")) for item in second["output"])


async def test_the_decision_finds_its_response_by_its_own_id(places: Places) -> None:
    place = places.open(ERASE)
    first = await respond(place, "Erase x.")
    assert text_of(await respond(place, [decision(first)])) == "Erased it."


async def test_one_of_two_waiting_calls_can_be_decided_first(places: Places) -> None:
    both = calls(call("erase", path="a"), call("erase", path="b"))
    place = places.open([both, "Done."])
    first = await respond(place, "Erase both.")
    waiting = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
    decisions = [
        {"type": "mcp_approval_response", "approval_request_id": each["id"], "approve": True}
        for each in waiting
    ]
    second = await respond(place, decisions[:1], previous_response_id=first["id"])
    assert "message" not in kinds(second)
    third = await respond(place, decisions[1:], previous_response_id=second["id"])
    assert text_of(third) == "Done."


async def test_a_decision_counts_once(places: Places) -> None:
    place = places.open(ERASE)
    first = await respond(place, "Erase x.")
    await respond(place, [decision(first)])
    again = await posted(place, [decision(first)])
    assert (again.status, again.error["code"]) == (400, "approval_not_found")


async def test_approved_on_the_runs_api_and_followed_there(places: Places) -> None:
    place = places.open(ERASE)
    first = await respond(place, "Erase x.")
    run = f"run_{first['id'].removeprefix('resp_')}"
    waiting: ApprovalRequested = await place.until(run, ApprovalRequested)
    body = {"call_id": waiting.call.id, "approved": True}
    assert (await post(place.app, body, f"/v1/runs/{run}/approve")).status == 200
    followed = await place.events(run)
    assert {"approval_requested", "approval_resolved", "run_ended"} <= set(names(followed))
    shown = await place.show(run)
    assert shown["response"]["choices"][0]["message"]["content"] == "Erased it."
    assert await retrieved(place, first["id"]) == first
    late = await posted(place, [decision(first)])
    assert (late.status, late.error["code"]) == (400, "approval_not_found")


async def test_another_gateway_decides_and_reads_the_same_events(places: Places) -> None:
    one, other = places.open(ERASE), places.open([])
    first = await respond(one, "Erase x.")
    assert await retrieved(other, first["id"]) == first
    sent = await stream(other, [decision(first)], previous_response_id=first["id"])
    second = last_response(sent)
    assert text_of(second) == "Erased it."
    assert await replayed(one, second["id"]) == sent
    assert await replayed(other, second["id"], 3) == b"\n\n".join(sent.split(b"\n\n")[4:])


async def test_another_gateway_follows_an_active_response(places: Places) -> None:
    gate = Gate()
    one = places.open([slow(say("One two three four."), gate, after=2)])
    other = places.open([])
    created = await respond(one, "Go.", background=True)
    run = f"run_{created['id'].removeprefix('resp_')}"
    await one.until(run, TextDelta)
    following = asyncio.create_task(replayed(other, created["id"], 1))
    gate.open()
    rest = await following
    whole = await replayed(one, created["id"])
    assert rest == b"\n\n".join(whole.split(b"\n\n")[2:])
    assert text_of(last_response(whole)) == "One two three four."
    assert await retrieved(one, created["id"]) == await retrieved(other, created["id"])


async def test_a_response_of_another_wire_is_shown_as_a_response(places: Places) -> None:
    place = places.open([call("lookup", city="Rome"), "Sunny."])
    run = await place.start("Go.")
    await place.ended(run)
    response = await retrieved(place, f"resp_{run.removeprefix('run_')}")
    assert [kind for kind in kinds(response) if kind != "mcp_list_tools"] == ["mcp_call", "message"]
    assert text_of(response) == "Sunny."
    answer = await posted(place, [decision_of("mcpr_x")], previous_response_id=response["id"])
    assert answer.error["code"] == "approval_not_found"
    assert (await place.get(f"{PATH}/resp_{'0' * 24}")).status == 404


def decision_of(request_id: str) -> Body:
    return {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True}
