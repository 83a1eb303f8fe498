"""One file for several processes: one writes, others follow, take over and give orders."""

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path

import pytest
from tests.runs.processes import Child
from tests.support.sample_runs import begin, ended_run, kept

from windlass.errors import StorageError
from windlass.events import RunEnded, Status
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog, database
from windlass.runs.sqlite.database import MIGRATIONS
from windlass.testing import Latch

pytestmark = pytest.mark.process


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()


def journal_of(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_ino


async def test_one_process_runs_and_another_follows_live(path: Path) -> None:
    with Child("write", path) as writer:
        assert await writer.hear() == "begun"
        with Child("follow", path) as reader:
            assert await reader.hear() == "1 RunStarted"
            for number, (word, name) in enumerate(
                [("text", "TextDelta"), ("status", "Status"), ("end", "RunEnded")], 2
            ):
                writer.tell(word)
                assert await writer.hear() == f"kept {number}"
                assert await reader.hear() == f"{number} {name}"
            assert await reader.hear() == "over"


async def test_a_reader_in_another_process_continues_from_its_last_number(path: Path) -> None:
    with Child("write", path) as writer:
        await writer.hear()
        with Child("follow", path) as reader:
            assert await reader.hear() == "1 RunStarted"
        for word in ("text", "status"):
            writer.tell(word)
            await writer.hear()
        with Child("follow", path, "run_1", 1) as reader:
            assert await reader.hear() == "2 TextDelta"
            assert await reader.hear() == "3 Status"
            writer.tell("end")
            assert await reader.hear() == "4 RunEnded"
            assert await reader.hear() == "over"


async def test_a_reader_follows_a_run_across_the_death_of_its_process(
    path: Path,
) -> None:
    with Child("write", path) as writer:
        await writer.hear()
        with Child("follow", path) as reader:
            assert await reader.hear() == "1 RunStarted"
            writer.kill()
            log = SQLiteLog(path)
            assert [record.id for record in await log.claim()] == ["run_1"]
            run = await log.reopen("run_1")
            assert [event.seq for event in run.recorded()] == [1]
            await kept(run, Status("s"), RunEnded("answer"))
            assert await reader.hear() == "2 Status"
            assert await reader.hear() == "3 RunEnded"
            assert await reader.hear() == "over"
            await log.aclose()


async def test_a_process_killed_while_it_writes_leaves_a_whole_file_and_runs_to_take_over(
    path: Path,
) -> None:
    with Child("flood", path) as writer:
        said: dict[int, int] = {}
        for _ in range(60):
            run, number = map(int, (await writer.hear()).split())
            said[run] = number
        assert len(said) == 5
        log = SQLiteLog(path)
        assert await log.claim() == []  # it lives
        writer.kill()
        claimed = {record.id: record for record in await log.claim()}
        assert set(claimed) == {f"run_{number}" for number in range(5)}
        assert await log.claim() == []
        for run, number in said.items():
            events = await log.read(f"run_{run}")
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len(events) >= number  # what was reported as stored is stored
            assert claimed[f"run_{run}"].events == len(events)
            assert len(events) % 3 == 1  # three were written together: all of them, or none
        await log.aclose()
    assert integrity(path) == "ok"


async def test_only_a_closing_client_leaves_its_runs(path: Path) -> None:
    log = SQLiteLog(path)
    with Child("write", path, "theirs") as writer:
        await writer.hear()
        run = begin(log, "ours")
        await kept(run, Status("s"))
        other = SQLiteLog(path)
        assert await other.claim() == []
        writer.tell("")
        assert await writer.hear() == "closed"
        assert [record.id for record in await other.claim()] == ["theirs"]
        await log.aclose()
        assert [record.id for record in await other.claim()] == ["ours"]
        await other.aclose()


async def test_no_run_is_claimed_twice(path: Path) -> None:
    with Child("flood", path) as writer:
        while not (await writer.hear()).startswith("4 "):
            pass
        claimers = [Child("claim", path) for _ in range(3)]
        try:
            for claimer in claimers:
                assert await claimer.hear() == "ready"
            writer.kill()
            for claimer in claimers:
                claimer.tell("go")
            got = [await claimer.hear() for claimer in claimers]
        finally:
            for claimer in claimers:
                claimer.__exit__(None, None, None)
    assert sorted(" ".join(got).split()) == [f"run_{number}" for number in range(5)]


async def test_no_process_claims_a_run_while_another_decides(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with Child("write", path) as writer:
        await writer.hear()
    thinking, decided = Latch(), threading.Event()

    def wanted(_: RunRecord) -> bool:
        thinking.set()
        return decided.wait()

    first, second = SQLiteLog(path), SQLiteLog(path)
    claiming = asyncio.ensure_future(first.claim(wanted))
    await thinking.wait()
    try:
        with pytest.raises(StorageError, match="another process has locked"):
            await second.claim()
    finally:
        decided.set()
    assert [record.id for record in await claiming] == ["run_1"]
    assert await second.claim() == []
    await first.aclose()
    await second.aclose()


async def test_only_the_wanted_ones_are_claimed(path: Path) -> None:
    with Child("write", path, "run_1") as one, Child("write", path, "run_2") as two:
        await one.hear()
        await two.hear()
    log = SQLiteLog(path)
    assert [each.id for each in await log.claim(lambda each: each.id == "run_2")] == ["run_2"]
    other = SQLiteLog(path)
    assert [each.id for each in await other.claim()] == ["run_1"]
    await log.aclose()
    await other.aclose()


@pytest.mark.parametrize(
    ("kind", "heard"), [("stop", "stop  True None"), ("approve", "approve a True {'amount': 2}")]
)
async def test_an_order_from_another_process_reaches_the_owner_once(
    path: Path, kind: str, heard: str
) -> None:
    with Child("write", path) as owner:
        await owner.hear()
        with Child("order", path, kind) as giver:
            assert await giver.hear() == "ordered"
        assert await owner.hear() == heard
        owner.tell("end")
        assert await owner.hear() == "kept 2"
        owner.tell("")
        assert await owner.hear() == "closed"


async def test_an_order_waits_for_the_process_that_resumes_the_run(path: Path) -> None:
    with Child("write", path) as owner:
        await owner.hear()
    with Child("order", path, "stop") as giver:
        assert await giver.hear() == "ordered"
    log = SQLiteLog(path)
    await log.claim()
    run = await log.reopen("run_1")
    obeyed: asyncio.Queue[str] = asyncio.Queue()
    run.on_order = lambda order: obeyed.put_nowait(order.kind)
    assert await obeyed.get() == "stop"
    await log.aclose()


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("before", ["nothing", "older"])
async def test_a_file_is_brought_up_to_date_once_by_processes_that_race(
    path: Path, before: str, steps: int
) -> None:
    if before == "older":
        log = SQLiteLog(path)
        await ended_run(log)
        await log.aclose()
    racers = [Child("migrate", path, steps) for _ in range(3)]
    try:
        for racer in racers:
            assert await racer.hear() == "ready"
        for racer in racers:
            racer.tell("go")
        assert [await racer.hear() for racer in racers] == ["opened"] * 3
    finally:
        for racer in racers:
            racer.__exit__(None, None, None)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + steps,)
    runs = connection.execute("SELECT id FROM runs").fetchall()
    assert runs == ([("run_1",)] if before == "older" else [])
    for step in range(steps):
        assert connection.execute(f"SELECT x FROM later_{step}").fetchall() == [(step,)]
    connection.close()


async def test_a_process_that_leaves_does_not_take_our_journal_with_it(path: Path) -> None:
    """SQLite deletes the journal when the last process leaves: it must see that we are there."""
    log = SQLiteLog(path)
    run = begin(log)
    await kept(run, Status("one"))
    await asyncio.gather(*(log.read("run_1") for _ in range(8)))  # several connections of ours
    journal = journal_of(path)
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('SELECT count(*) FROM runs').fetchone(); c.close()"
    )
    for _ in range(2):
        visitor = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(path))
        assert await visitor.wait() == 0
    assert journal_of(path) == journal
    await kept(run, RunEnded("answer"))
    with Child("follow", path) as reader:
        for number in (1, 2):
            assert (await reader.hear()).startswith(str(number))
    await log.aclose()
