"""Owners of runs: locks show which processes are running, and fences reject writes of others."""

import fcntl
import os
import sqlite3
from pathlib import Path

import pytest
from tests.runs.processes import Child
from tests.support.sample_runs import STARTED, begin, kept

from windlass.errors import StorageError
from windlass.events import RunEnded, Status
from windlass.runs.persisted_log import TakenOver
from windlass.runs.sqlite import SQLiteLog, process_locks


async def claimed_elsewhere(path: Path) -> str:
    """The runs that another process claims."""
    with Child("claim", path) as other:
        assert await other.hear() == "ready"
        other.tell("go")
        return await other.hear()


@pytest.mark.process
async def test_a_process_that_closes_its_lock_file_still_counts_as_alive(
    path: Path, log: SQLiteLog
) -> None:
    run = begin(log)
    await kept(run, STARTED)
    os.close(os.open(f"{path}-lock", os.O_RDONLY))
    assert await claimed_elsewhere(path) == ""
    await kept(run, RunEnded("answer"))


@pytest.mark.process
async def test_a_process_that_closes_a_second_log_still_counts_as_alive(
    path: Path, log: SQLiteLog
) -> None:
    await kept(begin(log), STARTED)
    second = SQLiteLog(path)
    await kept(begin(second, "run_2"), STARTED)
    await second.aclose()
    assert await claimed_elsewhere(path) == "run_2"


@pytest.mark.process
async def test_locks_are_held_where_they_belong_to_processes(
    path: Path, log: SQLiteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "F_OFD_SETLK", -1, raising=False)
    await kept(begin(log), STARTED)
    assert await claimed_elsewhere(path) == ""
    await log.aclose()
    assert await claimed_elsewhere(path) == "run_1"


async def test_a_process_that_has_lost_a_run_writes_nothing_to_it(
    path: Path, log: SQLiteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, ours = begin(log, "run_1"), begin(log, "run_2")
    await kept(lost, STARTED)
    await kept(ours, STARTED)
    other = SQLiteLog(path)
    with monkeypatch.context() as patched:
        patched.setattr(process_locks, "is_alive", lambda *_: False)  # as if its lock was lost
        [record] = await other.claim(lambda record: record.id == "run_1")
    resumed = await other.reopen(record.id)

    # The new owner has written nothing yet, so the numbers alone would not show the conflict.
    lost.append(Status("lost"))
    ours.append(Status("ours"))
    with pytest.raises(TakenOver, match="another process has taken over run run_1"):
        await kept(lost)
    await kept(ours, RunEnded("answer"))
    await kept(resumed, Status("resumed"), RunEnded("answer"))

    assert lost.closed
    assert [type(event) for event in await other.read("run_1")][1:] == [Status, RunEnded]
    assert (await other.read("run_1"))[1:] == list(resumed.recorded())[1:]
    assert len(await other.read("run_2")) == 3
    assert log.health.cause is None
    assert await log.claim() == []
    await other.aclose()


async def test_a_process_that_has_lost_a_run_cannot_end_it(
    path: Path, log: SQLiteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(log)
    await kept(run, STARTED)
    other = SQLiteLog(path)
    with monkeypatch.context() as patched:
        patched.setattr(process_locks, "is_alive", lambda *_: False)
        [record] = await other.claim()
    with pytest.raises(StorageError):
        await kept(run, RunEnded("answer"))
    with pytest.raises(StorageError):
        await log.give_up(record, "lost")
    assert (await other.status("run_1")).ended is None
    await other.give_up(record, "given up")
    assert (await log.status("run_1")).error == "given up"
    await other.aclose()


async def test_the_fence_stays_when_the_writer_opens_the_file_again(
    path: Path, log: SQLiteLog
) -> None:
    run = begin(log)
    await kept(run, STARTED)

    def leave_open(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        raise ValueError("the connection is of no more use")

    with pytest.raises(StorageError):
        await log._write(leave_open)
    await kept(run, Status("still ours"))
    await log._write(lambda connection: connection.execute("UPDATE runs SET keeper = keeper + 1"))
    with pytest.raises(TakenOver):
        await kept(run, Status("not ours"))
