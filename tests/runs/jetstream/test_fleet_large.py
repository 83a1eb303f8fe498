"""Runs in a NATS server that accepts only small messages."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.mortal_nats import MortalNats
from tests.support.sample_runs import STARTED, kept, record

from windlass import AsyncClient, tool
from windlass.errors import StorageError
from windlass.events import RunEnded, TextDelta
from windlass.runs.jetstream import JetStreamLog, streams
from windlass.runs.jetstream.streams import PIECES
from windlass.runs.records import Order
from windlass.testing import ScriptedModel, call

pytestmark = pytest.mark.process

MAX_PAYLOAD = 64 * 1024
LARGE = "0123456789" * 30_000
"""Several messages of such a server."""
Open = Callable[[], JetStreamLog]


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[MortalNats]:
    async with MortalNats(tmp_path, MAX_PAYLOAD) as server:
        yield server


@pytest.fixture
async def open_log(small: MortalNats) -> AsyncIterator[Open]:
    made: list[JetStreamLog] = []

    def make() -> JetStreamLog:
        made.append(JetStreamLog(small.url))
        return made[-1]

    yield make
    for log in made:
        await log.aclose()


async def pieces(log: JetStreamLog) -> int:
    return len(await log._streams.all_messages(PIECES, "windlass.v1.pieces.>"))


async def test_a_large_event_is_read_as_it_was_written(open_log: Open) -> None:
    one, other = open_log(), open_log()
    run = one.begin(record("run_1"))
    await kept(run, STARTED, TextDelta(LARGE), RunEnded("answer"))
    for log in (one, other):
        events = await log.read("run_1")
        assert [type(event) for event in events] == [type(STARTED), TextDelta, RunEnded]
        assert isinstance(events[1], TextDelta)
        assert events[1].text == LARGE
    assert [event.seq async for event in other.follow("run_1")] == [1, 2, 3]
    assert await pieces(one) > 1


async def test_a_large_request_is_kept_in_the_run_s_record(open_log: Open) -> None:
    one, other = open_log(), open_log()
    run = one.begin(replace(record("run_1"), origin={"prompt": LARGE}))
    await kept(run, STARTED, RunEnded("answer"))
    assert (await other.status("run_1")).origin == {"prompt": LARGE}
    assert [found.origin for found in await other.list()] == [{"prompt": LARGE}]


async def test_a_large_order_reaches_the_run(open_log: Open) -> None:
    one, other = open_log(), open_log()
    run = one.begin(record("run_1"))
    await kept(run, STARTED)
    heard: list[Order] = []
    run.on_order = heard.append
    await other.order("run_1", Order(kind="approve", call_id="c", arguments={"text": LARGE}))
    await one._orders._poll_once()
    assert [order.arguments for order in heard] == [{"text": LARGE}]


async def test_a_deleted_run_leaves_no_pieces(open_log: Open) -> None:
    log = open_log()
    run = log.begin(record("run_1"))
    await kept(run, STARTED, TextDelta(LARGE), RunEnded("answer"))
    await log.delete("run_1")
    assert await pieces(log) == 0


async def test_missing_pieces_are_an_error_of_their_run_alone(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PIECES_SECONDS", 0.0)
    log = open_log()
    for run_id in ("run_1", "run_2"):
        run = log.begin(replace(record(run_id), origin={"prompt": LARGE}))
        await kept(run, STARTED, RunEnded("answer"))
    await log._streams.with_retries(
        lambda js: js.purge_stream(PIECES, subject="windlass.v1.pieces.run_1.>")
    )
    other = open_log()
    assert [found.id for found in await other.list()] == ["run_2"]
    with pytest.raises(StorageError, match="has only 0 of"):
        await other.status("run_1")


async def test_a_large_result_does_not_run_its_tool_again(small: MortalNats) -> None:
    times: list[int] = []

    @tool(idempotent=True)
    async def read() -> str:
        """Reads a large file."""
        times.append(1)
        return LARGE

    log = JetStreamLog(small.url)
    async with AsyncClient(ScriptedModel([call("read"), "Done."]), log=log) as client:
        reply = await client.generate(LARGE, tools=[read])
    await log.aclose()
    assert (reply.text, len(times)) == ("Done.", 1)
    assert reply.results[0].output == LARGE
