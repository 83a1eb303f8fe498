"""Runs of clients stay in the memory of their process until another process looks for them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEnded, RunStarted, TextDelta
from windlass.gateway.processes.shared_runs import MAX_ID_CHARS, SharedRuns
from windlass.loop.policy import Policy
from windlass.runs.event_log import MemoryLog
from windlass.runs.origin import Origin
from windlass.runs.records import Order, RunRecord


class UnstoredRun:
    """A run in the memory of one process."""

    def __init__(self, run_id: str, created: float = 1.0) -> None:
        self.id, self.in_memory, self.events = run_id, True, MemoryLog()
        origin = Origin(kind="gateway", policy=Policy(), needs_client=True)
        self._record = RunRecord(id=run_id, model="m", created=created, origin=origin.stored())
        self.events.append(RunStarted(run_id, "m", ()))

    def content(self) -> tuple[RunRecord, MemoryLog]:
        return self._record, self.events


class Process:
    """One process: its runs in memory, and its view of the file that all processes share."""

    def __init__(self, path: Path, all_processes: "list[Process]") -> None:
        self.on_search: Callable[[str], Awaitable[object]] | None = None
        self._all = all_processes
        self.searches: list[str] = []
        self.runs: list[UnstoredRun] = []
        self.log = SharedRuns(
            path, self, lambda wanted: [run for run in self.runs if wanted in ("", run.id)]
        )

    async def search(self, run_id: str) -> None:
        self.searches.append(run_id)
        for other in self._all:
            if other is not self and other.on_search is not None:
                await other.on_search(run_id)


@asynccontextmanager
async def two_processes(folder: Path) -> AsyncGenerator[tuple[Process, Process]]:
    processes: list[Process] = []
    processes += [Process(folder / "runs.db", processes) for _ in range(2)]
    here, elsewhere = processes
    yield here, elsewhere
    await asyncio.gather(*(process.log.aclose() for process in processes))


async def test_a_run_is_stored_when_another_process_looks_for_it(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        run, other = UnstoredRun("run_a"), UnstoredRun("run_b")
        here.runs = [run, other]
        run.events.extend([TextDelta("a"), TextDelta("b")])
        run.events.append(RunEnded("answer"))
        found = await elsewhere.log.status("run_a")
        assert (found.reason, found.events, found.model) == ("answer", 4, "m")
        assert await elsewhere.log.read("run_a") == list(run.events.recorded())
        assert (run.in_memory, other.in_memory) == (False, True)
        assert (await elsewhere.log.status("run_a")).events == 4
        assert elsewhere.searches == ["run_a"], "the second time, the file has it"


async def test_a_run_that_could_not_be_stored_is_stored_by_the_next_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        run = UnstoredRun("run_a")
        run.events.append(RunEnded("answer"))
        here.runs = [run]

        async def fail(*_: object) -> None:
            raise StorageError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(here.log, "store", fail)
            with pytest.raises(RunNotFound):
                await elsewhere.log.status("run_a")
        assert run.in_memory
        assert (await elsewhere.log.status("run_a")).reason == "answer"


async def test_an_active_run_is_followed_and_stopped_from_another_process(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        run = UnstoredRun("run_a")
        orders: list[Order] = []
        run.events.on_order = orders.append
        here.runs = [run]
        assert (await elsewhere.log.status("run_a")).ended is None
        follower = elsewhere.log.follow("run_a", 1)
        run.events.append(TextDelta("a"))
        assert await follower.some(30.0) == [
            TextDelta("a", seq=2, time=run.events.recorded()[1].time)
        ]
        assert await elsewhere.log.order("run_a", Order(kind="stop"))
        while not orders:
            await asyncio.sleep(0.01)
        run.events.append(RunEnded("stopped"))
        [end] = await follower.some(30.0)
        assert isinstance(end, RunEnded)
        assert follower.over


async def test_a_list_has_the_runs_of_all_processes_in_the_order_of_their_starts(
    tmp_path: Path,
) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        here.runs = [UnstoredRun("run_1", 1.0), UnstoredRun("run_3", 3.0)]
        elsewhere.runs = [UnstoredRun("run_2", 2.0), UnstoredRun("run_4", 4.0)]
        found = await elsewhere.log.list(limit=3)
        assert [record.id for record in found] == ["run_4", "run_3", "run_2"]
        assert elsewhere.searches == [""]
        rest = await elsewhere.log.list(limit=3, before=found[-1])
        assert [record.id for record in rest] == ["run_1"]
        await elsewhere.log.list(chat="chat_a")
        assert elsewhere.searches == [""], "runs of chats are stored at their start"


async def test_two_searches_at_once_store_a_run_once(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        here.runs = [UnstoredRun("run_a")]
        records = await asyncio.gather(
            here.log.status("run_a"), *(elsewhere.log.status("run_a") for _ in range(3))
        )
        assert {record.id for record in records} == {"run_a"}


async def test_an_unknown_run_is_searched_in_all_processes_and_not_found(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        with pytest.raises(RunNotFound):
            await here.log.status("run_x")
        with pytest.raises(RunNotFound):
            await here.log.status("x" * (MAX_ID_CHARS + 1))
        assert here.searches == ["run_x"]
        assert elsewhere.searches == []


async def test_a_run_that_can_be_resumed_is_stored_at_once(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, elsewhere):
        record, _ = UnstoredRun("run_a").content()
        events = here.log.begin(replace(record, created=2.0))
        events.append(RunStarted("run_a", "m", ()))
        assert events.settled is not None
        await events.settled()
        assert (await elsewhere.log.status("run_a")).created == 2.0
        assert elsewhere.searches == []
