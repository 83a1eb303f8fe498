"""The writer thread of all runs: which commits it reports, and to which logs."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.content import FunctionResponse, Message, Usage
from windlass.errors import StorageError
from windlass.events import RoundStarted, RunEnded, RunEvent, RunStarted, ToolRunEnded
from windlass.runs import persisted_log as stored
from windlass.runs.encoding import encoded
from windlass.runs.persisted_log import StoredLog
from windlass.runs.records import RunRecord
from windlass.runs.sqlite.writer import Writer


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    writer = Writer(tmp_path / "runs.db", "normal")
    yield writer
    await asyncio.to_thread(writer.close)


def log_of(writer: Writer, run_id: str) -> StoredLog:
    return StoredLog(run_id, writer, record=RunRecord(id=run_id, model="m", created=0.0))


async def written_in_one_commit(writer: Writer, *logs: StoredLog) -> None:
    """Appends to each log while the writer is blocked, then releases it."""
    held = threading.Event()
    writer.call(lambda _: held.wait())
    for log in logs:
        log.append(RunStarted("r", "m", ()))
    await asyncio.sleep(0)  # the events go to the writer
    held.set()


async def test_a_failing_listener_does_not_affect_other_runs(writer: Writer) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    first, second = log_of(writer, "run_1"), log_of(writer, "run_2")

    def fail(event: RunEvent) -> None:
        raise RuntimeError("the listener is broken")

    first.listen(fail)
    await written_in_one_commit(writer, first, second)
    assert await anext(second.follow()) == second.recorded()[0]
    [problem] = problems
    assert str(problem["exception"]) == "the listener is broken"
    assert "run_1" in problem["message"]


async def test_an_event_loop_is_woken_once_for_all_runs_of_a_commit(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    logs = [log_of(writer, f"run_{number}") for number in range(50)]
    woken: list[Any] = []
    wake = loop.call_soon_threadsafe

    def counted(*arguments: Any, **options: Any) -> asyncio.Handle:
        woken.append(arguments)
        return wake(*arguments, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    await written_in_one_commit(writer, *logs)
    await asyncio.gather(*(anext(log.follow()) for log in logs))
    assert len(woken) == 1


async def test_large_events_are_encoded_off_the_event_loop_and_in_their_order(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded_in: list[tuple[bool, list[int]]] = []

    def noted(events: Sequence[RunEvent], **options: Any) -> bytes:
        on_loop = threading.current_thread() is threading.main_thread()
        encoded_in.append((on_loop, [event.seq for event in events]))
        return encoded(events, **options)

    monkeypatch.setattr(stored, "encoded", noted)
    log = log_of(writer, "run_1")
    large = Message.user("\n" * 200_000)
    log.append(RunStarted("run_1", "m", (large,)))
    await asyncio.sleep(0)  # it is being encoded now
    log.append(RoundStarted(1, "awaiting_model_call"))
    log.append(RunEnded("answer", Usage(), 1))
    events = [event async for event in log.follow()]
    assert [event.seq for event in events] == [1, 2, 3]
    assert encoded_in == [(False, [1]), (True, [2, 3])]
    kept = await asyncio.wrap_future(writer.call(_kept_data))
    assert msgspec.json.decode(kept, type=list[RunEvent]) == events


def _kept_data(connection: sqlite3.Connection) -> bytes:
    rows = connection.execute("SELECT data FROM batches ORDER BY first").fetchall()
    return b"[%b]" % b",".join(data[1:-1] for (data,) in rows)


async def test_a_large_event_that_cannot_be_written_closes_the_log(writer: Writer) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("it has no words")

    log = log_of(writer, "run_1")
    result = FunctionResponse("f", {"output": ["x" * 200_000, Broken()]}, "call_1")
    log.append(ToolRunEnded(result, "ok", 0.0))
    with pytest.raises(StorageError, match="it has no words"):
        await anext(log.follow())
