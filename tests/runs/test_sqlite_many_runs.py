"""A file with many runs: no query reads all of them, and expiry does not hold up other writers."""

import ast
import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.runs.looking import opened, rows
from tests.support.sample_runs import STARTED, Clock, begin, ended_run, kept, record

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunStarted, TextDelta
from windlass.runs import sqlite as package
from windlass.runs.encoding import encoded
from windlass.runs.records import Order, Retention
from windlass.runs.sqlite import SQLiteLog, database
from windlass.runs.sqlite import log as log_module

RUNS = 2_000
MAX_INSTRUCTIONS = 4_000
"""Instructions of SQLite's machine for one method: reading 2,000 runs takes 10,000 or more."""
EVERY = 100
IN_ORDER = "SCAN runs USING COVERING INDEX runs_by_number"
ENDED_IN_ORDER = "SCAN runs USING INDEX runs_by_number"
"""A list of all owners, newest first: it reads no more than it returns."""
OPEN_ONES = "SCAN runs USING INDEX runs_open"
"""The index has the open runs alone."""
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


class Watched(sqlite3.Connection):
    """Notes what is executed, and counts the instructions of SQLite's machine."""

    statements: set[str]
    instructions: int

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        Watched.statements.add(" ".join(sql.split()))
        return super().execute(sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        Watched.statements.add(" ".join(sql.split()))
        return super().executemany(sql, *values)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    plainly = sqlite3.connect
    Watched.statements, Watched.instructions = set(), 0

    def count() -> None:
        Watched.instructions += EVERY

    def connect(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = plainly(*given, factory=Watched, **options)
        connection.set_progress_handler(count, EVERY)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    return Watched


async def fill(log: SQLiteLog, count: int = RUNS) -> None:
    """Ended runs of one owner, and a chat of the last three."""

    async def one(number: int) -> None:
        chat = "chat_1" if number >= count - 3 else f"chat_{number}" if number % 10 == 0 else ""
        await ended_run(log, f"run_{number * 7919 % count:05d}", number, owner="web", chat=chat)

    for start in range(0, count, 500):
        await asyncio.gather(*map(one, range(start, min(count, start + 500))))


Use = Callable[[], Awaitable[object]]


MIDDLE = record("middle", number=1_000)
"""Where a later page begins."""


def uses(log: SQLiteLog) -> dict[str, Use]:
    """All calls of a gateway to its log, except limits by number and size."""

    async def follow() -> None:
        async for _ in log.follow("run_00007"):
            pass

    return {
        "list": lambda: log.list(limit=5),
        "list of an owner": lambda: log.list(owner="web", limit=5),
        "list of an owner without runs": lambda: log.list(owner="other", limit=5),
        "next page": lambda: log.list(owner="web", before=MIDDLE, limit=5),
        "next page of all": lambda: log.list(before=MIDDLE, limit=5),
        "ended": lambda: log.list(owner="web", open=False, limit=5),
        "ended of all": lambda: log.list(open=False, limit=5),
        "running": lambda: log.list(owner="web", open=True),
        "running, next page": lambda: log.list(owner="web", open=True, before=MIDDLE),
        "running of all": lambda: log.list(open=True),
        "chat": lambda: log.list(owner="web", chat="chat_1"),
        "chat that is not there": lambda: log.list(owner="web", chat="chat_none"),
        "chat of all": lambda: log.list(chat="chat_1"),
        "failed": lambda: log.list(owner="web", reasons=["error", "deadline"], limit=5),
        "not failed": lambda: log.list(owner="web", reasons=["answer", "stopped"], limit=5),
        "not failed, next page": lambda: log.list(
            owner="web", reasons=["answer", "stopped"], before=MIDDLE, limit=5
        ),
        "model": lambda: log.list(owner="web", model="scripted/model", limit=5),
        "model of no run": lambda: log.list(owner="web", model="none", limit=5),
        "runs of chats": lambda: log.list(owner="web", in_chats=True, limit=5),
        "running of a chat": lambda: log.list(chat="chat_1", open=True),
        "claim": log.claim,
        "cut_off": log.cut_off,
        "status": lambda: log.status("run_00007"),
        "read": lambda: log.read("run_00007"),
        "follow": follow,
        "expire": lambda: log.expire(Retention(max_age=10**10)),
        "delete": lambda: log.delete("run_00008"),
    }


@pytest.mark.measures
async def test_the_cost_of_a_method_does_not_grow_with_the_stored_runs(
    watched: type[Watched], path: Path
) -> None:
    log = SQLiteLog(path)
    await fill(log)
    await kept(begin(log, "open", RUNS, owner="web"), STARTED)
    costs: dict[str, int] = {}
    for name, use in uses(log).items():
        before = watched.instructions
        await use()
        costs[name] = watched.instructions - before
    assert {name: cost for name, cost in costs.items() if cost > MAX_INSTRUCTIONS} == {}
    await log.aclose()


def fail_to_read(_: sqlite3.Connection) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


async def everything(log: SQLiteLog, other: SQLiteLog) -> None:
    """Uses every statement of the package."""
    for use in uses(log).values():
        await use()
    await log.list(chat="", limit=5)
    await log.list(owner="web", title="x", limit=5)
    await log.expire(Retention(max_runs=RUNS, max_bytes=10**9))
    assert await log.expire(Retention(max_runs=100)) > 0
    run = begin(log, "open", RUNS, owner="web")
    heard: list[Order] = []
    run.on_order = heard.append
    await kept(run, STARTED)
    await other.order("open", Order(kind="stop"))
    while not heard:
        await asyncio.sleep(0)
        await log._handle_orders()
    await log.orders("open")
    await kept(run, RunEnded("stopped"))
    await log._handle_orders()
    left = begin(other, "left", RUNS)
    await kept(left, STARTED)
    await other.aclose()
    assert [record.id for record in await log.claim()] == ["left"]
    await log.reopen("left")
    with pytest.raises(StorageError):
        await log._write(fail_to_read)
    await log.check()  # with a new connection
    assert await log.update_counter("budget web", lambda value: value + b"1") == b"1"
    assert await log.counter("budget web") == b"1"


def statements_of_the_package() -> Iterator[list[str]]:
    """The constant parts of each SQL statement in the source."""
    for file in Path(str(package.__file__)).parent.glob("*.py"):
        tree = ast.parse(file.read_text())
        within = {
            id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr)
            for part in each.values
        }  # fmt: skip
        for node in ast.walk(tree):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [
                " ".join(part.value.split())
                for part in parts
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            if texts and id(node) not in within and re.match(rf"({'|'.join(VERBS)}) ", texts[0]):
                yield texts


async def test_no_statement_reads_every_run_or_every_batch(
    watched: type[Watched], path: Path
) -> None:
    log = SQLiteLog(path)
    await log.list()
    watched.statements.clear()  # the statements that create the file
    await fill(log, 200)
    await everything(log, SQLiteLog(path))
    await log.aclose()
    executed = watched.statements
    unused = [
        parts
        for parts in statements_of_the_package()
        if not any(all(part in each for part in parts) for each in executed)
    ]
    assert unused == [], "their plans are not looked at"
    scans: dict[str, list[str]] = {}
    with opened(path) as connection:
        for statement in sorted(executed):
            if not statement.startswith(VERBS) or re.search("sqlite_schema|INTO room", statement):
                continue  # they have no table of ours
            values = {"run": "", "after": 0} if ":run" in statement else [1] * statement.count("?")
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            found = [row[3] for row in plan if re.match(r"SCAN (runs|batches)\b", row[3])]
            if found:
                scans[statement] = found
    found = {each for plans in scans.values() for each in plans}
    assert found == {IN_ORDER, ENDED_IN_ORDER, OPEN_ONES}
    bounded = ("ORDER BY number DESC LIMIT ?", "BY runs_open")
    assert [each for each in scans if not any(part in each for part in bounded)] == []


async def test_a_search_for_a_title_reads_an_index_and_not_the_runs(
    watched: type[Watched], path: Path
) -> None:
    log = SQLiteLog(path)
    await fill(log, 200)
    watched.statements.clear()
    assert await log.list(owner="web", title="none") == []
    await log.aclose()
    [statement] = (each for each in watched.statements if "instr" in each)
    with opened(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", ["web", "none", 5]).fetchall()
    assert "SEARCH runs USING COVERING INDEX runs_by_owner (owner=?)" in [row[3] for row in plan]


def data_of(text: str) -> bytes:
    return encoded([TextDelta(text, seq=1)])


async def test_a_file_of_an_older_version_gets_the_indexes(
    path: Path,
) -> None:
    with opened(path) as connection:  # as the second version made it
        for script in database.MIGRATIONS[:2]:
            connection.executescript(script)
        connection.execute("PRAGMA user_version = 2")
        connection.execute(f"PRAGMA application_id = {database.APPLICATION}")
        connection.executemany(
            "INSERT INTO runs (id, model, created, owner, chat, title, origin, keeper)"
            " VALUES (?, 'm', ?, 'web', 'chat_1', CAST(? AS TEXT), x'7B7D', 1)",
            [
                ("run_0", 0.0, "SCHÖN".encode()),
                ("run_1", 1.0, b"damaged \xff"),
                ("run_2", 2.0, b"t"),
            ],
        )
        connection.executemany(
            "INSERT INTO batches (run_id, first, last, data, ended, reason) VALUES (?,1,1,?,?,?)",
            [
                ("run_0", data_of("a"), 10.0, "answer"),
                ("run_1", data_of("b"), 20.0, "answer"),
                ("run_2", data_of("c"), None, None),
            ],
        )
    log = SQLiteLog(path)
    assert [each.id for each in await log.list(owner="web", open=True)] == ["run_2"]
    assert [each.id for each in await log.list(owner="web", title="schön")] == ["run_0"]
    assert [each.title for each in await log.list()] == ["t", "damaged \ufffd", "SCHÖN"]
    assert [each.id for each in await log.list(owner="web", model="m")] == [
        "run_2",
        "run_1",
        "run_0",
    ]
    assert [each.id for each in await log.list(chat="chat_1")] == ["run_2", "run_1", "run_0"]
    assert await log.expire(Retention(max_runs=1)) == 1
    assert [each.id for each in await log.claim()] == ["run_2"]
    assert [event.text for event in await log.read("run_1") if isinstance(event, TextDelta)] == [
        "b"
    ]
    await log.aclose()
    assert rows(path, "PRAGMA user_version") == [(len(database.MIGRATIONS),)]
    assert rows(path, "SELECT DISTINCT run_id FROM batches") == [("run_1",), ("run_2",)]


async def test_others_write_while_many_runs_expire(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    deleting = asyncio.Event()
    plainly = sqlite3.connect

    class Deleting(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            self.note(sql)
            return super().execute(sql, *values)

        def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
            self.note(sql)
            return super().executemany(sql, *values)

        def note(self, sql: str) -> None:
            if sql.startswith("DELETE FROM runs"):
                loop.call_soon_threadsafe(deleting.set)

    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **more: plainly(*given, factory=Deleting, **more)
    )
    log, other = SQLiteLog(path), SQLiteLog(path)
    await fill(log)
    expiry = asyncio.create_task(log.expire(Retention(max_runs=0)))
    await deleting.wait()
    here, there = begin(log, "here", RUNS), begin(other, "there", RUNS)
    await kept(here, STARTED)
    await kept(there, STARTED)
    assert not expiry.done()
    await kept(here, RunEnded("answer"))
    await kept(there, RunEnded("answer"))
    assert not expiry.done()
    assert await expiry == RUNS
    assert {each.id for each in await other.list()} == {"here", "there"}
    await other.aclose()
    await log.aclose()


async def test_a_step_of_an_expiry_is_small(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = database.delete_step, list[int]()

    def noted(connection: sqlite3.Connection, **given: Any) -> database.DeleteStep:
        assert not connection.in_transaction
        done = step(connection, **given)
        assert not connection.in_transaction, "other processes can write now"
        steps.append(done.runs)
        return done

    monkeypatch.setattr(log_module, "delete_step", noted)
    log = SQLiteLog(path)
    await fill(log, 450)
    assert await log.expire(Retention(max_runs=100)) == 350
    assert [count for count in steps if count] == [100, 100, 100, 50]
    assert [each.created for each in await log.list()] == [*range(449, 349, -1)]
    await log.aclose()
    assert rows(path, "PRAGMA freelist_count") == [(0,)]


async def large_run(log: SQLiteLog, events: int = 50) -> None:
    run = begin(log, "large")
    await kept(run, RunStarted("large", "m", ()))
    for _ in range(events):
        await kept(run, TextDelta("x" * 20_000))
    await kept(run, RunEnded("answer"))


async def test_a_large_run_is_deleted_in_many_steps_and_is_gone_from_the_first_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STEP_BYTES", 100_000)
    step, left = database.delete_step, list[int]()

    def noted(connection: sqlite3.Connection, **given: Any) -> database.DeleteStep:
        done = step(connection, **given)
        left.append(connection.execute("SELECT count(*) FROM batches").fetchone()[0])
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        return done

    monkeypatch.setattr(log_module, "delete_step", noted)
    log = SQLiteLog(path)
    await large_run(log)
    await log.delete("large")
    assert left[0] > 40
    assert left[-1] == 0
    assert all(before - after <= 6 for before, after in pairwise(left))
    assert rows(path, "SELECT * FROM deleted") == []
    await log.aclose()


async def test_many_large_runs_expire_in_steps_of_bounded_size(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STEP_BYTES", 100_000)
    step, left = database.delete_step, list[int]()

    def noted(connection: sqlite3.Connection, **given: Any) -> database.DeleteStep:
        done = step(connection, **given)
        left.append(connection.execute("SELECT count(*) FROM batches").fetchone()[0])
        return done

    monkeypatch.setattr(log_module, "delete_step", noted)
    log = SQLiteLog(path)
    for number in range(60):
        run = begin(log, f"run_{number}", float(number))
        await kept(run, TextDelta("x" * 20_000), RunEnded("answer"))
    assert await log.expire(Retention(max_runs=5)) == 55
    assert left[-1] == 5
    assert all(before - after <= 6 for before, after in pairwise([60, *left]))
    assert len(await log.list()) == 5
    await log.aclose()


async def test_a_deletion_that_was_interrupted_is_completed_by_the_next_expiry(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STEP_BYTES", 100_000)
    step = database.delete_step
    calls = 0

    def failing(connection: sqlite3.Connection, **given: Any) -> database.DeleteStep:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StorageError("the process ends here")
        return step(connection, **given)

    log = SQLiteLog(path)
    await large_run(log)
    with monkeypatch.context() as patch:
        patch.setattr(log_module, "delete_step", failing)
        with pytest.raises(StorageError, match="ends here"):
            await log.delete("large")
    await log.aclose()
    log = SQLiteLog(path)
    with pytest.raises(RunNotFound):
        await log.read("large")
    assert rows(path, "SELECT count(*) > 0 FROM batches") == [(1,)]
    assert await log.expire(Retention(max_age=10.0)) == 0
    assert rows(path, "SELECT count(*) FROM batches") == [(0,)]
    await log.aclose()


async def test_of_runs_that_ended_at_one_time_the_last_to_end_are_kept(
    path: Path, clock: Clock
) -> None:
    log = SQLiteLog(path, clock=clock)
    for number in (3, 1, 4, 2):
        await ended_run(log, f"run_{9 - number}", float(number))
    assert await log.expire(Retention(max_runs=2)) == 2
    assert [each.created for each in await log.list()] == [2.0, 4.0]
    await log.aclose()


async def test_a_clock_that_steps_back_expires_no_newer_runs(path: Path, clock: Clock) -> None:
    log = SQLiteLog(path, clock=clock)
    for number in (1, 2, 3):
        await ended_run(log, f"before_{number}", float(number))
    clock.now -= 86_400.0
    await ended_run(log, "after", clock.now)
    assert await log.expire(Retention(max_runs=2)) == 2
    assert [each.id for each in await log.list()] == ["after", "before_3"]
    await log.aclose()
