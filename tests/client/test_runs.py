"""Background runs: many readers, late readers, stops, bounds, retention."""

import asyncio
from typing import Any

import pytest
from tests.conftest import MakeClient, requests_of

from windlass import RunEnded, RunNotFound, TextDelta, ToolRegistry, TooManyRuns, tool
from windlass.runs.active_runs import RunStore
from windlass.runs.event_log import MemoryLog
from windlass.testing import Gate, call, refuse, say, slow


async def collect(client: Any, run_id: str, after: int = 0) -> list[Any]:
    return [event async for event in client.subscribe(run_id, after)]


async def test_every_reader_gets_every_event_live_or_late(client_of: MakeClient) -> None:
    gate = Gate()
    client = client_of([slow(say("a b c d"), gate=gate, after=2)])
    run = await client.start("?")
    early = [asyncio.create_task(collect(client, run.id)) for _ in range(3)]
    while len(run.log.recorded()) < 3:
        await asyncio.sleep(0)
    joined = asyncio.create_task(collect(client, run.id, after=3))
    await asyncio.sleep(0)
    gate.open()
    first, *others = await asyncio.gather(*early)
    late = await collect(client, run.id)
    assert all(each == first for each in [*others, late])
    assert await joined == first[3:]
    assert await collect(client, run.id, after=len(first)) == []


async def test_a_run_continues_without_readers(client_of: MakeClient) -> None:
    client = client_of(["a b c"])
    run = await client.start("?")
    async for event in client.subscribe(run.id):
        if isinstance(event, TextDelta):
            break
    assert (await run.result()).text == "a b c"


@pytest.mark.no_page("which of several runs it asks for first is its own affair")
@pytest.mark.no_wire("which of several runs it asks for first is its own affair")
async def test_a_stopped_or_failed_run_does_not_affect_other_runs(client_of: MakeClient) -> None:
    gate = Gate()
    script = {"hang": slow(say("x"), gate=Gate()), "fail": refuse(500, "down"), "ok": say("fine")}
    script["wait"] = slow(say("waited"), gate=gate)
    client = client_of(lambda request: script[request.messages[0].text])
    runs = {prompt: await client.start(prompt) for prompt in script}
    await client.stop(runs["hang"].id)
    gate.open()
    assert (await runs["hang"].result()).stop_reason == "stopped"
    assert (await runs["ok"].result()).text == "fine"
    assert (await runs["wait"].result()).text == "waited"
    end = (await collect(client, runs["fail"].id))[-1]
    assert isinstance(end, RunEnded)
    assert (end.reason, end.error) == ("error", "down (HTTP 500)")
    assert str(runs["fail"].error) == "down (HTTP 500)"


async def test_stopping_twice_or_after_the_end_changes_nothing(client_of: MakeClient) -> None:
    client = client_of(["done"])
    run = await client.start("?")
    reply = await run.result()
    await client.stop(run.id)
    await client.stop(run.id)
    assert run.reply is reply
    assert run.stop_reason == "answer"


@pytest.mark.no_page("which of several runs it asks for first is its own affair")
async def test_running_runs_are_bounded_and_finished_ones_do_not_count(
    client_of: MakeClient,
) -> None:
    gates = [Gate(), Gate()]
    client = client_of(
        [slow(say("a"), gate=gates[0]), slow(say("b"), gate=gates[1]), "c"], max_running=2
    )
    first, second = await client.start("?"), await client.start("?")
    with pytest.raises(TooManyRuns):
        await client.start("?")
    gates[0].open()
    await first.result()
    third = await client.start("?")
    assert (await third.result()).text == "c"
    gates[1].open()
    await second.result()
    assert [run.id for run in await client.runs()] == [first.id, second.id, third.id]


async def test_an_unknown_run_is_a_clear_error(client_of: MakeClient) -> None:
    client = client_of([])
    with pytest.raises(RunNotFound, match="run 'run_x' not found"):
        client.subscribe("run_x")
    with pytest.raises(RunNotFound):
        await client.stop("run_x")


