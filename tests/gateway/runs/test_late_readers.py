"""Late and slow readers of a run's events: each uses about one page of memory."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.restarting import Place, names
from tests.support.serving import config_of

from windlass.events import TextDelta
from windlass.gateway import App
from windlass.gateway.config import ModelConfig
from windlass.gateway.runs.lookup import FinishedRun
from windlass.runs.event_log import PAGE_BYTES
from windlass.runs.protocol import RunLog
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import Gate, Turn, slow

pytestmark = pytest.mark.measures

SERVED = config_of(ModelConfig(name="m", target="scripted/model"))
TOKENS = " ".join(f"token{number}" for number in range(20_000))
READERS = 20
LARGEST = 2 * PAGE_BYTES


@pytest.fixture(params=["memory", "sqlite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    log: RunLog | None = SQLiteLog(tmp_path / "runs.db") if request.param == "sqlite" else None
    place = Place(log, [Turn(text=TOKENS)], config=SERVED, tools=())
    yield place
    await place.gateway.aclose()


class SlowReader:
    """Receives the first part of a body, and the rest when the test continues."""

    def __init__(self, app: App, run_id: str, after: int = 0) -> None:
        self.parts: list[int] = []
        self.body = b""
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": f"/v1/runs/{run_id}/events",
            "raw_path": f"/v1/runs/{run_id}/events".encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1"), (b"last-event-id", str(after).encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self.task = asyncio.create_task(app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: Any) -> None:
        if message["type"] != "http.response.body":
            return
        self.parts.append(len(message["body"]))
        self.begun.set()
        await self.goes_on.wait()
        self.body += message["body"]


async def test_a_slow_reader_receives_events_in_pages(place: Place) -> None:
    run_id = await place.start()
    whole = await place.events(run_id)
    assert len(whole) > 10 * LARGEST
    for _ in range(2):  # while this process knows the run, and from the log alone
        reader = SlowReader(place.app, run_id)
        await reader.begun.wait()
        assert len(reader.parts) == 1
        reader.goes_on.set()
        await reader.task
        assert reader.body == whole
        assert max(reader.parts) <= LARGEST
        if place.gateway.service.control is not None:
            place.gateway.runs.forget(run_id)


async def test_a_reader_resumes_in_the_middle_of_a_page(place: Place) -> None:
    run_id = await place.start()
    whole = await place.events(run_id)
    reader = SlowReader(place.app, run_id, after=1_000)
    reader.goes_on.set()
    await reader.task
    assert whole.endswith(reader.body)
    assert reader.body.startswith(b"id: 1001\n")


async def test_late_readers_of_an_active_run_get_it_in_pages(tmp_path: Path) -> None:
    gate = Gate()
    log = SQLiteLog(tmp_path / "runs.db")
    place = Place(log, [slow(Turn(text=TOKENS), gate)], config=SERVED, tools=())
    run_id = await place.start()
    gate.open()
    await place.until(run_id, TextDelta)
    readers = [SlowReader(place.app, run_id) for _ in range(READERS)]
    for reader in readers:
        reader.goes_on.set()
        await reader.task
        assert max(reader.parts) <= LARGEST
        assert names(reader.body)[-1] == "run_ended"
    assert len({reader.body for reader in readers}) == 1
    await place.gateway.aclose()


async def test_the_memory_of_slow_readers_does_not_grow_with_the_backlog(place: Place) -> None:
    run_id = await place.start()
    whole = len(await place.events(run_id))
    while place.gateway.runs.running():
        await asyncio.sleep(0)
    first = SlowReader(place.app, run_id)
    await first.begun.wait()
    gc.collect()
    tracemalloc.start()
    try:
        readers = [SlowReader(place.app, run_id) for _ in range(READERS)]
        for reader in readers:
            await reader.begun.wait()
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / READERS
    finally:
        tracemalloc.stop()
    assert each < 2 * LARGEST < whole / 5
    for reader in (first, *readers):
        reader.task.cancel()


async def test_readers_of_a_finished_run_in_memory_share_its_events() -> None:
    place = Place(None, ["Hello there."], config=SERVED, tools=())
    run_id = await place.start()
    await place.ended(run_id)
    run = place.gateway.runs.get(run_id)
    assert isinstance(run, FinishedRun)
    followers = [run.follow(0), run.follow(2)]
    assert all(each is not None for each in followers)
    first, second = [[event async for event in each] for each in followers if each is not None]
    assert [event.seq for event in second] == [event.seq for event in first[2:]]
    assert all(one is other for one, other in zip(first[2:], second, strict=True))
    del followers, first, second
    gc.collect()
    assert run._shared is not None
    assert run._shared() is None, "nobody reads it"
    await place.gateway.aclose()
