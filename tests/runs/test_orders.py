"""Stops and decisions that wait in the log: none is lost, and each is obeyed before the first
step of a resumed run."""

import asyncio
import contextlib
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace
from tests.support.sample_runs import STARTED, begin, ended_run, kept

from windlass import AsyncClient, tool
from windlass.errors import RunNotFound, StorageError
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RunEnded,
    RunEvent,
    RunResumed,
    Status,
    ToolRunEnded,
    ToolRunStarted,
)
from windlass.messaging.embedded import NatsServer
from windlass.runs.encoding import encoded
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.protocol import RunLog
from windlass.runs.records import Order
from windlass.runs.run import AsyncRun
from windlass.runs.sqlite import SQLiteLog, database, queries
from windlass.runs.sqlite.writer import RESERVE_BYTES
from windlass.testing import ScriptedModel, call, calls

OpenLog: TypeAlias = Callable[[], RunLog]
STOP = Order(kind="stop")


def approval(call_id: str = "a", **fields: Any) -> Order:
    return Order(kind="approve", call_id=call_id, **fields)


@pytest.fixture(params=["sqlite", pytest.param("jetstream", marks=pytest.mark.process)])
async def open_log(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[OpenLog]:
    """Logs of one kind over the same runs, each like that of another process."""
    async with AsyncExitStack() as stack:
        url = ""
        if request.param == "jetstream":
            url = (await stack.enter_async_context(NatsServer())).url

        def make() -> RunLog:
            log = JetStreamLog(url) if url else SQLiteLog(path)
            stack.push_async_callback(log.aclose)
            return log

        yield make


class Payments:
    """A tool that waits for ever, the first time."""

    def __init__(self, **options: Any) -> None:
        self.begun: list[int] = []

        @tool(**options)
        async def pay(amount: int) -> str:
            """Pays."""
            self.begun.append(amount)
            if amount == 1:
                await asyncio.Event().wait()
            return f"paid {amount}"

        self.tool = pay

    def client(self, log: RunLog, *script: Any) -> AsyncClient:
        return AsyncClient(ScriptedModel(script), tools=[self.tool], log=log)


async def until(run: AsyncRun, kind: type[RunEvent]) -> Any:
    async for event in run.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


async def killed(run: AsyncRun, log: RunLog) -> None:
    """Simulates an exited process."""
    await run.leave()
    await log.aclose()


async def test_a_stored_stop_is_applied_before_the_first_step(open_log: OpenLog) -> None:
    payments, first, second = Payments(on_interrupt="retry"), open_log(), open_log()
    turn = calls(call("pay", amount=1, id="a"), call("pay", amount=2, id="b"))
    run = await payments.client(first, turn).start("Pay!")
    await until(run, ToolRunStarted)
    await killed(run, first)
    payments.begun.clear()
    assert await second.order(run.id, STOP)
    client = payments.client(second, "never")
    [again] = await client.resume()
    await again.task
    assert again.stop_reason == "stopped"
    assert payments.begun == []
    events = await second.read(run.id)
    resumed = next(n for n, event in enumerate(events) if isinstance(event, RunResumed))
    after = [type(event) for event in events[resumed:]]
    assert ToolRunStarted not in after
    assert after[-1] is RunEnded
    ends = [event.response.id for event in events if isinstance(event, ToolRunEnded)]
    assert sorted(ends) == ["a", "b"]
    await client.model.aclose()


async def test_a_stopped_run_whose_answer_was_whole_does_not_end_with_it(
    open_log: OpenLog,
) -> None:
    payments, first, second = Payments(), open_log(), open_log()
    run = await payments.client(first, "Done.").start("Go.")
    await run.result()
    [record] = await first.list()
    events = await first.read(run.id)
    await first.delete(run.id)
    without_end = first.begin(replace(record, ended=None, reason=None, events=0, size=0))
    await kept(without_end, *events[:-1])
    without_end.close()
    await first.aclose()
    await second.order(run.id, STOP)
    [again] = await payments.client(second).resume()
    await again.task
    assert again.stop_reason == "stopped"


async def test_a_stored_decision_is_applied_by_the_process_that_resumes_the_run(
    open_log: OpenLog,
) -> None:
    first, second = open_log(), open_log()
    payments = Payments(approve=True)
    run = await payments.client(first, call("pay", amount=3, id="a")).start("Pay!")
    await until(run, ApprovalRequested)
    await killed(run, first)
    assert await second.order(run.id, approval(arguments={"amount": 7}))
    [again] = await payments.client(second, "Done.").resume()
    assert (await again.result()).text == "Done."
    assert payments.begun == [7]


async def test_of_two_decisions_about_a_call_the_first_counts(open_log: OpenLog) -> None:
    first, second, third = open_log(), open_log(), open_log()
    payments = Payments(approve=True)
    run = await payments.client(first, call("pay", amount=3, id="a")).start("Pay!")
    await until(run, ApprovalRequested)
    await killed(run, first)
    yes, no = approval(), approval(approved=False)
    given = await asyncio.gather(second.order(run.id, yes), third.order(run.id, no))
    assert sorted(given) == [False, True]
    stands = yes if given[0] else no
    assert await third.order(run.id, stands), "the same decision once more"
    [again] = await payments.client(second, "Done.").resume()
    await again.result()
    assert payments.begun == ([3] if given[0] else [])


async def test_orders_for_ended_and_unknown_runs_have_no_effect(open_log: OpenLog) -> None:
    log = open_log()
    await ended_run(log)
    assert await log.order("run_1", STOP)
    assert not await log.order("run_1", approval())
    with pytest.raises(RunNotFound):
        await log.order("run_2", STOP)


async def test_an_approval_of_the_library_is_stored_when_it_returns(path: Path) -> None:
    log = SQLiteLog(path)
    payments = Payments(approve=True)
    client = payments.client(log, call("pay", amount=3, id="a"), "Done.")
    run = await client.start("Pay!")
    asked = await until(run, ApprovalRequested)
    assert await client.approve(run.id, asked.call.id)
    stored = sqlite3.connect(path)
    data = b"".join(data for (data,) in stored.execute("SELECT data FROM batches ORDER BY first"))
    stored.close()
    assert b"approval_resolved" in data
    assert (await run.result()).text == "Done."
    await client.aclose()


async def test_numbers_of_orders_are_never_used_again(path: Path) -> None:
    log, other = SQLiteLog(path), SQLiteLog(path)
    for name in ("run_1", "run_2"):
        await kept(begin(log, name), STARTED)
    await other.order("run_1", STOP)
    reader = sqlite3.connect(path, isolation_level=None)
    [first] = reader.execute("SELECT id FROM orders").fetchall()
    reader.execute("DELETE FROM orders")
    await other.order("run_2", STOP)
    [second] = reader.execute("SELECT id FROM orders").fetchall()
    assert second > first
    reader.close()
    await log.aclose()
    await other.aclose()


async def test_a_file_of_the_first_version_keeps_its_orders(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(database, "MIGRATIONS", database.MIGRATIONS[:1])
        connection = database.connect(path)
        connection.execute(
            "INSERT INTO runs (id, model, created, owner, chat, title, origin, keeper)"
            " VALUES ('run_1', 'scripted/model', 1.0, '', '', '', '{}', 1)"
        )
        connection.execute(
            "INSERT INTO batches (run_id, first, last, data) VALUES ('run_1', 1, 1, ?)",
            [encoded([replace(STARTED, seq=1)])],
        )
        connection.execute(
            "INSERT INTO orders (id, run_id, data) VALUES (7, 'run_1', ?)", [b'{"kind":"stop"}']
        )
        connection.close()
    log = SQLiteLog(path)
    await log.claim()
    await log.reopen("run_1")
    assert await log.orders("run_1") == [STOP]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = ON")
    [(schema,)] = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'orders'")
    assert "AUTOINCREMENT" in schema
    connection.execute("DELETE FROM runs")
    assert connection.execute("SELECT * FROM orders").fetchall() == [], "they go with their run"
    connection.close()
    await log.aclose()


async def test_an_unreadable_order_does_not_block_the_others(path: Path) -> None:
    log, other = SQLiteLog(path), SQLiteLog(path)
    run = begin(log)
    await kept(run, STARTED)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO orders (run_id, data) VALUES ('run_1', x'FF')")
    connection.commit()
    connection.close()
    obeyed: asyncio.Queue[str] = asyncio.Queue()
    run.on_order = lambda order: obeyed.put_nowait(order.kind)
    await other.order("run_1", STOP)
    assert await obeyed.get() == "stop"
    await log.aclose()
    await other.aclose()


async def test_a_decision_is_delivered_again_if_its_effect_was_not_stored(path: Path) -> None:
    payments = Payments(approve=True)
    log = SQLiteLog(path)
    client = payments.client(log, call("pay", amount=3, id="a"), "Done.")
    run = await client.start("Pay!")
    await until(run, ApprovalRequested)
    await run.leave()
    other = SQLiteLog(path)
    await other.order(run.id, approval())
    [again] = await client.resume()
    await again.leave()  # at once: its decision was never stored
    [last] = await client.resume()
    assert (await last.result()).text == "Done."
    resolved = [e for e in await log.read(run.id) if isinstance(e, ApprovalResolved)]
    assert len(resolved) == 1
    await client.aclose()
    await other.aclose()


class SmallDisk:
    """A file system of 2 MB, which can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    yield SmallDisk(folder)
    subprocess.run(["umount", str(folder)], check=True)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.process
async def test_a_stop_is_stored_on_a_disk_that_is_really_full(small_disk: SmallDisk) -> None:
    path = small_disk.folder / "runs.db"
    log = SQLiteLog(path, reserve=RESERVE_BYTES)
    run = begin(log)
    await kept(run, STARTED)
    small_disk.fill()
    with pytest.raises(StorageError, match="the disk is full"):
        await kept(run, Status("x" * 200_000))
    with pytest.raises(StorageError, match="the disk is full"):
        await log.check()
    for _ in range(5):
        assert await log.order("run_1", STOP)
    assert log.health.cause == "database or disk is full"
    small_disk.make_room()
    await log.check()
    assert log.health.cause is None
    assert size_of(Path(f"{path}-reserve")) == RESERVE_BYTES
    assert await log.orders("run_1") == [STOP] * 5
    await log.aclose()


async def test_the_reserve_of_a_disk_is_used_once_and_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = SQLiteLog(path, reserve=RESERVE_BYTES), SQLiteLog(path)
    await kept(begin(other), STARTED)
    reserve = Path(f"{path}-reserve")
    orders_of = queries.orders_of

    def full(*arguments: Any) -> Any:
        if size_of(reserve):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return orders_of(*arguments)

    await log.check()
    with monkeypatch.context() as patched:
        patched.setattr(queries, "orders_of", full)
        with pytest.raises(StorageError, match="the disk is full"):
            await log.order("run_1", approval())
        assert await log.order("run_1", STOP)
    assert size_of(reserve) == 0
    await log.check()
    assert size_of(reserve) == RESERVE_BYTES
    await log.aclose()
    await other.aclose()
