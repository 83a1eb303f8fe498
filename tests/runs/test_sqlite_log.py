"""The file of runs: whose it is, what is in it when, and what is not in it any more."""

import asyncio
import contextlib
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runs.sample_runs import CALL, EVERY_KIND, STARTED, begin, ended_run, kept

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
from windlass.runs.records import Retention
from windlass.runs.sqlite import SQLiteLog, database
from windlass.runs.stored import CAN_WAIT, COALESCE_SECONDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SQLiteLog]:
    log = SQLiteLog(path)
    yield log
    await log.aclose()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as any program sees it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def size(path: Path) -> int:
    return path.stat().st_size


def rows(path: Path, query: str) -> list[Any]:
    with opened(path) as connection:
        return connection.execute(query).fetchall()


async def test_the_file_is_made_by_its_first_use_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "runs.db"
    log = SQLiteLog(path)
    assert not path.parent.exists()
    await kept(begin(log), STARTED)
    for name in ("runs.db", "runs.db-wal", "runs.db-shm", "runs.db-lock"):
        assert mode(path.parent / name) == 0o600, name
    await log.aclose()
    assert sorted(each.name for each in path.parent.iterdir()) == ["runs.db", "runs.db-lock"]


async def test_looking_makes_the_file_too(path: Path) -> None:
    log = SQLiteLog(path)
    assert await log.list() == []
    assert mode(path) == 0o600
    await log.aclose()


@pytest.mark.parametrize(("synchronous", "level"), [("normal", 1), ("full", 2)])
async def test_the_file_is_written_ahead_and_as_safely_as_it_was_asked_for(
    path: Path, synchronous: database.Synchronous, level: int
) -> None:
    await ended_run(log := SQLiteLog(path, synchronous=synchronous))
    assert await log._write(lambda file: file.execute("PRAGMA synchronous").fetchone()) == (level,)
    await log.aclose()
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(path, "PRAGMA application_id") == [(database.APPLICATION,)]


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
async def test_what_matters_is_in_the_file_before_the_next_step(
    log: SQLiteLog, path: Path, event: RunEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1_000.0)
    run = begin(log)
    await kept(run, STARTED, TextDelta("a"))
    run.append(TextDelta("b"))
    run.append(event)
    await asyncio.sleep(0)
    await log._write(lambda _: None)  # whatever was to be written before, is
    assert rows(path, "SELECT max(last) FROM batches") == [(4,)]
    assert rows(path, "SELECT events FROM runs") == [(4,)]


async def test_readers_see_nothing_that_is_not_in_the_file(log: SQLiteLog, path: Path) -> None:
    await kept(run := begin(log), STARTED)
    heard: list[int] = []
    run.listen(lambda event: heard.append(event.seq))
    reader = log.follow("run_1", 1)
    with opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")  # nothing can be written while this is held
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


async def test_what_happens_at_once_is_written_at_once(log: SQLiteLog, path: Path) -> None:
    runs = [begin(log, f"run_{number}") for number in range(20)]
    await asyncio.gather(*(kept(run, STARTED, Status("s")) for run in runs))
    assert rows(path, "SELECT first, last, count(*) FROM batches GROUP BY 1, 2") == [(1, 2, 20)]


async def test_a_log_closed_in_the_middle_of_a_run_has_written_all_of_it(path: Path) -> None:
    log = SQLiteLog(path)
    run = begin(log)
    reader = log.follow("run_1")
    for event in (STARTED, TextDelta("a"), TextDelta("b")):
        run.append(event)
    begin(log, "never")  # has said nothing, and is not waited for
    await log.aclose()
    assert rows(path, "SELECT id, events, ended FROM runs") == [("run_1", 3, None)]
    run.append(TextDelta("late"))
    assert len([event async for event in reader]) == 3
    assert rows(path, "SELECT events FROM runs") == [(3,)]


