"""A gateway whose run log cannot be written for a while: its errors, and how its runs resume.

No test waits for time to pass: the disk is full until a test makes room.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_sqlite_faults import locked, make_room
from tests.support.asgi import post, request
from tests.support.broken_files import fill
from tests.support.restarting import Place, Places, content, data, names
from tests.support.serving import config_of
from tests.support.talking import Body, asking

from windlass import tool
from windlass.errors import StorageError
from windlass.events import ToolRunStarted
from windlass.gateway.config import ModelConfig
from windlass.runs.encoding import encoded
from windlass.runs.sqlite import SQLiteLog, database
from windlass.testing import Gate, call, slow

TEXT = "One two three."
FULL = "cannot write run log: database or disk is full"
AGAIN = "run log can be written again"
CONFIG = config_of(ModelConfig(name="m", target="scripted/model", tools=("fetch", "pay", "wait")))


class Tools:
    """`fetch` returns more than fits on the disk, `pay` must not begin then, `wait` waits."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

    def all(self) -> tuple[Any, ...]:
        @tool(idempotent=True)
        async def fetch() -> str:
            """Fetches."""
            await self.gate.wait()
            return "x" * 100_000

        @tool
        async def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return "paid"

        @tool
        async def wait() -> str:
            """Waits."""
            self.waiting.set()
            try:
                return await asyncio.Future[str]()
            finally:
                self.cancelled.set()

        return (fetch, pay, wait)


@pytest.fixture(autouse=True)
def tend_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.gateway.gateway.RESUME_SECONDS", 0.01)


@asynccontextmanager
async def tended(*places: Place) -> AsyncIterator[None]:
    """The gateways maintain their logs, as `windlass serve` does."""
    tasks = [asyncio.create_task(place.gateway.maintain_log()) for place in places]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def log_of(place: Place) -> SQLiteLog:
    assert place.gateway.service.control is not None
    log = place.gateway.service.log
    assert isinstance(log, SQLiteLog)
    return log


async def tool_begun(place: Place, run_id: str) -> None:
    await place.until(run_id, ToolRunStarted)


async def left_to_the_log(place: Place, run_id: str) -> None:
    """Waits until the run's task has ended."""
    while any(run.id == run_id for run in place.gateway.runs.all()):
        await asyncio.sleep(0)


async def stopped(place: Place, run_id: str) -> Body:
    answer = await post(place.app, {}, f"/v1/runs/{run_id}/stop")
    assert answer.status == 200, answer
    return answer.json


async def recovered(place: Place) -> None:
    while (await place.get("/health/ready")).status != 200:
        await asyncio.sleep(0)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if "run log" in each.message]


