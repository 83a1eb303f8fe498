"""Clients get `RunInterrupted` for a run whose process was killed and that no process resumes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.runs.conftest import Logs, MakeClient
from tests.runs.processes import Child
from tests.runs.test_killed_clients import tools_after
from tests.support.sample_runs import STARTED, begin, kept

from windlass import AsyncClient, Client
from windlass.errors import RunInterrupted
from windlass.events import RunEnded, RunEvent, RunResumed
from windlass.messaging.embedded import NatsServer
from windlass.runs import control
from windlass.runs.control import StoredEvents, StoredRun
from windlass.runs.event_log import MemoryLog
from windlass.runs.jetstream import JetStreamLog
from windlass.testing import ScriptedModel

pytestmark = pytest.mark.process


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a process counts as interrupted after a short time."""
    monkeypatch.setattr(control, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(control, "TAKEOVER_SECONDS", 0.1)


@pytest.fixture
async def killed(path: Path, tmp_path: Path) -> AsyncIterator[str]:
    """The id of a run whose process was killed in the middle of a tool."""
    with Child("client", path, tmp_path / "ledger", "retry") as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
        process.kill()
        yield run_id


@pytest.mark.usefixtures("soon")
async def test_the_result_of_an_interrupted_run_is_an_error_that_says_how_to_resume(
    client_on: MakeClient, killed: str
) -> None:
    run = await client_on().run(killed)
    assert isinstance(run, StoredRun)
    with pytest.raises(RunInterrupted, match=f"windlass runs resume {killed}"):
        await run.result()


@pytest.mark.usefixtures("soon")
async def test_a_reader_gets_every_event_of_an_interrupted_run_and_then_the_error(
    client_on: MakeClient, killed: str
) -> None:
    client, seen = client_on(), list[RunEvent]()
    with pytest.raises(RunInterrupted):
        async for event in client.subscribe(killed):
            seen.append(event)
    assert client.log is not None
    assert seen == await client.log.read(killed)


@pytest.mark.usefixtures("soon")
async def test_the_blocking_client_gets_the_error_too(path: Path, killed: str) -> None:
    def ask() -> None:
        with Client(ScriptedModel([]), log=path) as client:
            with pytest.raises(RunInterrupted):
                client.runs()[0].result()
            with pytest.raises(RunInterrupted):
                list(client.subscribe(killed))

    await asyncio.to_thread(ask)


@pytest.mark.usefixtures("soon")
async def test_a_stop_of_an_interrupted_run_is_stored_and_applied_when_it_is_resumed(
    client_on: MakeClient, killed: str, tmp_path: Path
) -> None:
    await client_on().stop(killed)
    [run] = await client_on(tools=tools_after(tmp_path / "ledger", "retry")).resume()
    assert (await run.result()).stop_reason == "stopped"


async def test_a_run_that_another_process_resumes_is_awaited(
    client_on: MakeClient, path: Path, tmp_path: Path
) -> None:
    with Child("client", path, tmp_path / "ledger", "retry") as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
        run = await client_on().run(run_id)
        waiter = asyncio.create_task(run.result())
        process.kill()
    await client_on(["Done."], tools=tools_after(tmp_path / "ledger", "retry")).resume()
    assert (await waiter).text == "Done."


@pytest.mark.usefixtures("soon")
async def test_a_run_that_waits_in_a_living_process_is_awaited(
    client_on: MakeClient, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: asyncio.Queue[bool] = asyncio.Queue()
    client = client_on()
    assert client.log is not None
    is_interrupted = client.log.is_interrupted

    async def look(run_id: str) -> bool:
        looks.put_nowait(await is_interrupted(run_id))
        return False

    monkeypatch.setattr(client.log, "is_interrupted", look)
    with Child("client", path, tmp_path / "ledger", "retry") as process:
        run_id = await process.hear()
        assert await process.hear() == "in the middle"
        waiter = asyncio.create_task((await client.run(run_id)).result())
        assert [await looks.get() for _ in range(5)] == [False] * 5
        assert not waiter.done()
        waiter.cancel()


async def test_a_run_of_a_living_process_is_not_interrupted(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    for log in logs:
        assert not await log.is_interrupted("run_1")
    await kept(run, RunEnded("answer"))
    for log in logs:
        assert not await log.is_interrupted("run_1")


async def test_a_run_that_its_process_has_left_is_interrupted(logs: Logs) -> None:
    run = begin(logs.log)
    await kept(run, STARTED)
    run.close()
    assert await logs.log.is_interrupted("run_1")
    if logs.other is not logs.log:
        await logs.log.aclose()
        assert await logs.other.is_interrupted("run_1")


@pytest.mark.usefixtures("soon")
async def test_in_a_fleet_too_an_interrupted_run_is_an_error_until_a_process_has_it() -> None:
    async with NatsServer() as server:
        first, second = JetStreamLog(server.url), JetStreamLog(server.url)
        await kept(begin(first), STARTED)
        await first.aclose()
        async with AsyncClient(ScriptedModel([]), log=second) as client:
            run = await client.run("run_1")
            with pytest.raises(RunInterrupted):
                await run.result()
            third = JetStreamLog(server.url)
            [record] = await third.claim()
            resumed = await third.reopen(record.id)
            await kept(resumed, RunResumed(1), RunEnded("stopped"))
            assert (await run.result()).stop_reason == "stopped"
            await third.aclose()


@pytest.mark.usefixtures("soon")
async def test_a_reader_that_is_woken_without_an_event_returns_nothing(logs: Logs) -> None:
    run: MemoryLog = begin(logs.log)
    await kept(run, STARTED)
    reader = StoredEvents(logs.other, "run_1", 1)
    waiting = asyncio.create_task(reader.some(3600.0))
    await asyncio.sleep(0)
    reader.wake()
    assert await waiting == []
    assert not reader.over


@pytest.mark.usefixtures("soon")
async def test_a_run_that_changes_its_process_again_and_again_is_not_interrupted(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: MemoryLog = begin(logs.log)
    await kept(run, STARTED)
    reader = StoredEvents(logs.other, "run_1", 1)
    checks = 0

    async def at_every_second_check(_: str) -> bool:
        nonlocal checks
        checks += 1
        return checks % 2 == 1

    monkeypatch.setattr(logs.other, "is_interrupted", at_every_second_check)
    while checks < 6:
        assert await reader.some(0.1) == []
