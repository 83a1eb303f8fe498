"""A gateway's lists and chats while the clock steps."""

import time

import pytest
from tests.support.asgi import post
from tests.support.restarting import Place
from tests.support.talking import asking

from windlass.runs.sqlite import SQLiteLog

DAY = 86_400.0


@pytest.mark.parametrize("step", [-20.0, -DAY, 20.0, DAY, 0.0])
async def test_lists_and_chats_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    place = Place(SQLiteLog(tmp_path_factory.mktemp("runs") / "runs.db"), ["a", "b", "c", "d"])
    stood_still = time.time()
    begun: list[str] = []
    for number, chat in enumerate(["one", "two", "one"]):
        # Without a step the clock does not move: two runs may begin at the same time.
        now = stood_still + number * step
        with monkeypatch.context() as stepped:
            stepped.setattr(time, "time", lambda now=now: now)
            begun.append(await place.start(f"Question {number}", chat_id=chat))
        await place.ended(begun[-1])
    newest = begun[::-1]
    listed = (await place.get("/v1/runs")).json["data"]
    assert [run["id"] for run in listed] == newest
    paged: list[str] = []
    while page := (
        await place.get(f"/v1/runs?limit=1&before={paged[-1]}" if paged else "/v1/runs?limit=1")
    ).json["data"]:
        paged += [run["id"] for run in page]
    assert paged == newest
    chats = (await place.get("/v1/chats")).json["data"]
    assert [chat["id"] for chat in chats] == ["one", "two"]
    chat = (await place.get("/v1/chats/one")).json
    assert chat["run_ids"] == [begun[0], begun[2]]
    edited = await post(place.app, asking("Again", chat_id="one", replaces=begun[2]), "/v1/runs")
    assert (await place.ended(edited.json["id"]))["status"] == "ended"
    said = (await place.get("/v1/chats/one")).json["messages"]
    assert [message["content"] for message in said] == ["Question 0", "a", "Again", "d"]
    await place.gateway.aclose()
