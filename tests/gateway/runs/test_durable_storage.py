"""The gateway's file of runs: when it fails, when it is damaged, and what is deleted."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.asgi import post, request
from tests.support.restarting import SERVED, Place, Places, content, names
from tests.support.talking import asking

from windlass.errors import RunNotFound, StorageError
from windlass.events import RunStarted
from windlass.gateway.config import RunsConfig
from windlass.gateway.runs.storage import expire
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import Gate, call, slow

TEXT = "One two three."

streaming = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def test_a_lasting_error_of_resuming_runs_is_logged_once(
    places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = places.open().gateway
    failures = [StorageError("full"), StorageError("full"), RuntimeError("full"), None]
    over = asyncio.Event()

    async def resume_interrupted() -> list[object]:
        if not failures:
            over.set()
            return []
        if (failure := failures.pop(0)) is not None:
            raise failure
        failures.append(StorageError("full"))  # it works, and then fails again
        return []

    monkeypatch.setattr(gateway, "_resume_interrupted", resume_interrupted)
    monkeypatch.setattr("windlass.gateway.gateway.RESUME_SECONDS", 0.0)
    maintaining = asyncio.create_task(gateway.maintain_log())
    await over.wait()
    maintaining.cancel()
    said = [
        bool(each.exc_info)
        for each in caplog.records
        if "Cannot resume interrupted" in each.message
    ]
    assert said == [False, True, False]


@streaming
async def test_a_file_that_cannot_be_written_is_an_error_and_not_a_hang(
    tmp_path: Path, stream: bool
) -> None:
    (tmp_path / "file").write_text("in the way")
    place = Place(SQLiteLog(tmp_path / "file" / "runs.db"), [TEXT, TEXT])
    for path in ("/v1/runs", "/v1/chat/completions"):
        answer = await post(place.app, asking("Go.", stream=stream), path)
        assert (answer.status, answer.error["code"]) == (500, "storage_failed")
        assert "file" not in answer.error["message"]
    assert place.model.requests == [], "nothing is asked that could not be written down"
    await place.gateway.aclose()


@streaming
async def test_a_file_that_fails_during_an_answer_ends_it_with_an_error(
    places: Places, file: Path, stream: bool
) -> None:
    gate = Gate()
    place = places.open([call("lookup", city="Rome"), slow(TEXT, gate)])
    waiting = asyncio.create_task(post(place.app, asking("Go.", stream=stream)))
    await gate.reached.wait()
    [run] = place.gateway.runs.running()
    reading = asyncio.create_task(place.events(run.id))
    with sqlite3.connect(file) as breaking:
        breaking.execute("DROP TABLE batches")
    breaking.close()
    gate.open()
    answer = await waiting
    assert b'"storage_failed"' in answer.body
    assert answer.status == 500 or stream
    assert "run_ended" not in names(await reading)


async def test_readers_see_the_end_of_a_run_only_when_it_is_stored(
    places: Places, file: Path
) -> None:
    gate = Gate()
    place = places.open([slow(TEXT, gate)])
    run_id = await place.start()
    await gate.reached.wait()
    [run] = place.gateway.runs.running()
    log = run.log
    busy = sqlite3.connect(file, isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    gate.open()
    while not log.ended:
        await asyncio.sleep(0)
    known = len(log.recorded())
    reading = asyncio.create_task(place.events(run_id, after=known))
    await asyncio.sleep(0)
    busy.execute("ROLLBACK")
    busy.close()
    assert names(await reading)[-1] == "run_ended"


async def test_a_damaged_run_delays_no_other(places: Places, file: Path) -> None:
    before = places.open(slow(TEXT, Gate()))
    strange, torn, sound = [await before.start() for _ in range(3)]
    await before.crash()
    with sqlite3.connect(file) as damaging:
        damaging.execute(
            """UPDATE runs SET origin = '{"kind": "gateway"}' WHERE id = ?""", [strange]
        )
        damaging.execute("UPDATE batches SET data = '[' WHERE run_id = ?", [torn])
    damaging.close()
    after = places.open(TEXT)
    assert {run.id for run in await after.resume()} == {strange, sound}
    assert content(await after.ended(sound)) == TEXT
    assert "cannot be read" in (await after.ended(strange))["error"]["message"]
    assert b"run_ended" not in (await after.get(f"/v1/runs/{torn}/events")).body


async def test_ended_runs_are_kept_up_to_the_configured_number(places: Places) -> None:
    place = places.open(TEXT, config=replace(SERVED, runs=RunsConfig(max_runs=1)))
    first, second = await place.start(), await place.start()
    await place.ended(first)
    await place.ended(second)
    await place.gateway.aclose()
    after = places.open(config=replace(SERVED, runs=RunsConfig(max_runs=1)))
    assert after.gateway.service.log is not None
    await expire(after.gateway.service.log, after.gateway.config.runs)
    kept = [run["id"] for run in (await after.get("/v1/runs")).json["data"]]
    assert len(kept) == 1
    [gone] = {first, second} - set(kept)
    assert (await after.get(f"/v1/runs/{gone}")).status == 404


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_deleted_run_is_not_found(places: Places, file: Path, restarted: bool) -> None:
    place = places.open(["A secret."])
    run_id = await place.start("Tell me.")
    await place.ended(run_id)
    if restarted:
        await place.gateway.aclose()
        place = places.open()
    deleted = await request(place.app, "DELETE", f"/v1/runs/{run_id}")
    assert deleted.json == {"id": run_id, "object": "run.deleted", "deleted": True}
    for path in ("", "/events"):
        assert (await place.get(f"/v1/runs/{run_id}{path}")).status == 404
    assert (await place.get("/v1/runs")).json["data"] == []
    assert (await request(place.app, "DELETE", f"/v1/runs/{run_id}")).status == 404
    assert place.gateway.service.log is not None
    with pytest.raises(RunNotFound):
        await place.gateway.service.log.status(run_id)
    for each in file.parent.iterdir():
        assert b"secret" not in each.read_bytes()


async def test_an_active_run_is_not_deleted(places: Places) -> None:
    gate = Gate()
    there, here = places.open([slow(TEXT, gate)]), places.open()
    run_id = await there.start()
    for place in (there, here):
        refused = await request(place.app, "DELETE", f"/v1/runs/{run_id}")
        assert (refused.status, refused.error["code"]) == (409, "run_in_progress")
    gate.open()
    assert content(await there.ended(run_id)) == TEXT


async def test_without_a_log_a_run_can_be_deleted_too() -> None:
    place = Place(None, [TEXT])
    run_id = await place.start()
    await place.ended(run_id)
    assert (await request(place.app, "DELETE", f"/v1/runs/{run_id}")).status == 200
    assert (await place.get(f"/v1/runs/{run_id}")).status == 404
    await place.gateway.aclose()


async def test_waiting_for_a_closed_log_is_cancelled(
    file: Path,
) -> None:
    log = SQLiteLog(file)
    run = log.begin(RunRecord(id="run_1", model="m", created=1.0))
    run.append(RunStarted("run_1", "m", ()))
    assert run.settled is not None
    waiting = asyncio.ensure_future(run.settled())
    await asyncio.sleep(0)
    run.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await run.settled()
    await log.aclose()
