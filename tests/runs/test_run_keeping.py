"""Every log: status, lists, orders, deletion and expiry of its runs."""

import asyncio
from typing import Any

import pytest
from tests.runs.conftest import Logs
from tests.support.sample_runs import (
    STARTED,
    Clock,
    begin,
    ended_run,
    kept,
)

from windlass.errors import RunNotFound
from windlass.events import (
    RunEnded,
    RunEvent,
    StopReason,
    TextDelta,
)
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order, Retention

TEXT = TextDelta("a")
END = RunEnded("answer")


async def followed(log: RunLog, run_id: str = "run_1", after: int = 0) -> list[RunEvent]:
    return [event async for event in log.follow(run_id, after)]


async def test_the_record_of_a_run_follows_its_events(logs: Logs, clock: Clock) -> None:
    run = begin(logs.log, owner="web", chat="c", title="Hello", origin={"kind": "x", "n": [1]})
    await kept(run, STARTED, TEXT)
    now = await logs.other.status("run_1")
    assert (now.id, now.model, now.created) == ("run_1", "scripted/model", 1_000.0)
    assert (now.owner, now.chat, now.title) == ("web", "c", "Hello")
    assert now.origin == {"kind": "x", "n": [1]}
    assert (now.ended, now.reason, now.error, now.events) == (None, None, None, 2)
    clock.now = 1_060.0
    await kept(run, RunEnded("error", error="the model is gone"))
    then = await logs.other.status("run_1")
    assert (then.ended, then.reason, then.error) == (1_060.0, "error", "the model is gone")
    assert then.events == 3
    assert then.size > now.size > len(STARTED.model)
    assert list(await logs.other.list()) == [then]


async def test_runs_are_listed_newest_first_and_filtered(logs: Logs) -> None:
    await ended_run(logs.log, "b", 2.0, owner="web", chat="one")
    await ended_run(logs.log, "c", 3.0, owner="web")
    await ended_run(logs.log, "a", 1.0, chat="one")
    await kept(begin(logs.log, "d", 2.5, owner="cli", chat="one"), STARTED)

    async def ids(**choice: Any) -> str:
        return "".join(each.id for each in await logs.other.list(**choice))

    assert await ids() == "dacb", "whatever the clock said when they began"
    assert await ids(limit=2) == "da"
    assert await ids(limit=0) == ""
    assert await ids(owner="web") == "cb"
    assert await ids(owner="") == "a"
    assert await ids(chat="one") == "dab"
    assert await ids(chat="one", limit=1) == "d"
    assert await ids(in_chats=True) == "dab"
    assert await ids(owner="web", in_chats=True) == "b"
    assert await ids(in_chats=True, open=True) == "d"
    assert await ids(in_chats=True, chat="") == ""
    assert await ids(owner="", in_chats=True, reasons=["answer"]) == "a"
    assert await ids(open=True) == "d"
    assert await ids(open=False) == "acb"
    assert await ids(owner="web", chat="one", open=False) == "b"
    assert await ids(owner="nobody") == ""
    assert await ids(before=await logs.other.status("a")) == "cb"
    assert await ids(before=await logs.other.status("a"), limit=1) == "c"
    assert await ids(before=await logs.other.status("b")) == ""


async def test_runs_are_chosen_by_why_they_ended_and_by_model_and_title(logs: Logs) -> None:
    async def end(name: str, reason: StopReason = "answer", **fields: Any) -> None:
        fields = {"owner": "web", "title": f"Weather in {name}", **fields}
        await kept(begin(logs.log, name, **fields), STARTED, RunEnded(reason))

    await end("a")
    await end("b", "error", model="large")
    await end("c", "deadline")
    await end("d", "stopped", model="large", title="STRASSE in Ærø, 東京 100%_")
    await end("e", "error", owner="cli")
    await kept(begin(logs.log, "f", owner="web", model="large", title="Weather now"), STARTED)
    await end("g", chat="one")

    async def ids(**choice: Any) -> str:
        return "".join(each.id for each in await logs.other.list(**choice))

    assert await ids(owner="web", reasons=["error"]) == "b"
    assert await ids(owner="web", reasons=["deadline", "error"]) == "cb"
    assert await ids(owner="web", reasons={"error", "deadline", "answer"}, limit=2) == "gc"
    assert await ids(reasons=["error"]) == "eb"
    assert await ids(owner="web", reasons=["content_filter"]) == ""
    assert await ids(owner="web", reasons=[]) == ""
    assert await ids(owner="web", reasons=["error"], open=False) == "b"
    assert await ids(owner="web", reasons=["error"], open=True) == ""
    assert await ids(owner="web", reasons=["answer"], chat="one") == "g"
    assert await ids(owner="web", model="large") == "fdb"
    assert await ids(owner="web", model="large", limit=2) == "fd"
    assert await ids(owner="web", model="large", open=True) == "f"
    assert await ids(owner="web", model="large", reasons=["error", "answer"]) == "b"
    assert await ids(owner="web", model="other") == ""
    assert await ids(model="large") == "fdb"
    assert await ids(owner="web", title="WEATHER in") == "gcba"
    assert await ids(owner="web", title="straße IN ÆRØ") == "d", "for all of Unicode"
    assert await ids(owner="web", title="東京 100%_") == "d"
    assert await ids(owner="web", title="%") == "d", "it is not a pattern"
    assert await ids(owner="web", title="half \ud83d") == ""
    assert await ids(owner="web", title="") == "gfdcba"
    assert await ids(owner="web", title="now", open=True) == "f"
    assert await ids(owner="web", title="weather", model="large", reasons=["error"]) == "b"
    middle = await logs.other.status("c")
    assert await ids(owner="web", before=middle, title="weather") == "ba"
    assert await ids(owner="web", before=middle, reasons=["error", "answer"]) == "ba"
    assert await ids(owner="web", before=middle, model="large") == "b"


