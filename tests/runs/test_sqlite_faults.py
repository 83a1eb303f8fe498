"""When the file cannot be read or written: a clear error, no partial event, no waiter that
hangs."""

import asyncio
import contextlib
import errno
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.runs.processes import Child
from tests.support.broken_files import fill, not_a_database, of_a_later_version, somebody_elses
from tests.support.sample_runs import STARTED, begin, ended_run, kept

from windlass.errors import StorageError
from windlass.events import RunEnded, Status, TextDelta
from windlass.runs.event_log import Follower
from windlass.runs.persisted_log import Batch
from windlass.runs.sqlite import SQLiteLog, database, process_locks
from windlass.runs.sqlite.writer import Writer
from windlass.testing import Latch


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another connection writes, and does not commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


async def make_room(log: SQLiteLog) -> None:
    await log._write(lambda file: file.execute("PRAGMA max_page_count = 1000000").fetchall())


async def read_to_the_end(reader: Follower) -> tuple[list[int], Exception | None]:
    numbers: list[int] = []
    try:
        async for event in reader:
            numbers.append(event.seq)
    except StorageError as error:
        return numbers, error
    return numbers, None


async def test_a_full_disk_ends_the_run_and_leaves_no_half_event(path: Path) -> None:
    log = SQLiteLog(path)
    run = begin(log)
    await kept(run, STARTED, TextDelta("a"))
    reading = asyncio.ensure_future(read_to_the_end(log.follow("run_1")))
    await fill(log)
    with pytest.raises(StorageError, match=r"the disk is full: cannot write .*runs.db"):
        await kept(run, Status("small"), Status("x" * 100_000), Status("y"))
    numbers, error = await reading
    assert numbers == [1, 2]
    assert "the disk is full" in str(error)
    with pytest.raises(StorageError, match="the disk is full"):
        await kept(run, RunEnded("answer"))
    assert [event.seq for event in await log.read("run_1")] == [1, 2]
    assert (await log.status("run_1")).events == 2
    with pytest.raises(StorageError, match="the disk is full"):
        await kept(begin(log, "never"), Status("x" * 100_000))
    assert [record.id for record in await log.list()] == ["run_1"]  # nor a partial run
    await make_room(log)
    await ended_run(log, "run_2")
    assert len(await log.read("run_2")) == 3
    await log.aclose()


async def test_nothing_is_written_after_events_that_could_not_be_written(path: Path) -> None:
    log, gate = SQLiteLog(path), threading.Event()
    run = begin(log)
    await kept(run, STARTED)
    await fill(log)
    begun = Latch()

    def wait_for_the_gate(_: sqlite3.Connection) -> None:
        begun.set()
        gate.wait()

    held = asyncio.ensure_future(log._write(wait_for_the_gate))
    await begun.wait()
    for number, size in ((1, 100_000), (2, 1)):
        run.append(Status("x" * size))
        while log._writer._jobs.qsize() < number:
            await asyncio.sleep(0)
    gate.set()
    await held
    assert run.settled is not None
    with pytest.raises(StorageError, match="the disk is full"):
        await run.settled()
    await make_room(log)
    assert [event.seq for event in await log.read("run_1")] == [1]
    [record] = await log.claim()
    again = await log.reopen(record.id)
    await kept(again, RunEnded("answer"))
    assert [event.seq for event in await log.read("run_1")] == [1, 2]
    await log.aclose()


@pytest.mark.process
async def test_files_that_may_not_grow_end_the_run_with_what_is_kept(path: Path) -> None:
    with Child("fill", path, 320_000) as process:
        said = await process.hear()
        assert str(path) in said
        assert "disk I/O error" in said or "disk is full" in said
        shown = int(await process.hear())
    assert shown > 5
    log = SQLiteLog(path)
    assert [event.seq for event in await log.read("run_1")] == list(range(1, shown + 1))
    assert [record.id for record in await log.claim()] == ["run_1"]
    await log.aclose()


@pytest.mark.process
async def test_a_directory_that_may_not_be_written_is_named() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder, "runs.db")
        await asyncio.to_thread(path.parent.chmod, 0o555)
        with Child("unprivileged", path) as process:
            said = await process.hear()
        assert said == f"cannot open {path} for writing: Permission denied"


