"""The SQLite log: when events are stored, and what is deleted."""

import asyncio
from pathlib import Path

import pytest
from tests.runs.looking import opened, rows
from tests.support.sample_runs import CALL, EVERY_KIND, STARTED, Surly, begin, ended_run, kept

from windlass.content import FunctionResponse
from windlass.errors import RunNotFound, StorageError
from windlass.events import (
    RunEnded,
    RunEvent,
    Status,
    TextDelta,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.runs.persisted_log import CAN_WAIT, COALESCE_SECONDS
from windlass.runs.records import Retention
from windlass.runs.sqlite import SQLiteLog


async def test_a_log_is_used_again_after_it_was_closed(log: SQLiteLog) -> None:
    await ended_run(log)
    await log.aclose()
    await log.aclose()
    await ended_run(log, "run_2")
    assert len(await log.list()) == 2


async def test_a_run_is_in_the_file_when_it_has_settled_even_before_its_first_event(
    log: SQLiteLog, path: Path
) -> None:
    run = begin(log)
    assert run.settled is not None
    settling = asyncio.ensure_future(run.settled())
    await asyncio.sleep(0)
    assert not settling.done()
    run.append(STARTED)
    await settling
    assert rows(path, "SELECT id, events FROM runs") == [("run_1", 1)]


URGENT = [event for event in EVERY_KIND if type(event) not in CAN_WAIT]


@pytest.mark.parametrize("event", URGENT, ids=lambda event: type(event).__name__)
async def test_important_events_are_in_the_file_before_the_next_step(
    log: SQLiteLog, path: Path, event: RunEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1_000.0)
    run = begin(log)
    await kept(run, STARTED, TextDelta("a"))
    run.append(TextDelta("b"))
    run.append(event)
    await asyncio.sleep(0)
    await log._write(lambda _: None)  # all earlier writes are done
    assert rows(path, "SELECT max(last) FROM batches") == [(4,)]
    assert rows(path, "SELECT events FROM runs") == [(4,)]


async def test_readers_see_nothing_that_is_not_in_the_file(log: SQLiteLog, path: Path) -> None:
    await kept(run := begin(log), STARTED)
    heard: list[int] = []
    run.listen(lambda event: heard.append(event.seq))
    reader = log.follow("run_1", 1)
    with opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")  # this lock blocks all writes
        run.append(ToolRunStarted(CALL, 1))
        assert run.settled is not None
        settling = asyncio.ensure_future(run.settled())
        seen = asyncio.ensure_future(anext(reader))
        await log.read("run_1")
        assert not settling.done()
        assert not seen.done()
        assert heard == [1]
        assert len(run.recorded()) == 1
        connection.execute("COMMIT")
    await settling
    assert (await seen).seq == 2
    assert heard == [1, 2]


async def test_text_waits_for_its_time(
    log: SQLiteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1_000.0)
    run = begin(log)
    await kept(run, STARTED)
    for event in EVERY_KIND:
        if type(event) in CAN_WAIT:
            run.append(event)
    await asyncio.sleep(0)
    await log._write(lambda _: None)
    assert rows(path, "SELECT max(last) FROM batches") == [(1,)]


async def test_text_is_written_every_50_milliseconds_and_together(
    log: SQLiteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    run = begin(log)
    reader = run.follow()

    async def turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    await kept(run, STARTED)
    assert (await anext(reader)).seq == 1
    for _ in range(10):
        run.append(TextDelta("a"))
        now += COALESCE_SECONDS / 11
        await turns()
    assert rows(path, "SELECT first, last FROM batches") == [(1, 1)]
    now += COALESCE_SECONDS / 11
    assert [(await anext(reader)).seq for _ in range(10)] == list(range(2, 12))
    for _ in range(5):
        run.append(TextDelta("b"))
        await turns()
    await kept(run, TextDelta("c"), TurnEnded("stop"), Status("s"))
    assert rows(path, "SELECT first, last FROM batches") == [(1, 1), (2, 11), (12, 19)]


async def test_concurrent_events_are_written_together(log: SQLiteLog, path: Path) -> None:
    runs = [begin(log, f"run_{number}") for number in range(20)]
    await asyncio.gather(*(kept(run, STARTED, Status("s")) for run in runs))
    assert rows(path, "SELECT first, last, count(*) FROM batches GROUP BY 1, 2") == [(1, 2, 20)]


async def test_a_log_closed_in_the_middle_of_a_run_has_written_all_of_it(path: Path) -> None:
    log = SQLiteLog(path)
    run = begin(log)
    reader = log.follow("run_1")
    for event in (STARTED, TextDelta("a"), TextDelta("b")):
        run.append(event)
    begin(log, "never")  # has no events, and is not waited for
    await log.aclose()
    assert rows(path, "SELECT id, events, ended FROM runs") == [("run_1", 3, None)]
    run.append(TextDelta("late"))
    assert len([event async for event in reader]) == 3
    assert rows(path, "SELECT events FROM runs") == [(3,)]


async def test_a_cancelled_waiter_does_not_delay_the_others(log: SQLiteLog, path: Path) -> None:
    await ended_run(log)
    with opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        run = begin(log, "run_2")
        run.append(STARTED)
        await asyncio.sleep(0)  # it is being written, and later requests wait
        for ask in (log.claim(), log.delete("run_1"), log.expire(Retention(max_runs=0))):
            asking = asyncio.ensure_future(ask)
            await log.list()
            asking.cancel()
        connection.execute("COMMIT")
    await kept(run, RunEnded("answer"))
    assert len(await log.read("run_2")) == 2


async def test_a_run_deleted_during_a_write_does_not_affect_other_runs(
    log: SQLiteLog, path: Path
) -> None:
    runs = {name: begin(log, name) for name in ("a", "b", "c")}
    for run in runs.values():
        await kept(run, STARTED)
    reader = log.follow("b", 1)
    with opened(path) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM runs WHERE id = 'b'")
    for run in runs.values():
        run.append(ToolRunStarted(CALL, 1))
    for name in ("a", "c"):
        await kept(runs[name], RunEnded("answer"))
        assert [event.seq for event in await log.read(name)] == [1, 2, 3]
    with pytest.raises(StorageError, match=r"no longer in .*: it was deleted while it was running"):
        await kept(runs["b"], RunEnded("answer"))
    with pytest.raises(StorageError, match="deleted"):
        await anext(reader)
    assert rows(path, "SELECT count(*) FROM batches WHERE run_id = 'b'") == [(0,)]


async def test_a_run_that_cannot_be_stored_does_not_affect_other_runs(log: SQLiteLog) -> None:
    good, bad = begin(log, "good"), begin(log, "bad", chat="half of a character: \ud83d")
    for run in (good, bad):
        run.append(STARTED)
    await kept(good, RunEnded("answer"))
    with pytest.raises(StorageError, match="surrogates not allowed"):
        await kept(bad, RunEnded("answer"))
    assert [record.id for record in await log.list()] == ["good"]


async def test_a_result_that_cannot_be_written_ends_its_run_and_no_other(log: SQLiteLog) -> None:
    good, bad = begin(log, "good"), begin(log, "bad")
    for run in (good, bad):
        await kept(run, STARTED)
    reader = log.follow("bad", 1)
    bad.append(ToolRunEnded(FunctionResponse("f", {"output": Surly()}, "a"), "ok"))
    for told in (bad.settled, reader.__anext__):
        assert told is not None
        with pytest.raises(StorageError, match="cannot be written as JSON: leave me alone"):
            await told()
    await kept(good, RunEnded("answer"))
    assert [len(await log.read(run_id)) for run_id in ("good", "bad")] == [2, 1]


async def test_a_follower_of_a_deleted_run_gets_an_error(path: Path, log: SQLiteLog) -> None:
    await ended_run(log)
    other = SQLiteLog(path)
    reader = other.follow("run_1")
    await log.delete("run_1")
    with pytest.raises(RunNotFound):
        await anext(reader)
    await other.aclose()