async def test_an_unknown_run_is_an_error_at_once(logs: Logs) -> None:
    await ended_run(logs.log)
    for ask in (
        lambda: logs.other.read("run_2"),
        lambda: logs.other.read("run_2", 5),
        lambda: logs.other.status("run_2"),
        lambda: logs.other.order("run_2", Order(kind="stop")),
        lambda: logs.other.delete("run_2"),
        lambda: followed(logs.other, "run_2"),
        lambda: followed(logs.other, "run_2", 5),
    ):
        with pytest.raises(RunNotFound, match="run 'run_2' not found"):
            await ask()


@pytest.mark.parametrize(
    "order",
    [
        Order(kind="stop"),
        Order(kind="approve", call_id="a", approved=False, reason="no"),
        Order(kind="approve", call_id="a", arguments={"amount": 2}),
    ],
)
async def test_an_order_reaches_the_run_from_any_process(logs: Logs, order: Order) -> None:
    for log in logs:
        obeyed: asyncio.Queue[Order] = asyncio.Queue()
        run = begin(logs.log, f"run_{id(log)}")
        run.on_order = obeyed.put_nowait
        await kept(run, STARTED)
        await log.order(f"run_{id(log)}", order)
        assert await obeyed.get() == order
        await kept(run, END)
        await log.order(f"run_{id(log)}", order)  # an ended run has no process that could obey
        assert obeyed.empty()


async def test_a_deleted_run_is_not_found_in_the_log(logs: Logs) -> None:
    await ended_run(logs.log)
    await ended_run(logs.log, "run_2")
    await logs.other.delete("run_1")
    for log in logs:
        assert [each.id for each in await log.list()] == ["run_2"]
        with pytest.raises(RunNotFound):
            await log.read("run_1")
    assert len(await logs.other.read("run_2")) == 3


async def test_a_run_that_is_active_is_not_deleted(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    for log in logs:
        with pytest.raises(RunNotFound, match="has not ended"):
            await log.delete("run_1")
    await kept(run, END)
    assert len(await logs.other.read("run_1")) == 2


@pytest.mark.parametrize(
    ("retention", "left"),
    [
        (Retention(), "abcd"),
        (Retention(max_age=25), "cd"),
        (Retention(max_age=0), ""),
        (Retention(max_runs=3), "bcd"),
        (Retention(max_runs=0), ""),
        (Retention(max_bytes=10_000), "cd"),
        (Retention(max_bytes=0), ""),
        (Retention(max_age=35, max_runs=1), "d"),
        (Retention(max_age=1_000, max_runs=1_000, max_bytes=10**9), "abcd"),
    ],
)
async def test_ended_runs_expire_by_age_number_and_size_and_open_ones_stay(
    logs: Logs, clock: Clock, retention: Retention, left: str
) -> None:
    await kept(begin(logs.log, "open", 1.0), STARTED)
    for number, run_id in enumerate("abcd"):
        clock.now = 1_000.0 + 10 * number
        await kept(begin(logs.log, run_id, 1.0 + number), TextDelta("x" * 4_000), END)
    clock.now = 1_040.0
    assert await logs.other.expire(retention) == 4 - len(left)
    assert sorted(each.id for each in await logs.log.list()) == [*left, "open"]
    assert await logs.other.expire(retention) == 0


async def test_a_run_of_a_living_process_is_not_taken_over(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    for log in logs:
        assert await log.claim() == []
    await kept(run, END)
    assert len(await logs.other.read("run_1")) == 2
