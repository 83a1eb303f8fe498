"""A clock that steps, by 20 seconds or a day, back or forward: it affects no order and no time
limit."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runs.conftest import Logs, MakeClient
from tests.runs.test_resume import Ledger, first_of, plan_of
from tests.support.sample_runs import STARTED, Clock, begin, ended_run, kept

from windlass import AsyncClient
from windlass.events import (
    ApprovalRequested,
    RunEvent,
    RunResumed,
    RunStarted,
    TextDelta,
)
from windlass.loop.history import History
from windlass.runs.control import StoredRun
from windlass.runs.event_log import MemoryLog
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.records import Retention, RunRecord, expired
from windlass.runs.run import AsyncRun
from windlass.runs.sqlite import database
from windlass.testing import Gate, ScriptedModel, call, slow

DAY = 86_400.0
STEPS = [-20.0, -DAY, 20.0, DAY]


class Wall:
    """The machine's clock plus the steps so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stepped = 0.0
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + self.stepped)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


def words(chat: Any) -> list[str]:
    return [message.text for message in chat.messages]


@pytest.mark.parametrize("step", STEPS)
async def test_a_chat_keeps_its_turns(client_on: MakeClient, wall: Wall, step: float) -> None:
    chat = client_on(["first", "second"]).chat()
    await chat.send("one")
    wall.stepped += step
    await chat.send("two")
    client = client_on(["third"])
    found = client.chat(id=chat.id)
    wall.stepped += step
    await found.send("three")
    assert words(found) == ["one", "first", "two", "second", "three", "third"]
    again = client_on().chat(id=chat.id)
    await again.load()
    assert words(again) == words(found)


@pytest.mark.parametrize("step", STEPS)
async def test_additions_to_a_chat_are_stored(
    client_on: MakeClient, wall: Wall, step: float
) -> None:
    chat = client_on(["first"]).chat()
    await chat.send("one")
    wall.stepped += step
    await chat.add("two")
    again = client_on().chat(id=chat.id)
    await again.load()
    assert words(again) == ["one", "first", "two"]


