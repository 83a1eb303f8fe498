"""Lists of a fleet's runs: as the others have left them, and without reading everything again."""

from pathlib import Path

import pytest
from tests.remote.mortal_nats import MortalNats
from tests.runs.sample_runs import ended_run

from windlass.runs.jetstream import JetStreamLog
from windlass.runs.jetstream.reading import Kept
from windlass.runs.jetstream.streams import Streams


async def listed(log: JetStreamLog) -> list[str]:
    return sorted(record.id for record in await log.list())


async def test_a_list_knows_what_another_process_has_written_and_deleted(tmp_path: Path) -> None:
    async with MortalNats(tmp_path) as server:
        here, there = JetStreamLog(server.url), JetStreamLog(server.url)
        for number in range(3):
            await ended_run(here, f"run_{number}")
            assert await listed(there) == [f"run_{each}" for each in range(number + 1)]
        await here.delete("run_1")
        assert await listed(there) == ["run_0", "run_2"]
        await here.delete("run_2")
        await ended_run(here, "run_3")  # as many as before, and not the same
        assert await listed(there) == ["run_0", "run_3"]
        await here.aclose()
        await there.aclose()


async def test_a_list_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Kept] = []
    everything = Streams.everything

    async def watched(self: Streams, stream: str, subject: str, begin: int = 1) -> list[Kept]:
        found = await everything(self, stream, subject, begin)
        read.extend(found)
        return found

    monkeypatch.setattr(Streams, "everything", watched)
    async with MortalNats(tmp_path) as server:
        here, there = JetStreamLog(server.url), JetStreamLog(server.url)
        for number in range(5):
            await ended_run(here, f"run_{number}")
        assert len(await listed(there)) == 5
        read.clear()
        assert len(await listed(there)) == 5
        assert read == []
        await ended_run(here, "run_5")
        assert len(await listed(there)) == 6
        assert len(read) == 1
        await here.aclose()
        await there.aclose()
