"""Readers take a log in pages: a slow reader holds no more than one page."""

import asyncio

from tests.runs.conftest import Logs
from tests.support.sample_runs import begin, kept

from windlass.events import RunEnded, RunEvent, RunStarted, TextDelta
from windlass.runs.encoding import encoded
from windlass.runs.event_log import PAGE_BYTES, PAGE_EVENTS, Follower, MemoryLog

LARGE = "x" * 1_000
MANY = 3 * PAGE_EVENTS


async def pages_of(follower: Follower) -> list[list[RunEvent]]:
    pages: list[list[RunEvent]] = []
    while not follower.over:
        if page := await follower.some(10.0):
            pages.append(page)
    return pages


def numbers(pages: list[list[RunEvent]]) -> list[int]:
    return [event.seq for page in pages for event in page]


async def written(logs: Logs, text: str) -> MemoryLog:
    """A long run whose events were written at once."""
    run = begin(logs.log)
    texts = [TextDelta(f"{number} {text}") for number in range(MANY)]
    await kept(run, RunStarted("run_1", "m", ()), *texts, RunEnded("answer"))
    return run


async def test_a_late_reader_gets_many_small_events_in_pages(logs: Logs) -> None:
    run = await written(logs, "small")
    for follower in (logs.other.follow("run_1"), run.follow()):
        pages = await pages_of(follower)
        assert numbers(pages) == [*range(1, MANY + 3)]
        assert max(map(len, pages)) <= 2 * PAGE_EVENTS, "about one page"


async def test_a_late_reader_gets_large_events_in_small_pages(logs: Logs) -> None:
    run = await written(logs, LARGE)
    pages = await pages_of(logs.other.follow("run_1"))
    assert numbers(pages) == [*range(1, MANY + 3)]
    shared = {id(event) for event in run.recorded()}
    for page in pages:  # all readers share these events
        own = [event for event in page if id(event) not in shared]
        assert len(encoded(own)) <= 3 * PAGE_BYTES


async def test_a_reader_resumes_within_a_page(logs: Logs) -> None:
    await written(logs, LARGE)
    for after in (1, 3, PAGE_EVENTS - 1, PAGE_EVENTS, PAGE_EVENTS + 1, MANY, MANY + 1):
        follower = logs.other.follow("run_1", after)
        assert numbers(await pages_of(follower)) == [*range(after + 1, MANY + 3)], after


async def test_an_event_that_is_larger_than_a_page_arrives(logs: Logs) -> None:
    run = begin(logs.log)
    large = [TextDelta("y" * (PAGE_BYTES + 1)), TextDelta("z" * (5 * PAGE_BYTES))]
    await kept(run, RunStarted("run_1", "m", ()), *large, RunEnded("answer"))
    events = [event async for event in logs.other.follow("run_1")]
    assert [len(event.text) for event in events if isinstance(event, TextDelta)] == [
        PAGE_BYTES + 1,
        5 * PAGE_BYTES,
    ]


async def test_many_late_readers_of_a_running_run_share_its_events(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, RunStarted("run_1", "m", ()), *[TextDelta("x")] * MANY)
    readers = [run.follow() for _ in range(3)]
    pages = await asyncio.gather(*(reader.some(1.0) for reader in readers))
    assert all(len(page) == PAGE_EVENTS for page in pages)
    assert all(one is other for one, other in zip(*pages[:2], strict=True))
    await kept(run, RunEnded("answer"))
    rest = await asyncio.gather(*map(pages_of, readers))
    assert all(numbers(each) == [*range(PAGE_EVENTS + 1, MANY + 3)] for each in rest)
