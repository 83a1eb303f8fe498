"""Files with flipped bytes: every operation succeeds or fails, and none hangs."""

import asyncio
import random
import shutil
import sqlite3
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.sample_runs import STARTED, begin, ended_run, kept
from tests.support.thoroughness import WHOLE

from windlass.errors import StorageError, WindlassError
from windlass.events import Status
from windlass.runs.records import Order, Retention, RunRecord
from windlass.runs.sqlite import SQLiteLog, database, process_locks
from windlass.runs.sqlite.writer import Writer

FILES = 400 if WHOLE else 60
GUARD = 60.0
"""Seconds; far more than any test needs unless it hangs."""


async def sound_file(path: Path) -> None:
    """A file with ended and open runs, orders, and free pages."""
    log = SQLiteLog(path)
    for number in range(12):
        await ended_run(log, f"run_{number}", chat=f"chat_{number % 3}", origin={"kind": "client"})
    for number in range(4):
        await kept(begin(log, f"open_{number}", origin={"kind": "client"}), STARTED, Status("on"))
    await log.aclose()
    other = SQLiteLog(path)
    for number in range(4):
        await other.order(f"open_{number}", Order(kind="stop"))
    await other.delete("run_3")
    await other.aclose()


def flipped(source: Path, target: Path, seed: int) -> None:
    """A copy with some bytes changed: many anywhere, or a few where the structure is."""
    chance = random.Random(seed)
    data = bytearray(source.read_bytes())
    pages = len(data) // 4096
    for _ in range(chance.choice([1, 5, 50, 500])):
        if chance.random() < 0.5:
            place = chance.randrange(len(data))
        else:
            place = chance.randrange(pages) * 4096 + chance.randrange(120)
        data[place] = chance.randrange(256)
    target.write_bytes(data)


async def every_use(log: SQLiteLog) -> list[Callable[[], Awaitable[object]]]:
    async def write(name: str) -> None:
        await kept(begin(log, name), STARTED, Status("x" * 5_000))

    async def take_up() -> None:
        for record in await log.claim():
            run = await log.reopen(record.id)
            await log.orders(record.id)
            await kept(run, Status("again"))

    return [
        lambda: log.list(),
        lambda: log.list(chat="chat_1", open=False),
        lambda: log.status("run_1"),
        lambda: log.read("run_1"),
        lambda: anext(log.follow("run_2")),
        lambda: log.orders("open_1"),
        lambda: write("new_1"),
        take_up,
        lambda: log.order("open_2", Order(kind="stop")),
        lambda: log.give_up(RunRecord(id="open_3", model="m", created=1.0), "it is damaged"),
        lambda: log.check(),
        lambda: log.delete("run_5"),
        lambda: log.expire(Retention(max_runs=3)),
        lambda: log.cut_off(),
        lambda: write("new_2"),
    ]


@pytest.mark.sweep
async def test_a_file_with_flipped_bytes_answers_or_fails_but_never_hangs(tmp_path: Path) -> None:
    source = tmp_path / "sound.db"
    await sound_file(source)
    failures = 0
    for seed in range(FILES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        flipped(source, folder / "runs.db", seed)
        log = SQLiteLog(folder / "runs.db")
        for number, use in enumerate(await every_use(log)):
            try:
                async with asyncio.timeout(GUARD):
                    await use()
            except WindlassError:
                failures += 1
            except TimeoutError:
                pytest.fail(f"seed {seed}, use {number} hangs")
        async with asyncio.timeout(GUARD):
            await log.aclose()
        await asyncio.to_thread(shutil.rmtree, folder)
    assert failures > FILES, "the files were damaged"


async def test_a_file_that_is_whole_again_is_used_again(tmp_path: Path) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    await sound_file(path)
    shutil.copy(path, copy)
    path.write_bytes(b"\xa5" * path.stat().st_size)
    log = SQLiteLog(path)
    with pytest.raises(StorageError):
        await log.list()
    with pytest.raises(StorageError):
        await kept(begin(log, "new"), STARTED)
    assert log.health.cause is not None
    path.write_bytes(copy.read_bytes())
    await log.check()
    assert log.health.cause is None
    assert len(await log.list()) == 15
    await ended_run(log, "new")
    await log.aclose()


@pytest.mark.parametrize("error", [TypeError("odd"), OverflowError("too big"), OSError(5, "I/O")])
async def test_an_error_while_opening_the_file_reaches_every_caller(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object) -> None:
        raise error

    log = SQLiteLog(path)
    with monkeypatch.context() as patched:
        patched.setattr(database, "_version", broken)
        for use in (log.claim(), kept(begin(log), STARTED), log.list()):
            with pytest.raises(StorageError):
                await use
    await ended_run(log, "run_2")
    await log.aclose()


async def test_an_error_of_a_keeper_lock_reaches_the_caller(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise OverflowError("the number is too large")

    log = SQLiteLog(path)
    with monkeypatch.context() as patched:
        patched.setattr(process_locks, "_lock", too_large)
        for use in (kept(begin(log), STARTED), log.claim()):
            with pytest.raises(StorageError, match=path.name):
                await use
    await ended_run(log, "run_2")
    await log.aclose()


async def test_a_run_with_an_invalid_keeper_can_be_claimed(path: Path) -> None:
    log = SQLiteLog(path)
    await kept(begin(log), STARTED)
    await log.aclose()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET keeper = 'x'")
    connection.commit()
    connection.close()
    assert [record.id for record in await log.claim()] == ["run_1"]
    await log.aclose()


async def test_closing_returns_even_if_releasing_a_lock_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "I/O error")

    log = SQLiteLog(path)
    await ended_run(log)
    monkeypatch.setattr("windlass.runs.sqlite.process_locks.release", broken)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    async with asyncio.timeout(GUARD):
        await log.aclose()
    for thread in threading.enumerate():  # its exception is handled here, and not in the next test
        if thread.name == f"windlass {path.name}":
            thread.join()


async def test_a_connection_that_is_stuck_in_a_transaction_is_made_again(path: Path) -> None:
    writer = Writer(path, "normal")

    def leave_open(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        raise struct.error("in the middle")

    with pytest.raises(StorageError):
        await asyncio.wrap_future(writer.call(leave_open))
    count = writer.call(lambda connection: connection.execute("BEGIN IMMEDIATE").fetchall())
    assert await asyncio.wrap_future(count) == []
    await asyncio.wrap_future(writer.close())
