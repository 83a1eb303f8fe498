"""Chats with edited messages: a run replaces an earlier run."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.asgi import bearer, post, request
from tests.support.restarting import SERVED, Place, Places, places_on
from tests.support.talking import Body, asking

from windlass.gateway.config import KeyConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.runs.chats import current_runs
from windlass.runs import service as durable
from windlass.runs.records import RunRecord
from windlass.testing import Gate, refuse, slow

WEB, WEB_HASH = new_key()
OTHER, OTHER_HASH = new_key()
KEYS = (KeyConfig(name="web", hash=WEB_HASH), KeyConfig(name="other", hash=OTHER_HASH))


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[Places]:
    async with asyncio.timeout(30), places_on(tmp_path / "runs.db") as places:
        yield places


def asked(place: Place) -> list[str]:
    """The texts of the model's last request."""
    return [said.text for said in place.model.requests[-1].messages]


async def say(place: Place, prompt: str, **fields: Any) -> str:
    """Continues the chat to its next answer, and returns the run's id."""
    return (await place.ended(await place.start(prompt, chat_id="c", **fields)))["id"]


async def chat(place: Place) -> Body:
    return (await place.get("/v1/chats/c")).json


async def test_a_conversation_continues_before_the_replaced_run(places: Places) -> None:
    place = places.open(["1", "2", "3", "2b", "3b"])
    first, second, third = [await say(place, prompt) for prompt in ("one", "two", "three")]
    edited = await say(place, "TWO", replaces=second)
    assert asked(place) == ["one", "1", "TWO"]
    shown = await chat(place)
    assert shown["run_ids"] == [first, edited]
    assert (shown["runs"], shown["title"]) == (2, "one")
    assert [said["content"] for said in shown["messages"]] == ["one", "1", "TWO", "2b"]
    await say(place, "THREE")
    assert asked(place) == ["one", "1", "TWO", "2b", "THREE"]
    listed = (await place.get("/v1/runs")).json["data"]
    assert {first, second, third, edited} < {run["id"] for run in listed}


async def test_the_first_message_of_a_chat_can_be_replaced(places: Places) -> None:
    place = places.open(["1", "2", "1b"])
    first = await say(place, "one")
    began = (await chat(place))["created"]
    await say(place, "two")
    edited = await say(place, "ONE", replaces=first)
    assert asked(place) == ["ONE"]
    shown = await chat(place)
    assert (shown["title"], shown["run_ids"], shown["created"]) == ("ONE", [edited], began)
    [listed] = (await place.get("/v1/chats")).json["data"]
    assert (listed["title"], listed["runs"]) == ("ONE", 1)


async def test_a_replaced_run_stays_replaced_after_a_restart(places: Places) -> None:
    place = places.open(["1", "2", "2b"])
    first, second = [await say(place, prompt) for prompt in ("one", "two")]
    edited = await say(place, "TWO", replaces=second)
    await place.gateway.aclose()
    place = places.open(["3"])
    assert (await chat(place))["run_ids"] == [first, edited]
    await place.ask("three", chat_id="c")
    assert asked(place) == ["one", "1", "TWO", "2b", "three"]


async def test_a_message_and_its_replacement_can_be_replaced_again(
    places: Places,
) -> None:
    place = places.open(["1", "2", "2b", "2c", "2d"])
    first, second = [await say(place, prompt) for prompt in ("one", "two")]
    edited = await say(place, "b", replaces=second)
    again = await say(place, "c", replaces=edited)
    assert (await chat(place))["run_ids"] == [first, again]
    last = await say(place, "d", replaces=second)
    assert asked(place) == ["one", "1", "d"]
    assert (await chat(place))["run_ids"] == [first, last]


async def test_a_replaced_run_can_be_continued(places: Places) -> None:
    place = places.open(["1", "2", "1b", "2b", "2c", "3c"])
    first, second = [await say(place, prompt) for prompt in ("one", "two")]
    await say(place, "ONE", replaces=first)
    await say(place, "zwei")
    back = await say(place, "TWO", replaces=second)
    assert asked(place) == ["one", "1", "TWO"]
    shown = await chat(place)
    assert (shown["title"], shown["run_ids"]) == ("one", [first, back])
    await say(place, "three")
    assert asked(place) == ["one", "1", "TWO", "2c", "three"]