async def test_somebody_who_no_longer_waits_does_not_hold_up_the_others(
    log: SQLiteLog, path: Path
) -> None:
    await ended_run(log)
    with opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        run = begin(log, "run_2")
        run.append(STARTED)
        await asyncio.sleep(0)  # it is being written, and what is asked for now waits behind it
        for ask in (log.claim(), log.delete("run_1"), log.expire(Retention(max_runs=0))):
            asking = asyncio.ensure_future(ask)
            await log.list()
            asking.cancel()
        connection.execute("COMMIT")
    await kept(run, RunEnded("answer"))
    assert len(await log.read("run_2")) == 2


async def test_a_run_deleted_under_its_writer_is_no_other_runs_trouble(
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
    with pytest.raises(StorageError, match=r"no longer in .*runs.db: it was deleted while it went"):
        await kept(runs["b"], RunEnded("answer"))
    with pytest.raises(StorageError, match="deleted"):
        await anext(reader)
    assert rows(path, "SELECT count(*) FROM batches WHERE run_id = 'b'") == [(0,)]


async def test_whoever_follows_a_deleted_run_is_told(path: Path, log: SQLiteLog) -> None:
    await ended_run(log)
    other = SQLiteLog(path)
    reader = other.follow("run_1")
    await log.delete("run_1")
    with pytest.raises(RunNotFound):
        await anext(reader)
    await other.aclose()


MARKER = "Rumpelstilzchen"


@pytest.mark.parametrize("how", ["delete", "expire"])
async def test_nothing_of_a_deleted_run_is_in_any_file(
    log: SQLiteLog, path: Path, how: str
) -> None:
    await ended_run(log, "stays", 1.0)
    other = SQLiteLog(path)
    await other.list()  # somebody else has the file open, and a journal of his own
    run = begin(log, "goes", 2.0, title=MARKER, origin={"extra": MARKER}, chat=MARKER)
    big = FunctionResponse("f", {"output": f"{MARKER} " * 50_000}, "a")
    result = ToolRunEnded(big, "ok")
    for event in (STARTED, TextDelta(MARKER), result, RunEnded("error", error=MARKER)):
        await kept(run, event)

    def found() -> int:
        files = [each for each in path.parent.iterdir() if each.name.startswith("runs.db")]
        return sum(each.read_bytes().count(MARKER.encode()) for each in files)

    assert found() > 40_000  # some are cut in two by the end of a page
    if how == "delete":
        await log.delete("goes")
    else:
        await log.expire(Retention(max_runs=0))
    assert found() == 0
    await other.aclose()
    await log.aclose()
    assert found() == 0
    assert size(path) < 200_000
    if how == "delete":
        assert rows(path, "SELECT id FROM runs") == [("stays",)]


async def test_a_deletion_that_a_reader_keeps_from_being_complete_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    log = SQLiteLog(path)
    await ended_run(log)
    await ended_run(log, "run_2")
    with opened(path) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM batches").fetchone()
        with pytest.raises(StorageError, match=r"deleted, but .*-wal still holds it"):
            await log.delete("run_1")
        connection.execute("COMMIT")
    await log.delete("run_2")
    assert await log.list() == []
    assert size(Path(f"{path}-wal")) == 0
    await log.aclose()


async def test_two_may_make_the_file_at_once_whatever_the_order_of_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = sqlite3.connect

    def made_between(path: Path, step: int) -> int:
        """Opens the file, and lets somebody else do so before that step; says how many it has."""
        count = 0

        def somebody_else() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(sqlite3, "connect", plainly)
                patch.setattr(database, "BUSY_SECONDS", 0.0)
                with contextlib.suppress(StorageError):  # if we hold the file, and go first
                    database.connect(path).close()

        class Stepwise(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                nonlocal count
                if count == step:
                    somebody_else()
                count += 1
                return super().execute(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(
                sqlite3, "connect", lambda *given, **more: plainly(*given, factory=Stepwise, **more)
            )
            database.connect(path).close()
        return count

    steps = made_between(tmp_path / "alone.db", -1)
    assert steps > 10
    for step in range(steps):
        path = tmp_path / f"{step}.db"
        made_between(path, step)
        assert rows(path, "PRAGMA user_version") == [(len(database.MIGRATIONS),)]
