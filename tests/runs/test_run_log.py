"""Every log stores each event once, in order, for any reader, from any number."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.runs.conftest import Logs
from tests.support.sample_runs import (
    CALL,
    EVERY_KIND,
    STARTED,
    Clock,
    begin,
    ended_run,
    kept,
    odd_progress,
)
from tests.support.thoroughness import examples

from windlass.content import FunctionResponse
from windlass.events import (
    RunEnded,
    RunEvent,
    Status,
    TextDelta,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.runs.event_log import MemoryLog
from windlass.runs.memory import MemoryRunLog
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog

TEXT = TextDelta("a")
END = RunEnded("answer")


def numbers(events: list[RunEvent]) -> list[int]:
    return [event.seq for event in events]


async def followed(log: RunLog, run_id: str = "run_1", after: int = 0) -> list[RunEvent]:
    return [event async for event in log.follow(run_id, after)]


async def test_events_are_numbered_from_one_and_stamped_by_the_clock(
    logs: Logs, clock: Clock
) -> None:
    run = begin(logs.log)
    await kept(run, STARTED, TEXT)
    clock.now = 1_001.5
    await kept(run, TEXT, END)
    events = await logs.other.read("run_1")
    assert numbers(events) == [1, 2, 3, 4]
    assert [event.time for event in events] == [1_000.0, 1_000.0, 1_001.5, 1_001.5]


def test_the_samples_are_of_every_kind() -> None:
    assert {type(event) for event in EVERY_KIND} == set(get_args(RunEvent))


async def test_every_kind_of_event_is_read_back_as_it_was_written(logs: Logs) -> None:
    await kept(begin(logs.log), *EVERY_KIND)
    written = [replace(event, seq=n, time=1_000.0) for n, event in enumerate(EVERY_KIND, 1)]
    assert await logs.log.read("run_1") == written
    assert await logs.other.read("run_1") == written
    assert await followed(logs.other) == written


async def test_a_big_result_is_kept_whole(logs: Logs) -> None:
    result = FunctionResponse("read", {"output": "0123456789" * 500_000}, "a")
    await kept(begin(logs.log), STARTED, ToolRunEnded(result, "ok"), END)
    [_, event, _] = await logs.other.read("run_1")
    assert isinstance(event, ToolRunEnded)
    assert event.response == result


@pytest.mark.parametrize("number", range(len(odd_progress())))
async def test_unusual_data_in_a_progress_report_does_not_break_other_events(
    logs: Logs, number: int
) -> None:
    odd = ToolRunProgress("a", "f", data=odd_progress()[number])
    await kept(begin(logs.log), STARTED, TEXT, odd, TEXT, END)
    events = await logs.other.read("run_1")
    assert [type(event) for event in events] == [
        type(STARTED),
        TextDelta,
        ToolRunProgress,
        TextDelta,
        RunEnded,
    ]
    assert (await logs.other.status("run_1")).reason == "answer"


async def test_an_invalid_character_does_not_break_the_log(logs: Logs) -> None:
    half = "name \ud83d"
    run = begin(logs.log, title=half, origin={"extra": {"x": half}})
    await kept(run, STARTED, TextDelta(half), RunEnded("error", error=half))
    events = await logs.other.read("run_1")
    assert numbers(events) == [1, 2, 3]
    assert isinstance(events[1], TextDelta)
    assert events[1].text[:5] == "name "
    found = await logs.other.status("run_1")
    assert found.title[:5] == "name "
    assert str(found.error)[:5] == "name "
    await ended_run(logs.log, "run_2")  # and its writer can still write
    assert len(await logs.other.read("run_2")) == 3


async def test_nothing_comes_after_the_last_event(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED, END, TEXT, RunEnded("error", error="late"))
    run.append(TEXT)
    await kept(run)
    assert numbers(await logs.other.read("run_1")) == [1, 2]
    assert (await logs.other.status("run_1")).reason == "answer"


async def test_a_log_is_read_from_any_number(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED, TEXT)
    await kept(run, TEXT, TEXT, TEXT)
    await kept(run, END)
    for after in range(8):
        assert numbers(await logs.other.read("run_1", after)) == list(range(after + 1, 7))


async def test_reading_in_pages_gets_every_event_once(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED, *[TEXT] * 9)
    for _ in range(5):
        await kept(run, TEXT)
    await kept(run, TEXT, END)
    got: list[RunEvent] = []
    while events := await logs.other.read("run_1", len(got), 2):
        assert len(events) <= 11
        got += events
    assert numbers(got) == list(range(1, 18))


async def test_a_reader_gets_each_event_as_it_arrives(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    readers = [logs.log.follow("run_1"), logs.other.follow("run_1")]
    for number, event in enumerate([TEXT, Status("s"), TurnEnded("stop"), END], 1):
        got = await asyncio.gather(*(anext(reader) for reader in readers))
        assert [each.seq for each in got] == [number, number]
        await kept(run, event)
    for reader in readers:
        assert (await anext(reader)).done
        assert reader.over
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


async def test_a_late_reader_gets_all_and_ends(logs: Logs) -> None:
    await ended_run(logs.log)
    for log in logs:
        assert numbers(await followed(log)) == [1, 2, 3]
        assert numbers(await followed(log, after=2)) == [3]


@pytest.mark.parametrize("after", [3, 4, 100])
async def test_a_reader_at_the_end_of_an_ended_run_does_not_wait(logs: Logs, after: int) -> None:
    await ended_run(logs.log)
    for log in logs:
        assert await followed(log, after=after) == []
        reader = log.follow("run_1", after)
        assert await reader.some(3_600) == []
        assert reader.over


async def test_a_reader_may_wait_for_a_while_only(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED, TEXT)
    for log in logs:
        reader = log.follow("run_1")
        assert numbers(await reader.some(3_600)) == [1, 2]
        assert await reader.some(0) == []
        assert not reader.over
        waiting = asyncio.ensure_future(reader.some(3_600))
        await asyncio.sleep(0)
        reader.wake()
        assert await waiting == []
        assert not reader.over


async def test_a_waiting_reader_handles_events_in_the_step_that_publishes_them() -> None:
    log = MemoryLog()
    log.extend([STARTED, TEXT])
    reader, ahead = log.follow(2), log.follow(3)
    taken: list[RunEvent] = []
    too_early: list[RunEvent] = []

    def take(events: Sequence[RunEvent]) -> bool:
        if not all(isinstance(event, TextDelta) for event in events):
            return False
        taken.extend(events)
        return True

    def take_ahead(events: Sequence[RunEvent]) -> bool:
        too_early.extend(events)
        return True

    waiting = asyncio.ensure_future(reader.some(3_600, take))
    waiting_ahead = asyncio.ensure_future(ahead.some(3_600, take_ahead))
    await asyncio.sleep(0)
    log.append(TEXT)
    assert numbers(taken) == [3]
    assert await waiting_ahead == []
    log.extend([TEXT, TEXT])
    log.append(END)
    assert numbers(taken) == [3, 4, 5]
    assert not waiting.done()
    assert numbers(await waiting) == [6]
    assert reader.over
    assert too_early == []


async def test_an_error_of_a_reader_is_raised_to_it_alone() -> None:
    log = MemoryLog()
    log.append(STARTED)
    reader, other = log.follow(1), log.follow(1)

    def fail(events: Sequence[RunEvent]) -> bool:
        raise OSError("lost")

    waiting = asyncio.ensure_future(reader.some(3_600, fail))
    others = asyncio.ensure_future(other.some(3_600))
    await asyncio.sleep(0)
    log.append(TEXT)
    with pytest.raises(OSError, match="lost"):
        await waiting
    assert numbers(await others) == [2]


async def test_a_reader_that_gives_up_takes_nothing_from_the_others(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    for number, log in enumerate(logs, 1):
        impatient, patient = log.follow("run_1", number), log.follow("run_1", number - 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(impatient)
        assert (await anext(patient)).seq == number
        waiting = asyncio.ensure_future(anext(impatient))
        await kept(run, TEXT)
        assert (await waiting).seq == number + 1


MIDDLE = [TEXT, Status("s"), ToolRunStarted(CALL, 1), TurnEnded("stop"), TextDelta("ü" * 300)]


@pytest.mark.parametrize("make", [MemoryRunLog, SQLiteLog])
@settings(max_examples=examples(25), deadline=None)
@given(
    events=st.lists(st.sampled_from(MIDDLE), max_size=25),
    readers=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 25), st.booleans()), max_size=4),
    pauses=st.sets(st.integers(0, 25)),
)
def test_a_reader_from_any_number_at_any_time_gets_each_event_once_and_in_order(
    make: Callable[..., Any],
    events: list[RunEvent],
    readers: list[tuple[int, int, bool]],
    pauses: set[int],
) -> None:
    whole = [STARTED, *events, END]

    async def go(folder: str) -> None:
        path = Path(folder, "runs.db")
        log = make(path) if make is SQLiteLog else make()
        other = SQLiteLog(path) if make is SQLiteLog else log
        run = begin(log)
        await kept(run, whole[0])
        following: list[tuple[int, asyncio.Task[list[RunEvent]]]] = []

        def join(now: int) -> None:
            for after, position, elsewhere in readers:
                if position == now:
                    reading = followed(other if elsewhere else log, after=after)
                    following.append((after, asyncio.ensure_future(reading)))

        for position, event in enumerate(whole[1:]):
            join(position)
            run.append(event)
            if position in pauses:
                await kept(run)
        await kept(run)
        for position in range(len(whole) - 1, 26):
            join(position)
        assert len(following) == len(readers)
        for after, reading in following:
            assert numbers(await reading) == list(range(after + 1, len(whole) + 1))
        assert [replace(e, seq=0, time=0.0) for e in await other.read("run_1")] == whole
        await log.aclose()
        await other.aclose()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(go(folder))