async def test_a_chat_keeps_its_order_if_a_clock_is_behind(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = places.open(["1"]), places.open(["2", "3"])
    first = await say(there, "one")
    monkeypatch.setattr(durable, "time", Behind())
    second = await say(here, "two")
    third = await say(here, "three")
    assert asked(here) == ["one", "1", "two", "2", "three"]
    assert (await chat(there))["run_ids"] == [first, second, third]


class Behind:
    """A clock that has not been set."""

    def time(self) -> float:
        return 1.0


async def test_of_two_concurrent_replacements_a_chat_accepts_one(places: Places) -> None:
    gate = Gate()
    place = places.open(["1", slow("1b", gate)])
    first = await say(place, "one")
    body = asking("ONE", chat_id="c", replaces=first)
    both = [asyncio.create_task(post(place.app, body, "/v1/runs")) for _ in range(2)]
    answers = [await answer for answer in both]
    assert sorted(answer.status for answer in answers) == [202, 409]
    gate.open()
    [started] = [answer.json["id"] for answer in answers if answer.status == 202]
    await place.ended(started)
    assert (await chat(place))["run_ids"] == [started]


async def test_a_failed_replacement_can_be_replaced(places: Places) -> None:
    place = places.open(["1", "2", refuse(400, "Not today."), "2c"])
    first, second = [await say(place, prompt) for prompt in ("one", "two")]
    failed = await say(place, "b", replaces=second)
    shown = await chat(place)
    assert shown["run_ids"] == [first, failed]
    assert [said["content"] for said in shown["messages"]] == ["one", "1"]
    await say(place, "c", replaces=failed)
    assert asked(place) == ["one", "1", "c"]


async def test_deleting_a_replaced_run_restores_no_other(places: Places) -> None:
    place = places.open(["1", "2", "3", "2b"])
    first, second, _ = [await say(place, prompt) for prompt in ("one", "two", "three")]
    edited = await say(place, "TWO", replaces=second)
    await request(place.app, "DELETE", f"/v1/runs/{second}")
    assert (await chat(place))["run_ids"] == [first, edited]


async def test_deleting_a_chat_deletes_its_replaced_runs(places: Places) -> None:
    place = places.open(["1", "1b"])
    await say(place, "two", replaces=await say(place, "one"))
    assert (await request(place.app, "DELETE", "/v1/chats/c")).status == 200
    assert (await place.get("/v1/runs")).json["data"] == []


async def test_only_a_run_of_the_same_chat_and_key_can_be_replaced(places: Places) -> None:
    place = places.open(["1", "2", "3"], config=replace(SERVED, keys=KEYS))
    mine, theirs = [bearer(WEB)], [bearer(OTHER)]
    told = [
        await post(place.app, asking("Hi", chat_id=name), headers=headers)
        for name, headers in (("c", mine), ("d", mine), ("c", theirs))
    ]
    _, of_another_chat, foreign = [answer.headers["x-windlass-run-id"] for answer in told]
    for run_id in (of_another_chat, foreign, "run_unknown"):
        body = asking("Again", chat_id="c", replaces=run_id)
        refused = await post(place.app, body, headers=mine)
        assert (refused.status, refused.error["code"]) == (404, "run_not_found")
        assert refused.error["param"] == "replaces"
        assert repr(run_id) in refused.error["message"]


async def test_an_active_run_cannot_be_replaced(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow("Done.", gate)]), places.open([])
    run_id = await there.start("Go.", chat_id="c")
    for place in (there, here):
        refused = await post(place.app, asking("No.", chat_id="c", replaces=run_id))
        assert (refused.status, refused.error["code"]) == (409, "chat_busy")
    gate.open()
    await there.ended(run_id)


@pytest.mark.parametrize("fields", [{"replaces": "run_1"}, {"replaces": 7, "chat_id": "c"}])
async def test_an_invalid_replaces_is_refused(places: Places, fields: Body) -> None:
    refused = await post(places.open([]).app, asking("Hi", **fields))
    assert (refused.status, refused.error["param"]) == (400, "replaces")


def test_the_current_runs_are_those_that_no_run_replaced() -> None:
    def run(number: int, since: float = 0.0) -> RunRecord:
        origin = {"replaced_since": since} if since else {}
        return RunRecord(id=f"run_{number}", model="m", created=float(number), origin=origin)

    runs = [run(1), run(2), run(3), run(4, since=2.0), run(5), run(6, since=5.0)]
    assert [each.id for each in current_runs(runs[::-1])] == ["run_6", "run_4", "run_1"]
    assert current_runs([]) == []
