"""Stored runs are read back unchanged, also in edge cases."""

import sqlite3
from pathlib import Path

import pytest
from tests.runs.conftest import MakeClient
from tests.runs.processes import Child

from windlass import Client, tool
from windlass.testing import ScriptedModel, call


@tool
def read() -> str:
    """Returns a long text."""
    return "x" * 5_000


def test_a_sync_reader_at_the_end_of_an_ended_run_does_not_wait(path: Path) -> None:
    with Client(ScriptedModel(["hi"]), log=path) as client:
        reply = client.generate("go")
        [*_, last] = client.subscribe(reply.run_id)
        assert list(client.subscribe(reply.run_id, last.seq)) == []


async def test_a_stream_left_at_once_is_found_again(client_on: MakeClient) -> None:
    client = client_on(["hi"])
    async with client.stream("go") as stream:
        pass
    [run] = await client.runs()
    assert await run.result() == stream.reply


async def test_a_chat_continues_after_a_stream_that_was_left_at_once(client_on: MakeClient) -> None:
    client = client_on(["hi"])
    chat = client.chat()
    async with chat.stream("go"):
        pass
    reply = await client.chat(id=chat.id).send("again")
    assert [message.text for message in reply.messages] == ["go", "again", "hi"]


async def test_long_results_are_found_again_as_the_model_was_given_them(
    client_on: MakeClient,
) -> None:
    client = client_on([call("read"), "hi", "ho"], tools=[read], max_result_chars=100)
    chat = client.chat()
    reply = await chat.send("go")
    [run] = await client.runs()
    assert await run.result() == reply
    again = client.chat(id=chat.id)
    await again.load()
    assert again.messages == reply.messages


@pytest.mark.process
async def test_an_unreadable_run_does_not_block_other_runs(
    client_on: MakeClient, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with Child("client", path, tmp_path / "ledger", "retry") as process:
            await process.hear()
            assert await process.hear() == "in the middle"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(
        "UPDATE batches SET data = '[' WHERE run_id = (SELECT min(id) FROM runs) AND first = 1"
    )
    connection.close()
    client = client_on(["done"])
    assert len(await client.resume()) == 1
    assert "Cannot resume run" in caplog.text
