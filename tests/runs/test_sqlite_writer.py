"""The thread that writes for all runs: what is told of a commit, and to whom."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from windlass.events import RunEvent, RunStarted
from windlass.runs.records import RunRecord
from windlass.runs.sqlite.writer import Writer
from windlass.runs.stored import StoredLog


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    writer = Writer(tmp_path / "runs.db", "normal")
    yield writer
    await asyncio.to_thread(writer.close)


def log_of(writer: Writer, run_id: str) -> StoredLog:
    return StoredLog(run_id, writer, record=RunRecord(id=run_id, model="m", created=0.0))


async def written_in_one_commit(writer: Writer, *logs: StoredLog) -> None:
    """Says something in each log while the writer is held, and lets it go."""
    held = threading.Event()
    writer.call(lambda _: held.wait())
    for log in logs:
        log.append(RunStarted("r", "m", ()))
    await asyncio.sleep(0)  # what was said goes to the writer
    held.set()


async def test_what_a_listener_does_wrong_is_no_other_runs_trouble(writer: Writer) -> None:
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
