"""The file of runs: its permissions, its creation, and deleted data."""

import contextlib
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runs.looking import opened, rows
from tests.support.sample_runs import STARTED, begin, ended_run, kept

from windlass.content import FunctionResponse
from windlass.errors import StorageError
from windlass.events import (
    RunEnded,
    TextDelta,
    ToolRunEnded,
)
from windlass.runs.records import Retention
from windlass.runs.sqlite import SQLiteLog, database


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def size(path: Path) -> int:
    return path.stat().st_size


async def test_the_file_is_made_by_its_first_use_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "runs.db"
    log = SQLiteLog(path)
    assert not path.parent.exists()
    await kept(begin(log), STARTED)
    for name in ("runs.db", "runs.db-wal", "runs.db-shm", "runs.db-lock"):
        assert mode(path.parent / name) == 0o600, name
    await log.aclose()
    assert sorted(each.name for each in path.parent.iterdir()) == ["runs.db", "runs.db-lock"]


async def test_listing_runs_creates_the_file_too(path: Path) -> None:
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


MARKER = "Rumpelstilzchen"


@pytest.mark.parametrize("how", ["delete", "expire"])
async def test_nothing_of_a_deleted_run_is_in_any_file(
    log: SQLiteLog, path: Path, how: str
) -> None:
    await ended_run(log, "stays", 1.0)
    other = SQLiteLog(path)
    await other.list()  # another process has the file open, with its own journal
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


async def test_a_deletion_that_a_reader_delays_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    log = SQLiteLog(path)
    await ended_run(log)
    await ended_run(log, "run_2")
    with opened(path) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM batches").fetchone()
        with pytest.raises(StorageError, match=r"deleted, but .*-wal still has the data"):
            await log.delete("run_1")
        connection.execute("COMMIT")
    await log.delete("run_2")
    assert await log.list() == []
    assert size(Path(f"{path}-wal")) == 0
    await log.aclose()


@pytest.mark.sweep
async def test_two_processes_may_create_the_file_in_any_order_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly = sqlite3.connect

    def made_between(path: Path, step: int) -> int:
        """Opens the file after another process has run this many migrations; returns its
        version."""
        count = 0

        def somebody_else() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(sqlite3, "connect", plainly)
                patch.setattr(database, "BUSY_SECONDS", 0.0)
                with contextlib.suppress(StorageError):  # if we lock the file first
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


async def test_a_file_that_another_is_making_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plainly, waited = sqlite3.connect, list[float]()
    maker = plainly(path, isolation_level=None)

    class Late(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if "journal_mode" in arguments[0] and not waited:
                maker.execute("BEGIN IMMEDIATE")
            return super().execute(*arguments)

    def wait(seconds: float) -> None:
        waited.append(seconds)
        maker.execute("ROLLBACK")

    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **more: plainly(*given, factory=Late, **more)
    )
    monkeypatch.setattr(time, "sleep", wait)
    database.connect(path).close()
    monkeypatch.undo()
    maker.close()
    assert len(waited) == 1
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
