"""Clients with a log: their runs and chats are found again by the next client of the file."""

import asyncio

import pytest
from tests.runs.conftest import MakeClient
from tests.runs.looking import events_of
from tests.support.sample_runs import count, weather

from windlass import AsyncClient
from windlass.content import Message
from windlass.errors import ConfigError, ModelError, RunNotFound, WindlassError
from windlass.events import (
    ApprovalRequested,
)
from windlass.runs.control import StoredRun
from windlass.runs.memory import MemoryRunLog
from windlass.testing import Gate, ScriptedModel, call, calls, refuse, say, slow

ASK = [
    calls(call("weather", city="Paris"), call("count"), text="Let me see."),
    say("Sunny in Paris."),
]


async def first_request(client: AsyncClient, run_id: str) -> ApprovalRequested:
    async for event in client.subscribe(run_id):
        if isinstance(event, ApprovalRequested):
            return event
    raise AssertionError("nobody was asked")


async def test_a_blocking_run_is_found_again_with_the_same_reply(client_on: MakeClient) -> None:
    first = client_on(ASK)
    reply = await first.generate("Weather?", system="Be brief.")
    await first.aclose()
    second = client_on()
    run = await second.run(reply.run_id)
    assert isinstance(run, StoredRun)
    assert (run.phase, run.stop_reason) == ("ended", "answer")
    assert run.record.title == "Weather?"
    assert await run.result() == reply


async def test_a_streamed_run_is_found_again_as_it_was_seen(client_on: MakeClient) -> None:
    first = client_on(ASK)
    async with first.stream("Weather?") as stream:
        seen = [event async for event in stream]
    reply = stream.reply
    await first.aclose()
    second = client_on()
    assert await events_of(second, reply.run_id) == seen
    assert await events_of(second, reply.run_id, 5) == seen[5:]
    assert await events_of(second, reply.run_id, len(seen)) == []
    assert await (await second.run(reply.run_id)).result() == reply


async def test_a_run_is_known_elsewhere_as_soon_as_it_has_started(client_on: MakeClient) -> None:
    gate = Gate()
    first, second = client_on([slow("Here I am.", gate)]), client_on()
    run = await first.start("Hello?")
    there = await second.run(run.id)
    assert there.stop_reason is None
    assert [each.id for each in await second.runs()] == [run.id]
    seeing = asyncio.ensure_future(events_of(second, run.id))
    waiting = asyncio.ensure_future(there.result())
    await gate.reached.wait()
    assert not waiting.done()
    gate.open()
    reply = await run.result()
    assert reply.text == "Here I am."
    assert await waiting == reply
    assert await seeing == await events_of(first, run.id)


async def test_a_run_is_stopped_from_elsewhere(client_on: MakeClient) -> None:
    first, second = client_on([slow("never", Gate())]), client_on()
    run = await first.start("Hello?")
    await second.stop(run.id)
    assert run.stop_reason == "stopped"
    assert (await (await second.run(run.id)).result()).stop_reason == "stopped"
    await second.stop(run.id)  # one that has ended stays as it is
    await first.stop(run.id)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_is_decided_about_from_elsewhere(
    client_on: MakeClient, approved: bool
) -> None:
    first, second = client_on([call("pay", amount=1), "done"]), client_on()
    run = await first.start("Pay!")
    asked = await first_request(second, run.id)
    assert await second.approve(run.id, asked.call.id, approved, arguments={"amount": 2})
    reply = await run.result()
    [result] = reply.results
    assert result.output == ("paid 2" if approved else None)
    assert await (await second.run(run.id)).result() == reply


async def test_active_and_stored_runs_are_listed_oldest_first(
    client_on: MakeClient,
) -> None:
    first, second = client_on(["one", "three"]), client_on([slow("two", Gate())])
    one = await first.generate("1")
    two = await second.start("2")
    three = await first.generate("3")
    assert [each.id for each in await second.runs()] == [one.run_id, two.id, three.run_id]
    assert [each.stop_reason for each in await first.runs()] == ["answer", None, "answer"]
    assert (await second.runs())[1] is two


async def test_a_run_that_failed_reports_why_when_it_is_found_again(client_on: MakeClient) -> None:
    first = client_on([refuse(400, "no such model")])
    with pytest.raises(ModelError):
        await first.generate("Hello?")
    [run] = await client_on().runs()
    assert run.stop_reason == "error"
    with pytest.raises(WindlassError, match="no such model"):
        await run.result()


async def test_an_unknown_run_is_unknown(client_on: MakeClient) -> None:
    client = client_on()
    for ask in (client.run("run_x"), client.stop("run_x"), client.approve("run_x", "a")):
        with pytest.raises(RunNotFound):
            await ask
    for after in (0, 7):
        with pytest.raises(RunNotFound):
            await events_of(client, "run_x", after)


async def test_a_chat_continues_after_a_restart(client_on: MakeClient) -> None:
    first = client_on([*ASK, "You are welcome."])
    chat = first.chat(messages=[Message.system("Be brief.")])
    await chat.send("Weather?")
    async with chat.stream("Thanks!") as stream:
        assert [text async for text in stream.text_deltas()]
    await first.aclose()
    second = client_on(["You asked for the weather."])
    again = second.chat(id=chat.id)
    reply = await again.send("What did I ask?")
    assert reply.messages[:-2] == chat.messages
    assert again.id == chat.id
    assert len(reply.messages) == 9
    third = client_on().chat(id=chat.id)
    await third.load()
    assert third.messages == reply.messages


async def test_a_chat_continues_from_before_what_failed(client_on: MakeClient) -> None:
    first = client_on(["Hello.", refuse(400, "broken")])
    chat = first.chat()
    await chat.send("Hi")
    with pytest.raises(ModelError):
        await chat.send("Again")
    again = client_on(["Well?"]).chat(id=chat.id)
    reply = await again.send("Hm")
    assert [message.text for message in reply.messages] == ["Hi", "Hello.", "Hm", "Well?"]


async def test_a_chat_whose_run_is_active_is_not_continued(client_on: MakeClient) -> None:
    gate = Gate()
    first, second = client_on([slow("Hello.", gate)]), client_on()
    chat = first.chat()
    async with chat.stream("Hi") as stream:
        await gate.reached.wait()
        with pytest.raises(WindlassError, match=f"run {stream.run_id} of this chat has not"):
            await second.chat(id=chat.id).send("Me too")
        gate.open()
        async for _ in stream:
            pass
    again = second.chat(id=chat.id)
    await again.load()
    assert [message.text for message in again.messages] == ["Hi", "Hello."]


async def test_an_unknown_chat_begins_with_nothing(client_on: MakeClient) -> None:
    chat = client_on(["Hello."]).chat(id="mine")
    await chat.send("Hi")
    again = client_on().chat(id="mine")
    await again.load()
    assert len(again.messages) == 2


async def test_a_log_in_memory_serves_a_client_too() -> None:
    async with AsyncClient(
        ScriptedModel(ASK), tools=[weather, count], log=MemoryRunLog()
    ) as client:
        reply = await client.generate("Weather?")
        run = await client.run(reply.run_id)
        assert await run.result() == reply
        assert await client.resume() == []


async def test_methods_that_need_a_log_report_it() -> None:
    async with AsyncClient(ScriptedModel([])) as client:
        with pytest.raises(ConfigError, match=r"log=\.\.\."):
            await client.resume()
        with pytest.raises(ConfigError, match=r"log=\.\.\."):
            client.chat(id="c")