async def test_finished_runs_are_kept_for_a_time(client_of: MakeClient) -> None:
    client = client_of(["a"], keep_finished=0.0)
    run = await client.start("?")
    await run.result()
    await asyncio.sleep(0)
    assert await client.runs() == []
    with pytest.raises(RunNotFound):
        client.subscribe(run.id)


async def test_finished_runs_are_dropped_by_age_and_number() -> None:
    now = 0.0

    class Done:
        def __init__(self, id: str) -> None:
            self.id = id
            self.task = asyncio.ensure_future(asyncio.sleep(0))

    store: RunStore[Any, Any] = RunStore(keep_finished=10, max_finished=2, clock=lambda: now)
    for number in range(4):
        run = Done(str(number))
        store.add(run)
        await run.task
        await asyncio.sleep(0)
        now += 1
    assert [run.id for run in store.all()] == ["2", "3"]
    now = 12.5
    assert [run.id for run in store.all()] == ["3"]


def test_after_the_last_event_of_a_log_there_is_no_other() -> None:
    log = MemoryLog()
    for event in (TextDelta("a"), RunEnded("answer"), TextDelta("late")):
        log.append(event)
    assert [type(event) for event in log.recorded()] == [TextDelta, RunEnded]


async def test_each_run_has_the_tools_that_a_toolset_has_at_its_start(
    client_of: MakeClient,
) -> None:
    registry = ToolRegistry()
    client = client_of(["a", "b"], tools=[registry])
    await client.generate("?")
    registry.register(tool(lambda: 1, name="late"))
    await client.generate("?")
    offered = [[each.name for each in request.tools] for request in requests_of(client)]
    assert offered == [[], ["late"]]


async def test_closing_the_client_stops_its_runs(client_of: MakeClient) -> None:
    started = asyncio.Event()

    @tool
    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    client = client_of([call("forever")])
    run = await client.start("?", tools=[forever])
    await started.wait()
    await client.aclose()
    assert run.stop_reason == "stopped"
    assert len(asyncio.all_tasks()) == 1


async def test_a_chat_remembers_and_a_failure_leaves_it_as_it_was(client_of: MakeClient) -> None:
    client = client_of(["Hello Ada.", refuse(500, "down"), "You are Ada.", "Bye."])
    chat = client.chat(system="Be brief.")
    assert (await chat.send("I am Ada.")).text == "Hello Ada."
    before = chat.messages
    with pytest.raises(Exception, match="down"):
        await chat.send("Who am I?")
    assert chat.messages == before
    async with chat.stream("Who am I?") as stream:
        assert "".join([t async for t in stream.text_deltas()]) == "You are Ada."
    assert (await chat.send("Bye")).text == "Bye."
    assert [m.role for m in chat.messages] == ["system"] + ["user", "assistant"] * 3


async def test_a_reader_can_read_all_stored_events_at_once(client_of: MakeClient) -> None:
    run = await client_of(["one two three"]).start("go")
    await run.result()
    reader = run.events()

    assert [event.seq for event in await reader.some(60)] == [
        event.seq for event in run.log.recorded()
    ]
    assert await reader.some(60) == []


async def test_finished_runs_are_dropped_even_if_runs_are_only_added(client_of: MakeClient) -> None:
    client = client_of(["one", "two", "three"])
    store: RunStore[Any, Any] = RunStore(max_finished=1)
    for _ in range(3):
        run = await client.start("go")
        store.add(run)
        await run.result()

    assert len(store._runs) <= 2


async def test_finished_runs_above_the_size_limit_are_dropped(client_of: MakeClient) -> None:
    client = client_of(["one", "two", "three"])
    store: RunStore[Any, Any] = RunStore(max_finished_bytes=20, size_of=lambda _: 10)
    ids: list[str] = []
    for _ in range(3):
        run = await client.start("go")
        store.add(run)
        await run.result()
        ids.append(run.id)

    assert [run.id for run in store.all()] == ids[1:]


async def test_a_reader_gets_nothing_after_its_timeout() -> None:
    assert await MemoryLog().follow().some(0) == []
