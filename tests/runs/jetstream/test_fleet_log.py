"""The log of a fleet: the owner of a run, incomplete writes and lost servers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.support.mortal_nats import MortalNats
from tests.support.sample_runs import STARTED, begin, ended_run, kept, record

from windlass.errors import ConfigError, RunNotFound, StorageError
from windlass.events import RunEnded, RunResumed, TextDelta
from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection
from windlass.runs.active_runs import RunStore
from windlass.runs.event_log import Follower
from windlass.runs.jetstream import JetStreamLog, streams
from windlass.runs.jetstream import log as jetstream_log
from windlass.runs.jetstream.log import RunWriter
from windlass.runs.jetstream.streams import Append
from windlass.runs.persisted_log import Batch
from windlass.runs.records import Order

pytestmark = pytest.mark.process

TEXT, END = TextDelta("a"), RunEnded("answer")
Open = Callable[[], JetStreamLog]


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[MortalNats]:
    async with MortalNats(tmp_path) as server:
        yield server


@pytest.fixture
async def open_log(mortal: MortalNats) -> AsyncIterator[Open]:
    """Logs that act like those of several processes."""
    made: list[JetStreamLog] = []

    def make() -> JetStreamLog:
        made.append(JetStreamLog(mortal.url))
        return made[-1]

    yield make
    for log in made:
        await log.aclose()


async def die(log: JetStreamLog) -> None:
    """Simulates an exited process: it sends nothing more, and its runs stay as they are."""
    log._left.clear()
    for run in list(log._live.values()):
        run.close()
    log._left.clear()
    await log._leases.leave()


async def claimed(log: JetStreamLog) -> list[str]:
    return [record.id for record in await log.claim()]


@pytest.mark.usefixtures("short_grace")
async def test_a_run_of_an_exited_process_is_claimed_once(open_log: Open) -> None:
    one, *others = [open_log() for _ in range(4)]
    await kept(begin(one), STARTED, TEXT)
    await die(one)
    found = await asyncio.gather(*map(claimed, others))
    assert sorted(found) == [[], [], ["run_1"]]


async def test_a_process_without_a_lease_that_answers_keeps_its_runs(open_log: Open) -> None:
    """Simulates JetStream being unreachable for longer than a lease."""
    one, other = open_log(), open_log()
    await kept(begin(one), STARTED, TEXT)
    await one._streams.leases.drop(one.process_name)
    assert await claimed(other) == []


async def test_a_process_that_ends_in_order_leaves_its_runs_at_once(open_log: Open) -> None:
    one, other = open_log(), open_log()
    await kept(begin(one), STARTED, TEXT)
    await one.aclose()
    entry = await other._streams.open_runs.get("run_1")
    assert entry is not None
    assert entry.value == b""
    assert await claimed(other) == ["run_1"]


@pytest.mark.usefixtures("short_grace")
async def test_a_run_without_events_does_not_block_other_runs_and_is_deleted_later(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_log(), open_log()
    await one.live()
    for run_id in ("run_a", "run_b"):
        await one._streams.open_runs.put(run_id, one.process_name.encode())
    await one._streams.records.put("run_b", encode_json(record("run_b", 1.0)))
    await kept(begin(one, "run_c"), STARTED, TEXT)
    await die(one)
    assert await claimed(other) == ["run_c"]
    for run_id in ("run_a", "run_b"):
        with pytest.raises(RunNotFound):
            await other.status(run_id)
    assert [record.id for record in await other.list()] == ["run_c"]
    assert len(await other._streams.open_runs.all()) == 3
    monkeypatch.setattr(jetstream_log, "UNSTARTED_SECONDS", 0.0)
    assert await claimed(other) == []
    assert list(await other._streams.open_runs.all()) == ["run_c"]
    assert list(await other._streams.records.all()) == ["run_c"]


@pytest.mark.usefixtures("short_grace")
async def test_a_run_of_this_process_that_is_not_active_is_claimed_again(open_log: Open) -> None:
    """The answer to the first claim was lost, or what came after it failed."""
    one, other = open_log(), open_log()
    await kept(begin(one), STARTED, TEXT)
    await die(one)
    await other._streams.open_runs.put("run_1", other.process_name.encode())
    assert await claimed(other) == ["run_1"]
    assert await claimed(other) == []  # it is about to continue
    run = await other.reopen("run_1")
    assert await claimed(other) == []
    run.close(StorageError("the log is away"))
    assert await claimed(other) == ["run_1"]


async def test_an_entry_of_another_process_is_not_taken_for_our_own(
    open_log: Open,
) -> None:
    one, other = open_log(), open_log()
    run = begin(one)
    await kept(run, STARTED)
    taken = await other.reopen("run_1")
    await kept(taken, RunResumed(1))
    with pytest.raises(StorageError, match="taken over run run_1"):
        await kept(run, TEXT)
    assert [type(event) for event in await other.read("run_1")] == [type(STARTED), RunResumed]
    assert run.closed


async def test_a_batch_whose_answer_was_lost_is_written_once(open_log: Open) -> None:
    """It is sent again: JetStream refuses it, since another message is the last one now."""
    log = open_log()
    first = Append("run_1", b"[]", after=0, size=2, id="a")
    number = await log._streams.append(first)
    assert await log._streams.append(first) == number
    second = Append("run_1", b"[]", after=number, size=4, id="b")
    assert await log._streams.append(second) == number + 1
    with pytest.raises(StorageError, match="taken over run run_1"):
        await log._streams.append(first)


async def test_nothing_is_written_after_a_missing_event() -> None:
    written: list[str] = []
    told: list[StorageError | None] = []

    async def write(_: Batch, append: Append) -> int:
        written.append(append.id)
        raise StorageError("JetStream does not answer")

    writer = RunWriter("run_1", write)

    def tell(batch: Batch, failure: StorageError | None) -> None:
        told.append(failure)

    for number in (1, 2):
        event = TextDelta("a", seq=number)
        writer.put(Batch("run_1", [event], b"[]", tell, asyncio.get_running_loop()))
    assert writer._task is not None
    await writer._task
    assert len(written) == 1
    assert [str(failure) for failure in told] == ["JetStream does not answer"]


async def test_a_run_and_its_readers_outlive_their_server(
    mortal: MortalNats, open_log: Open
) -> None:
    one, other = open_log(), open_log()
    run = begin(one)
    await kept(run, STARTED)
    reader = other.follow("run_1")
    assert (await anext(reader)).seq == 1
    await mortal.kill()
    run.append(TEXT)
    reading = asyncio.create_task(_rest(reader))
    await mortal.come_back()
    await kept(run, TEXT, END)
    assert await reading == [2, 3, 4]
    assert [event.seq for event in await other.read("run_1")] == [1, 2, 3, 4]
    assert await claimed(other) == []


async def test_a_run_whose_server_was_away_for_too_long_is_resumed(
    mortal: MortalNats, open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    run = begin(log)
    await kept(run, STARTED)
    monkeypatch.setattr(streams, "RETRY_SECONDS", 0.0)
    await mortal.kill()
    with pytest.raises(StorageError):
        await kept(run, TEXT)
    monkeypatch.undo()
    await mortal.come_back()
    assert await claimed(log) == ["run_1"]
    await kept(await log.reopen("run_1"), RunResumed(1), END)
    assert [event.seq for event in await log.read("run_1")] in ([1, 2, 3], [1, 2, 3, 4])


@pytest.mark.usefixtures("short_grace")
async def test_an_unread_order_waits_for_the_process_that_resumes_the_run(
    open_log: Open,
) -> None:
    one, other, asking = open_log(), open_log(), open_log()
    await kept(begin(one), STARTED)
    await die(one)
    await asking.order("run_1", Order(kind="stop"))
    assert await claimed(other) == ["run_1"]
    run = await other.reopen("run_1")
    obeyed: asyncio.Queue[Order] = asyncio.Queue()
    run.on_order = obeyed.put_nowait
    assert (await obeyed.get()).kind == "stop"
    await kept(run, END)
    assert await other._streams.orders.all() == {}


async def test_a_late_order_is_removed(open_log: Open) -> None:
    one, asking = open_log(), open_log()
    await kept(begin(one, "run_1"), STARTED)
    await ended_run(one, "run_2")
    for run_id in ("run_1", "run_2"):
        await asking._orders.give(run_id, Order(kind="stop"))
    await asking._orders.clean_up()
    left = await asking._streams.orders.all()
    assert [key.partition(".")[0] for key in left] == ["run_1"]


async def test_a_server_that_is_too_old_is_an_error_that_reports_it(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "version", (2, 10))
    with pytest.raises(ConfigError, match=r"NATS 2\.11 or later, but the server is 2\.10"):
        await open_log().list()


async def test_a_run_that_was_resumed_is_not_forgotten_with_its_predecessor() -> None:
    class Going:
        def __init__(self) -> None:
            self.id = "run_1"
            self.end = asyncio.Event()
            self.task = asyncio.create_task(self._go())

        async def _go(self) -> None:
            await self.end.wait()

    store = RunStore[Going, Going]()
    lost, again = Going(), Going()
    store.add(lost)
    store.add(again)
    lost.end.set()
    await lost.task
    store.forget("run_1")
    assert store.get("run_1") is again
    again.end.set()
    await again.task
    store.forget("run_1")
    assert store.all() == []


async def test_many_runs_are_listed_and_nothing_is_left_of_those_that_are_deleted(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page."""
    monkeypatch.setattr(streams, "PAGE_MESSAGES", 16)
    log = open_log()
    names = [f"run_{number}" for number in range(40)]
    await asyncio.gather(*(ended_run(log, name) for name in names))
    assert {record.id for record in await log.list()} == set(names)
    await log.delete("run_7")
    assert len(await log.list()) == 39
    assert await log._streams.open_runs.all() == {}
    assert len(await log._streams.records.all()) == 39


async def _rest(reader: Follower) -> list[int]:
    return [event.seq async for event in reader]