async def test_runs_resume_after_a_full_disk_and_its_start_and_end_are_logged(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    tools = Tools()
    place = places.open(
        lambda asked: TEXT if len(asked.messages) > 1 else call("fetch"),
        config=CONFIG,
        tools=tools.all(),
    )
    runs = [await place.start(f"Go {n}.", chat_id=f"c{n}") for n in range(4)]
    for run_id in runs:
        await tool_begun(place, run_id)
    assert (await place.get("/health/ready")).json == {"status": "ok"}
    async with tended(place):
        await fill(log_of(place))
        tools.gate.set()
        for run_id in runs:
            await left_to_the_log(place, run_id)
        ready = await place.get("/health/ready")
        assert (ready.status, ready.json) == (503, {"status": FULL})
        for path in ("/v1/runs", "/v1/chat/completions"):
            assert (await post(place.app, asking("x" * 100_000), path)).status == 500
        assert messages(caplog) == [FULL]
        first, *others = runs
        end = await stopped(place, first)
        assert (end["status"], end["stop_reason"]) == ("ended", "stopped")
        assert (await request(place.app, "DELETE", f"/v1/runs/{first}")).status == 409
        await make_room(log_of(place))
        for run_id in others:
            assert content(await place.ended(run_id)) == TEXT
        assert (await place.ended(first))["stop_reason"] == "stopped"
        await recovered(place)
    assert messages(caplog) == [FULL, AGAIN]
    for number, run_id in enumerate(runs):
        assert (await place.ask("And?", chat_id=f"c{number}"))["content"] == TEXT
        assert (await request(place.app, "DELETE", f"/v1/runs/{run_id}")).status == 200


async def test_a_stopped_run_starts_no_call_after_the_disk_has_room(places: Places) -> None:
    tools = Tools()
    place = places.open([call("fetch"), call("pay", amount=1)], config=CONFIG, tools=tools.all())
    run_id = await place.start()
    await tool_begun(place, run_id)
    await fill(log_of(place))
    tools.gate.set()
    await left_to_the_log(place, run_id)
    await stopped(place, run_id)
    await make_room(log_of(place))
    async with tended(place):
        assert (await place.ended(run_id))["stop_reason"] == "stopped"
    told = names(await place.events(run_id))
    assert told.count("tool_run_started") == told.count("tool_run_ended") == 1
    assert tools.paid == []


@pytest.mark.parametrize("how", ["killed", "told to end"])
async def test_a_run_stopped_on_a_full_disk_starts_no_call_after_a_restart(
    places: Places, how: str
) -> None:
    tools = Tools()
    before = places.open([call("fetch")], config=CONFIG, tools=tools.all())
    run_id = await before.start()
    await tool_begun(before, run_id)
    await fill(log_of(before))
    tools.gate.set()
    await left_to_the_log(before, run_id)
    await stopped(before, run_id)
    if how == "killed":
        await before.crash()
    else:
        await before.gateway.aclose()
    after = places.open([call("pay", amount=1)], config=CONFIG, tools=tools.all())
    await after.resume()
    assert (await after.ended(run_id))["stop_reason"] == "stopped"
    assert tools.paid == []
    assert after.model.requests == []


async def test_a_stop_that_cannot_be_stored_applies_and_is_stored_later(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools()
    place = places.open([call("fetch"), TEXT], config=CONFIG, tools=tools.all())
    run_id = await place.start()
    await tool_begun(place, run_id)
    await fill(log_of(place))
    tools.gate.set()
    await left_to_the_log(place, run_id)
    log = log_of(place)
    order = log.order

    async def refuse(*_: Any) -> bool:
        raise StorageError("the disk is full")

    monkeypatch.setattr(log, "order", refuse)
    assert (await stopped(place, run_id))["stop_reason"] == "stopped"
    assert (await place.show(run_id))["stop_reason"] == "stopped"
    monkeypatch.setattr(log, "order", order)
    await make_room(log)
    async with tended(place):
        assert (await place.ended(run_id))["stop_reason"] == "stopped"
    assert len(place.model.requests) == 1


async def test_a_run_stopped_while_its_log_fails_stays_stopped(
    places: Places, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    tools = Tools()
    place = places.open([call("wait"), TEXT], config=CONFIG, tools=tools.all())
    run_id = await place.start()
    await tools.waiting.wait()
    with locked(file):
        assert (await stopped(place, run_id))["stop_reason"] == "stopped"
    async with tended(place):
        assert (await place.ended(run_id))["stop_reason"] == "stopped"
    assert len(place.model.requests) == 1
    told = data(await place.events(run_id))
    [end] = [e for e in told if e["event"] == "tool_run_ended"]
    assert end["effect_unknown"]


async def test_a_tool_is_stopped_when_the_log_of_its_run_fails(places: Places, file: Path) -> None:
    tools = Tools()
    place = places.open([call("wait"), TEXT], config=CONFIG, tools=tools.all())
    run_id = await place.start()
    await tools.waiting.wait()
    [run] = place.gateway.runs.running()
    run.log.close(StorageError("the disk is full"))
    await tools.cancelled.wait()
    await left_to_the_log(place, run_id)
    async with tended(place):
        assert content(await place.ended(run_id)) == TEXT
    told = data(await place.events(run_id))
    [end] = [e for e in told if e["event"] == "tool_run_ended"]
    assert (end["outcome"], end["effect_unknown"]) == ("interrupted", True)


async def test_a_run_is_not_resumed_before_its_tool_has_ended(places: Places) -> None:
    ending, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Ends slowly."""
        try:
            return await asyncio.Future[str]()
        except asyncio.CancelledError:
            ending.set()
            await gate.wait()
            raise

    config = config_of(ModelConfig(name="m", target="scripted/model", tools=("wait",)))
    place = places.open([call("wait"), TEXT], config=config, tools=(wait,))
    run_id = await place.start()
    await tool_begun(place, run_id)
    [run] = place.gateway.runs.running()
    run.log.close(StorageError("the disk is full"))
    await ending.wait()
    assert await place.resume() == []
    gate.set()
    await left_to_the_log(place, run_id)
    [run] = await place.resume()
    assert run.id == run_id
    assert content(await place.ended(run_id)) == TEXT


async def test_a_completion_that_failed_with_its_log_ends_with_that_reason(places: Places) -> None:
    tools = Tools()
    place = places.open([call("fetch"), TEXT], config=CONFIG, tools=tools.all())
    waiting = asyncio.create_task(post(place.app, asking("Go.", chat_id="c")))
    while not place.gateway.runs.all():
        await asyncio.sleep(0)
    [run] = place.gateway.runs.all()
    await tool_begun(place, run.id)
    await fill(log_of(place))
    tools.gate.set()
    answer = await waiting
    assert (answer.status, answer.error["code"]) == (500, "storage_failed")
    await make_room(log_of(place))
    async with tended(place):
        shown = await place.ended(run.id)
    assert "the disk is full" in shown["error"]["message"]
    assert len(place.model.requests) == 1, "no client waits for its answer"
    assert (await place.ask("And?", chat_id="c"))["content"] == TEXT


async def test_runs_resume_after_a_file_was_locked_for_too_long(
    places: Places, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    gate = Gate()
    place = places.open([slow(TEXT, gate), TEXT])
    run_id = await place.start()
    await gate.reached.wait()
    async with tended(place):
        with locked(file):
            gate.open()
            await left_to_the_log(place, run_id)
            ready = await place.get("/health/ready")
            assert ready.json == {"status": "cannot write run log: database is locked"}
            end = await stopped(place, run_id)
            assert end["stop_reason"] == "stopped"
        assert (await place.ended(run_id))["stop_reason"] == "stopped"
        await recovered(place)
    assert messages(caplog) == ["cannot write run log: database is locked", AGAIN]


@pytest.mark.parametrize("what", ["events", "origin"])
async def test_a_damaged_run_is_ended_and_can_be_deleted(
    places: Places, file: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = places.open(slow(TEXT, Gate()))
    run_id, sound = await before.start(chat_id="c"), await before.start()
    await before.crash()
    with sqlite3.connect(file) as damaging:
        if what == "events":
            damaging.execute("UPDATE batches SET data = '[' WHERE run_id = ?", [run_id])
        else:
            damaging.execute("UPDATE runs SET origin = x'FF' WHERE id = ?", [run_id])
    damaging.close()
    after = places.open(TEXT)
    async with tended(after):
        assert content(await after.ended(sound)) == TEXT
        while (await after.show(run_id))["status"] == "running":
            await asyncio.sleep(0)
        shown = await after.show(run_id)
        assert (shown["status"], shown["stop_reason"]) == ("failed", "error")
        stop = await post(after.app, {}, f"/v1/runs/{run_id}/stop")
        assert stop.status == 200
        assert (await after.ask("And?", chat_id="c"))["content"] == TEXT
        assert (await request(after.app, "DELETE", f"/v1/runs/{run_id}")).status == 200
    said = [each for each in caplog.records if "Cannot resume run" in each.message]
    assert len(said) == (1 if what == "events" else 0)


async def test_an_event_that_cannot_be_written_ends_its_run_without_a_retry(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    @tool(idempotent=True)
    def odd() -> str:
        """Returns an odd value."""
        begun.append(1)
        return "odd"

    def picky(events: list[Any], **options: Any) -> bytes:
        if any(getattr(getattr(e, "response", None), "output", None) == "odd" for e in events):
            raise ValueError("odd")
        return encoded(events, **options)

    monkeypatch.setattr("windlass.runs.persisted_log.encoded", picky)
    config = config_of(ModelConfig(name="m", target="scripted/model", tools=("odd",)))
    place = places.open([call("odd"), TEXT], config=config, tools=(odd,))
    async with tended(place):
        run_id = await place.start()
        [run] = place.gateway.runs.running()
        await asyncio.wait([run.task])
        while run in place.gateway.runs.running():
            await asyncio.sleep(0)
        shown = await place.ended(run_id)
    assert "an event cannot be written as JSON" in shown["error"]["message"]
    assert len(begun) == 1
