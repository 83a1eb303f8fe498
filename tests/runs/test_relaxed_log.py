"""The log of runs that no process can resume: published at once, found by others a moment later."""

from pathlib import Path

from msgspec.structs import replace

from windlass.events import RunEnded, RunStarted, TextDelta
from windlass.loop.policy import Policy
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog


def record(run_id: str, *, needs_client: bool) -> RunRecord:
    origin = Origin(kind="gateway", policy=Policy(), needs_client=needs_client)
    return RunRecord(id=run_id, model="m", created=1.0, origin=origin.stored())


async def test_a_run_of_a_client_is_published_at_once_and_found_by_another_process(
    tmp_path: Path,
) -> None:
    here, elsewhere = (SQLiteLog(tmp_path / "runs.db", relaxed=True) for _ in range(2))
    log = here.begin(record("run_1", needs_client=True))
    assert log.settled is None
    log.append(RunStarted("run_1", "m", ()))
    log.extend([TextDelta("a"), TextDelta("b")])
    assert [event.seq for event in log.recorded()] == [1, 2, 3]
    assert (await elsewhere.status("run_1")).ended is None
    log.append(RunEnded("answer"))
    await here.aclose()
    found = await elsewhere.status("run_1")
    assert (found.reason, found.events) == ("answer", 4)
    assert [replace(event, time=0.0) for event in await elsewhere.read("run_1", 1)] == [
        TextDelta("a", seq=2),
        TextDelta("b", seq=3),
        RunEnded("answer", seq=4),
    ]
    await elsewhere.aclose()


async def test_a_run_in_the_background_is_stored_before_it_is_published(tmp_path: Path) -> None:
    log = SQLiteLog(tmp_path / "runs.db", relaxed=True)
    events = log.begin(record("run_1", needs_client=False))
    events.append(RunStarted("run_1", "m", ()))
    assert not events.recorded()
    assert events.settled is not None
    await events.settled()
    assert len(events.recorded()) == 1
    await log.aclose()
