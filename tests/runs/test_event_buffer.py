"""The events of a run in memory: many small pieces take little memory, and are read unchanged."""

import tracemalloc

import pytest
from msgspec.structs import replace
from tests.support.sample_runs import EVERY_KIND, STARTED

from windlass.events import RunEnded, RunEvent, TextDelta, ThoughtDelta, ToolCallDelta
from windlass.runs.buffer import BLOCK, LOOSE, EventBuffer
from windlass.runs.encoding import encoded
from windlass.runs.event_log import MemoryLog


def pieces(count: int) -> list[RunEvent]:
    """Pieces of calls, answers and thoughts, and among them every other kind of event."""
    events: list[RunEvent] = []
    while len(events) < count:
        number = len(events)
        events += (ToolCallDelta(number // 1_000 % 3, f"p{n}é") for n in range(700))
        events += (TextDelta(f"t{n}", about={"a": 1} if n % 50 == 0 else None) for n in range(200))
        events += (ThoughtDelta("") for _ in range(100))
        events += EVERY_KIND[:-1] if EVERY_KIND[-1].done else EVERY_KIND
    events = [event for event in events if not event.done][:count]
    return [replace(e, seq=n, time=1_000 + n / 7) for n, e in enumerate(events, 1)]


def test_every_event_is_read_back_as_it_was() -> None:
    events = pieces(5 * LOOSE + 37)
    buffer = EventBuffer(events)
    assert len(buffer) == len(events)
    assert list(buffer) == events
    assert buffer[:] == events
    assert list(buffer.recorded()) == events
    for place in (0, 1, BLOCK - 1, BLOCK, LOOSE, 3 * LOOSE - 1, len(events) - 1, -1, -len(events)):
        assert buffer[place] == buffer.recorded()[place] == events[place], place
    for start in (0, 5, BLOCK - 1, BLOCK, LOOSE + 3, 4 * LOOSE, len(events), len(events) + 5):
        assert buffer[start:] == buffer.recorded()[start:] == events[start:]
        assert buffer[start : start + 300] == events[start : start + 300]
        assert list(buffer.between(start, start + 2)) == events[start : start + 2]


def test_a_long_log_is_encoded_like_a_short_one() -> None:
    events = pieces(3 * LOOSE)
    assert encoded(EventBuffer(events).recorded()) == encoded(events)


def test_a_recorded_sequence_does_not_grow() -> None:
    events = pieces(4 * LOOSE)
    for known in (10, 2 * LOOSE + 1, 3 * LOOSE):
        buffer = EventBuffer(events[:known])
        recorded = buffer.recorded()
        reading = iter(recorded)
        read = [next(reading) for _ in range(10)]
        for event in events[known:]:
            buffer.append(event)
        assert [*read, *reading] == list(recorded) == events[:known]
        assert (len(recorded), recorded[-1]) == (known, events[known - 1])


@pytest.mark.measures
def test_many_small_pieces_of_a_call_take_little_room() -> None:
    """As objects, 100,000 of them take more than 15 MB."""
    log = MemoryLog()
    tracemalloc.start()
    try:
        for number in range(100_000):
            log.append(ToolCallDelta(0, f"{number:08}"))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 5_000_000


async def test_a_reader_gets_each_piece_when_it_comes_and_a_late_one_the_same() -> None:
    log = MemoryLog()
    reader, seen = log.follow(), list[RunEvent]()
    heard: list[RunEvent] = []
    log.listen(heard.append)
    for event in [STARTED, *pieces(3 * LOOSE), RunEnded("answer")]:
        log.append(event)
        seen.append(await anext(reader))
        assert heard[-1] is seen[-1], "it was not packed before it was read"
    assert [event async for event in log.follow()] == seen
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    late: list[RunEvent] = []
    log.listen(late.append, LOOSE)
    assert late == seen[LOOSE:]
