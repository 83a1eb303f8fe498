"""Lists of a fleet's runs: current, without reading everything again."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.mortal_nats import MortalNats
from tests.support.sample_runs import ended_run, record

from windlass.runs.jetstream import JetStreamLog
from windlass.runs.jetstream.log import KnownRuns
from windlass.runs.jetstream.streams import StoredMessage, Streams
from windlass.runs.records import Retention, RunRecord

pytestmark = pytest.mark.process


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
        await ended_run(here, "run_3")  # the same number, but other runs
        assert await listed(there) == ["run_0", "run_3"]
        await here.aclose()
        await there.aclose()


async def test_a_list_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[StoredMessage] = []
    everything = Streams.all_messages

    async def watched(
        self: Streams, stream: str, subject: str, begin: int = 1
    ) -> list[StoredMessage]:
        found = await everything(self, stream, subject, begin)
        read.extend(found)
        return found

    monkeypatch.setattr(Streams, "all_messages", watched)
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


async def test_a_process_does_not_read_everything_again_after_its_own_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MortalNats(tmp_path) as server:
        log = JetStreamLog(server.url)
        for number in range(5):
            await ended_run(log, f"run_{number}", float(number))
        assert len(await listed(log)) == 5
        read: list[StoredMessage] = []
        everything = Streams.all_messages

        async def watched(
            self: Streams, stream: str, subject: str, begin: int = 1
        ) -> list[StoredMessage]:
            found = await everything(self, stream, subject, begin)
            read.extend(found)
            return found

        monkeypatch.setattr(Streams, "all_messages", watched)
        assert await log.expire(Retention(max_runs=2)) == 3
        await log.delete("run_3")
        assert await listed(log) == ["run_4"]
        assert read == []
        await log.aclose()


async def test_a_list_that_is_cancelled_loses_nothing_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MortalNats(tmp_path) as server:
        here, there = JetStreamLog(server.url), JetStreamLog(server.url)
        await ended_run(here, "run_0")
        assert await listed(there) == ["run_0"]
        await here.delete("run_0")
        for number in range(1, 4):
            await ended_run(here, f"run_{number}", chat="chat_1")
        unpacked = Streams.unpacked

        async def cancelled(self: Streams, run_id: str, data: bytes) -> bytes:
            if run_id == "run_2":
                raise asyncio.CancelledError
            return await unpacked(self, run_id, data)

        with monkeypatch.context() as patch:
            patch.setattr(Streams, "unpacked", cancelled)
            with pytest.raises(asyncio.CancelledError):
                await there.list()
        assert await listed(there) == ["run_1", "run_2", "run_3"]
        assert {each.id for each in await there.list(chat="chat_1")} == {"run_1", "run_2", "run_3"}
        await here.aclose()
        await there.aclose()


def test_known_runs_are_found_by_chat_owner_and_state() -> None:
    known = KnownRuns()
    for number in range(6):
        fields = {"owner": "web" if number % 2 else "cli", "chat": "c" if number < 3 else ""}
        ended = None if number in (1, 4) else 10.0
        known.put(record(f"run_{number}", float(number), ended=ended, **fields), number)

    def numbers(records: Iterable[RunRecord]) -> str:
        return "".join(each.id.removeprefix("run_") for each in records)

    def found(owner: str | None = None, chat: str | None = None, before: Any = None) -> str:
        return numbers(known.newest(owner, chat, before))

    def open_ones() -> str:
        return "".join(sorted(numbers(known.open())))

    assert found() == "543210", "newest first"
    assert (found("web"), found("cli"), found("other")) == ("531", "420", "")
    assert found("web", before=record("run_3", 3.0)) == "1"
    assert found(before=record("run_2", 2.0)) == "10"
    assert (found(chat="c"), found(chat="none")) == ("210", "")
    assert found(chat="c", before=record("run_2", 2.0)) == "10"
    assert open_ones() == "14"
    known.put(record("run_1", 1.0, ended=20.0, chat="d", owner="web"), 9)
    assert (open_ones(), found(chat="c"), found(chat="d"), found("web")) == ("4", "20", "1", "531")
    known.drop("run_1")
    known.drop("run_1")
    assert (found(chat="d"), found("web"), known.revision("run_1")) == ("", "53", None)
    late = known.newest("cli", None, None)
    known.drop("run_2")
    assert numbers(late) == "40", "a run may be deleted while a list is read"
