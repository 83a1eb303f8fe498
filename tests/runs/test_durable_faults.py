"""Clients whose log cannot be written: the run ends with that error, and no waiter hangs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.broken_files import fill, not_a_database, of_a_later_version, somebody_elses

from windlass import AsyncClient, Client, tool
from windlass.errors import StorageError
from windlass.events import RunEvent, ToolRunEnded
from windlass.runs.sqlite import SQLiteLog
from windlass.testing import ScriptedModel, call


class Faulty:
    """A log whose disk is full from the first result on, with a tool that must not run then."""

    def __init__(self, path: Path) -> None:
        self.log = SQLiteLog(path)
        self.paid: list[int] = []
        script = [call("fetch"), call("pay", amount=1), "done"]
        self.model = ScriptedModel(lambda _: script.pop(0))

    @property
    def tools(self) -> list[Any]:
        @tool
        async def fetch() -> str:
            """Fetches."""
            await fill(self.log)
            return "x" * 100_000

        @tool
        async def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return "paid"

        return [fetch, pay]


def seen_of_stream(client: Client, faulty: Faulty) -> tuple[list[RunEvent], StorageError]:
    seen: list[RunEvent] = []
    with (
        pytest.raises(StorageError, match="the disk is full") as raised,
        client.stream("go", tools=faulty.tools) as stream,
    ):
        seen.extend(stream)
    return seen, raised.value


@pytest.mark.parametrize("verb", ["generate", "stream", "start"])
async def test_a_durable_run_whose_disk_is_full_ends_with_that(path: Path, verb: str) -> None:
    faulty, seen = Faulty(path), list[RunEvent]()
    client = AsyncClient(faulty.model, log=faulty.log)
    with pytest.raises(StorageError, match="the disk is full"):
        if verb == "generate":
            await client.generate("go", tools=faulty.tools)
        elif verb == "stream":
            async with client.stream("go", tools=faulty.tools) as stream:
                async for event in stream:
                    seen.append(event)
        else:
            run = await client.start("go", tools=faulty.tools)
            async for event in client.subscribe(run.id):
                seen.append(event)
    assert faulty.paid == []
    assert not any(isinstance(event, ToolRunEnded) for event in seen)
    [record] = await faulty.log.list()
    assert record.ended is None
    assert len(await faulty.log.read(record.id)) >= len(seen)
    await client.aclose()


@pytest.mark.parametrize("verb", ["generate", "stream", "start"])
def test_a_sync_client_whose_disk_is_full_reports_it_and_does_not_hang(
    path: Path, verb: str
) -> None:
    faulty = Faulty(path)
    with Client(faulty.model, log=faulty.log) as client:
        if verb == "stream":
            seen, _ = seen_of_stream(client, faulty)
            assert seen
            assert not any(isinstance(event, ToolRunEnded) for event in seen)
        elif verb == "generate":
            with pytest.raises(StorageError, match="the disk is full"):
                client.generate("go", tools=faulty.tools)
        else:
            run = client.start("go", tools=faulty.tools)
            with pytest.raises(StorageError, match="the disk is full"):
                list(client.subscribe(run.id))
            with pytest.raises(StorageError, match="the disk is full"):
                run.result()
    assert faulty.paid == []


@pytest.mark.parametrize("make", [not_a_database, somebody_elses, of_a_later_version])
def test_without_storage_no_model_is_asked(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    model = ScriptedModel(["never"])
    with Client(model, log=path) as client:
        for ask in (client.generate, client.start):
            with pytest.raises(StorageError, match=path.name):
                ask("go")
        with pytest.raises(StorageError, match=path.name), client.stream("go") as stream:
            list(stream)
        for look in (client.runs, client.resume, lambda: client.chat(id="c").messages):
            with pytest.raises(StorageError, match=path.name):
                look()
    assert model.requests == []