async def test_a_path_where_files_cannot_be_locked_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, writer: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(process_locks, "_lock", refuse)
    log = SQLiteLog(path)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"cannot lock .*runs.db-lock: No locks available"):
            await kept(begin(log), STARTED)
    monkeypatch.undo()
    await ended_run(log)
    await log.aclose()


async def test_a_directory_at_the_path_of_the_file_is_named(path: Path) -> None:
    await asyncio.to_thread(path.mkdir)
    log = SQLiteLog(path)
    with pytest.raises(StorageError, match="for writing: Is a directory"):
        await kept(begin(log), STARTED)
    await log.aclose()


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


async def test_a_damaged_file_is_reported(path: Path) -> None:
    log = SQLiteLog(path)
    for number in range(20):
        await ended_run(log, f"run_{number}")
    await log.aclose()
    pages = (await asyncio.to_thread(path.stat)).st_size // 4096
    overwrite(path, 4096, b"\xa5" * 4096 * (pages - 1))
    log = SQLiteLog(path)
    for look in (log.list(), log.read("run_1"), log.claim()):
        with pytest.raises(StorageError, match=r"runs.db is damaged .*: move it away"):
            await look
    with pytest.raises(StorageError, match="is damaged"):
        await kept(begin(log, "new"), STARTED)
    await log.aclose()


async def test_a_run_with_damaged_events_is_named_and_the_others_are_read(path: Path) -> None:
    log = SQLiteLog(path)
    await ended_run(log)
    await ended_run(log, "run_2")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE batches SET data = '[{\"event\":' WHERE run_id = 'run_1'")
    connection.close()
    for look in (log.read("run_1"), log.reopen("run_1"), anext(log.follow("run_1"))):
        with pytest.raises(StorageError, match="run 'run_1' is damaged"):
            await look
    assert len(await log.read("run_2")) == 3
    assert len(await log.list()) == 2
    await log.aclose()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (not_a_database, "is damaged (file is not a database): move it away to start a new one"),
        (somebody_elses, "is a database, but not a run log: use another file"),
        (of_a_later_version, "has schema version 99, but this version of Windlass supports up to"),
    ],
)
async def test_a_file_that_is_no_log_of_ours_is_left_as_it_is(
    path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(path)
    before = content(path)
    log = SQLiteLog(path)
    run = begin(log)
    with pytest.raises(StorageError) as raised:
        await kept(run, STARTED)
    assert str(raised.value).startswith(f"{path} {words}")
    for look in (log.list(), log.read("run_1"), log.claim()):
        with pytest.raises(StorageError):
            await look
    await log.aclose()
    assert content(path) == before


async def test_a_file_that_is_locked_for_too_long_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    database.connect(path).close()
    log = SQLiteLog(path)
    held = r"another process has locked .*runs.db for more than 0.01 seconds"
    with locked(path):
        with pytest.raises(StorageError, match=held):
            await kept(begin(log), STARTED)
        assert await log.list() == []  # readers do not block it
    await kept(run := begin(log, "run_2"), STARTED)
    with locked(path), pytest.raises(StorageError, match=held):
        await kept(run, Status("s"))
    assert len(await log.read("run_2")) == 1
    await ended_run(log, "run_3")
    await log.aclose()


async def test_runs_that_wait_for_a_held_file_wait_together(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    log, tries, begun, gate = SQLiteLog(path), list[int](), Latch(), threading.Event()
    await ended_run(log)
    attempt = Writer._try

    def counted(
        self: Writer, connection: sqlite3.Connection, some: Sequence[Batch]
    ) -> StorageError | None:
        tries.append(len(some))
        return attempt(self, connection, some)

    def wait_for_the_gate(_: sqlite3.Connection) -> None:
        begun.set()
        gate.wait()

    monkeypatch.setattr(Writer, "_try", counted)
    with locked(path):
        busy = asyncio.ensure_future(log._write(wait_for_the_gate))
        await begun.wait()
        runs = [kept(begin(log, f"run_{number}"), STARTED) for number in range(2, 20)]
        waiting = asyncio.gather(*runs, return_exceptions=True)
        while log._writer._jobs.qsize() < 18:
            await asyncio.sleep(0)
        gate.set()
        await busy
        assert all(isinstance(each, StorageError) for each in await waiting)
    assert tries == [18]
    await log.aclose()