@pytest.mark.parametrize("step", STEPS)
async def test_runs_and_chats_are_listed_in_their_order(
    client_on: MakeClient, wall: Wall, step: float
) -> None:
    client = client_on(["a", "b", "c"])
    first, second = client.chat(), client.chat()
    await first.send("one")
    wall.stepped += step
    await second.send("two")
    assert [chat.id for chat in await client.chats()] == [second.id, first.id]
    wall.stepped += step
    await first.send("three")
    assert [chat.id for chat in await client.chats()] == [first.id, second.id]
    assert [run.record.title for run in await client.runs() if isinstance(run, StoredRun)] == [
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize("step", STEPS)
async def test_chats_without_a_log_are_listed_in_their_order(wall: Wall, step: float) -> None:
    async with AsyncClient(ScriptedModel(["a", "b"])) as client:
        first, second = client.chat(), client.chat()
        await first.send("one")
        wall.stepped += step
        await second.send("two")
        assert [chat.id for chat in await client.chats()] == [second.id, first.id]


@pytest.fixture
async def fleet() -> AsyncIterator[str]:
    from windlass.messaging.embedded import NatsServer

    async with NatsServer() as server:
        yield server.url


@pytest.mark.process
async def test_a_chat_of_processes_whose_clocks_disagree_keeps_its_turns(
    fleet: str, wall: Wall
) -> None:
    chat_id = ""
    for number, step in enumerate([0.0, -DAY, 20.0]):
        wall.stepped = step
        async with AsyncClient(ScriptedModel([f"answer {number}"]), log=JetStreamLog(fleet)) as one:
            chat = one.chat(id=chat_id) if chat_id else one.chat()
            await chat.send(f"question {number}")
            chat_id = chat.id
            assert len(chat.messages) == 2 * (number + 1)


async def test_a_file_without_numbers_keeps_the_order_of_its_runs(
    path: Path, client_on: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(database, "MIGRATIONS", database.MIGRATIONS[:2])
        connection = database.connect(path)
        for run_id, created in (("b", 2.0), ("c", 3.0), ("a", 1.0)):
            connection.execute(
                "INSERT INTO runs (id, model, created, owner, chat, title, origin, keeper)"
                " VALUES (?, 'm', ?, '', 'one', '', '{}', 1)",
                (run_id, created),
            )
        connection.close()
    log = client_on().log
    assert log is not None
    await ended_run(log, "d", 0.5, chat="one")
    listed = await log.list(chat="one")
    assert [(each.id, each.number) for each in listed] == [("d", 4), ("c", 3), ("b", 2), ("a", 1)]


async def test_the_times_of_a_log_never_decrease(logs: Logs, clock: Clock) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    clock.now -= DAY
    await kept(run, TextDelta("a"))
    clock.now += DAY + 5
    await kept(run, TextDelta("b"))
    assert [event.time for event in await logs.other.read("run_1")] == [1_000.0, 1_000.0, 1_005.0]


@pytest.mark.parametrize("step", STEPS)
async def test_the_times_of_an_active_run_do_not_follow_a_step(wall: Wall, step: float) -> None:
    run = MemoryLog()
    run.append(STARTED)
    wall.stepped += step
    run.append(TextDelta("a"))
    began, later = (event.time for event in run.recorded())
    assert 0 <= later - began < 10


def test_a_resumed_log_continues_after_its_last_time(wall: Wall) -> None:
    run = MemoryLog([replace(STARTED, seq=1, time=time.time())])
    wall.stepped -= DAY
    resumed = MemoryLog(run.recorded())
    resumed.append(TextDelta("a"))
    began, later = (event.time for event in resumed.recorded())
    assert 0 <= later - began < 10


def ended(run_id: str, number: int, end: float) -> RunRecord:
    return RunRecord(id=run_id, model="m", created=end, number=number, ended=end, size=1)


@pytest.mark.parametrize("retention", [Retention(max_runs=2), Retention(max_bytes=2)])
def test_the_runs_after_a_step_back_are_not_the_first_to_expire(retention: Retention) -> None:
    """The clock steps back by a day after two of five runs."""
    ends = {"a": 2 * DAY, "b": 2 * DAY + 1, "c": DAY, "d": DAY + 1, "e": DAY + 2}
    runs = [ended(run_id, number, end) for number, (run_id, end) in enumerate(ends.items(), 1)]
    assert {run.id for run in expired(runs, retention, DAY + 3)} == {"a", "b", "c"}


def test_a_run_that_took_long_expires_by_its_end() -> None:
    runs = [ended("long", 1, 100.0), *(ended(str(n), n, float(n)) for n in range(2, 6))]
    runs[0] = replace(runs[0], created=1.0)
    assert [run.id for run in expired(runs, Retention(max_runs=2), 100.0)] == ["4", "3", "2"]


def test_age_is_that_of_each_run() -> None:
    """After a step back, an older run has the later time; deleting one does not delete the
    other."""
    runs = [ended("a", 1, 10 * DAY), ended("b", 2, 9 * DAY)]
    assert [run.id for run in expired(runs, Retention(max_age=DAY / 2), 10 * DAY)] == ["b"]


def after(events: list[RunEvent], seconds: float) -> list[RunEvent]:
    """The events, so many seconds after the run's first: what an earlier process has written."""
    now = time.time()
    start = [replace(each, time=now - seconds) for each in events if isinstance(each, RunStarted)]
    return [*start, *(replace(each, time=now) for each in events[1:])]


class Limits:
    """The time limits that a run sets: of its deadline and of its approvals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deadlines: list[float] = []
        self.waits: list[float] = []
        timeout, call_later = asyncio.timeout, asyncio.BaseEventLoop.call_later

        def deadline(seconds: float | None) -> asyncio.Timeout:
            if seconds is not None:
                self.deadlines.append(seconds)
            return timeout(seconds)

        def later(loop: Any, seconds: float, callback: Any, *args: Any, **kind: Any) -> Any:
            if getattr(callback, "__name__", "") == "resolve":
                self.waits.append(seconds)
            return call_later(loop, seconds, callback, *args, **kind)

        monkeypatch.setattr("windlass.loop.loop.asyncio.timeout", deadline)
        monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", later)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    return Limits(monkeypatch)


@pytest.mark.parametrize("step", [-20.0, -DAY])
async def test_a_deadline_does_not_grow_when_the_clock_steps_back(
    wall: Wall, limits: Limits, step: float
) -> None:
    gate = Gate()
    first = AsyncRun(plan_of(Ledger(), [slow("done", gate)], timeout=60.0))
    await gate.reached.wait()
    await first.leave()
    events = after(list(first.log.recorded()), 50.0)
    wall.stepped += step
    plan = plan_of(Ledger(), ["done"], timeout=60.0)
    run = AsyncRun(plan, log=MemoryLog(events), history=History(events))
    await run.result()
    assert 0 < limits.deadlines[-1] <= 10.0
    times = [event.time for event in run.log.recorded()]
    assert times == sorted(times)


@pytest.mark.parametrize("step", [20.0, DAY])
async def test_an_approval_does_not_wait_longer_when_the_clock_steps_back(
    limits: Limits, step: float
) -> None:
    script = [call("pay", amount=1, id="a"), "done"]
    ledger = Ledger(approve=True)
    first = AsyncRun(plan_of(ledger, script))
    asked = await first_of(ApprovalRequested, first)
    await first.leave()
    before = time.time() + step
    events = [replace(each, time=before - 50) for each in first.log.recorded()]
    # It had waited for 50 seconds of its 60 when a second process resumed it, and was killed too.
    events.append(RunResumed(1, seq=len(events) + 1, time=before))
    run = AsyncRun(plan_of(ledger, script[1:]), log=MemoryLog(events), history=History(events))
    while not limits.waits[1:]:
        await asyncio.sleep(0)
    run.approve(asked.call.id)
    await run.result()
    assert all(0 < seconds <= 10.0 for seconds in limits.waits[1:]), limits.waits


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_changes_no_limit_of_an_active_run(
    wall: Wall, limits: Limits, step: float
) -> None:
    gate = Gate()
    run = AsyncRun(plan_of(Ledger(), [slow("done", gate)], timeout=60.0))
    await gate.reached.wait()
    wall.stepped += step
    gate.open()
    await run.task
    assert limits.deadlines == [60.0]
    assert run.stop_reason != "deadline"
