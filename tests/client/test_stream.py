"""Streaming: live text, early starts, cut streams, one end."""

import asyncio
import itertools
from typing import Any

import pytest
from tests.conftest import MakeClient, events_of

from windlass import (
    RoundStarted,
    RunEnded,
    RunStarted,
    Status,
    StreamCut,
    TextDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
    WindlassError,
    tool,
)
from windlass.events import event_from_json, event_to_dict, event_to_json
from windlass.testing import Gate, call, calls, cut, refuse, say, slow


async def breathe() -> None:
    """Lets every task that could run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def test_text_of_every_round_streams_and_only_the_last_event_is_done(
    client_of: MakeClient,
) -> None:
    script = [calls(call("get_weather", city="x"), text="Let me look."), "It is sunny."]
    async with client_of(script).stream("?", tools=[get_weather]) as stream:
        events = [event async for event in stream]
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert text == "Let me look.It is sunny."
    assert stream.reply.text == "It is sunny."
    assert [e.done for e in events] == [False] * (len(events) - 1) + [True]
    assert sum(isinstance(e, TurnEnded) for e in events) == 2


@pytest.mark.on_page
async def test_events_come_in_the_documented_order_numbered_from_one(
    client_of: MakeClient,
) -> None:
    events = await events_of(
        client_of([call("get_weather", city="x"), say("Hi", pieces="whole")]), tools=[get_weather]
    )
    kinds = [type(e) for e in events if not isinstance(e, ToolCallDelta)]
    assert kinds == [
        RunStarted,
        RoundStarted,
        ToolCallStarted,
        ToolCallEnded,
        TurnEnded,
        Status,
        ToolRunStarted,
        ToolRunEnded,
        RoundStarted,
        TextDelta,
        TurnEnded,
        RunEnded,
    ]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert all(a.time <= b.time for a, b in itertools.pairwise(events))
    status = next(e for e in events if isinstance(e, Status))
    assert status.message == "Executing get_weather..."


async def test_events_say_their_type_as_front_ends_expect_it(client_of: MakeClient) -> None:
    events = await events_of(client_of([call("get_weather", city="x"), "Hi"]), tools=[get_weather])
    types = {type(e).__name__: e.type for e in events}
    assert types["TextDelta"] == "content"
    assert types["Status"] == "status"
    assert types["ToolCallEnded"] == types["ToolRunStarted"] == "tool_call"
    assert types["ToolRunEnded"] == "tool_result"
    assert types["RunEnded"] == types["TurnEnded"] == "control"


async def test_events_go_to_json_and_back(client_of: MakeClient) -> None:
    events = await events_of(client_of([call("get_weather", city="x"), "Hi"]), tools=[get_weather])
    for event in events:
        assert event_from_json(event_to_json(event)) == event
        assert event_to_dict(event)["type"] == event.type


async def test_phases_are_visible_on_the_run(client_of: MakeClient) -> None:
    seen: list[str] = []
    client = client_of([call("look"), "done"])

    async def look() -> None:
        seen.append((await client.runs())[0].phase)

    run = await client.start("?", tools=[look])
    phases = [e.phase async for e in client.subscribe(run.id) if isinstance(e, RoundStarted)]
    assert phases == ["awaiting_model_call", "awaiting_final_response"]
    assert seen == ["executing_tools"]
    assert run.phase == "ended"


@pytest.mark.on_page
async def test_text_reaches_the_reader_while_the_model_still_writes(client_of: MakeClient) -> None:
    gate = Gate()
    client = client_of([slow(say("one two three"), gate=gate, after=1)])
    async with client.stream("?") as stream:
        texts = stream.text_deltas()
        first = await anext(texts)
        gate.open()
        rest = [text async for text in texts]
    assert "".join([first, *rest]) == "one two three"


@pytest.mark.no_page("its calls are told when the turn has settled")
async def test_an_idempotent_tool_starts_while_the_stream_still_arrives(
    client_of: MakeClient,
) -> None:
    gate = Gate()

    @tool(idempotent=True)
    async def look(city: str) -> str:
        gate.open()
        return city

    # The turn's second half comes only when the tool of its first half has run.
    turn = calls(call("look", city="a"), call("look", city="b"), pieces="whole")
    client = client_of([slow(turn, gate=gate, after=3), "done"])
    reply = await (await client.start("?", tools=[look])).result()
    assert [r.output for r in reply.results] == ["a", "b"]


@pytest.mark.no_page("it shows an error where its answer breaks off")
async def test_other_tools_wait_until_the_turn_has_come_in_whole(client_of: MakeClient) -> None:
    ran: list[str] = []

    def write(text: str) -> None:
        ran.append(text)

    gate = Gate()
    turn = calls(call("write", text="a"), call("write", text="b"), pieces="whole")
    client = client_of([slow(cut(turn, after=4), gate=gate, after=3)])
    run = await client.start("?", tools=[write])
    await gate.reached.wait()
    await breathe()
    gate.open()
    with pytest.raises(StreamCut):
        await run.result()
    assert ran == []


@pytest.mark.no_page("its calls are told when the turn has settled")
async def test_no_call_starts_before_an_earlier_serial_call_in_a_stream(
    client_of: MakeClient,
) -> None:
    order: list[str] = []

    @tool(serial=True)
    async def alone() -> None:
        order.append("alone")

    @tool(idempotent=True)
    async def look(city: str) -> None:
        order.append(city)

    gate = Gate()
    asked = [call("look", city="a"), call("alone"), call("look", city="b"), call("look", city="c")]
    client = client_of([slow(calls(*asked, pieces="whole"), gate=gate, after=7), "done"])
    run = await client.start("?", tools=[alone, look])
    await gate.reached.wait()
    await breathe()
    assert order == ["a"]
    gate.open()
    await run.result()
    assert order == ["a", "alone", "b", "c"]


@pytest.mark.no_page("its calls are told when the turn has settled")
@pytest.mark.native  # it counts the pieces of a native stream
@pytest.mark.no_wire("its calls come in other pieces")
async def test_an_early_start_is_cancelled_when_the_stream_is_cut(client_of: MakeClient) -> None:
    started = asyncio.Event()

    @tool(idempotent=True)
    async def look(city: str) -> None:
        started.set()
        await asyncio.Event().wait()

    gate = Gate()
    turn = calls(call("look", city="a"), call("look", city="b"), pieces="whole")
    client = client_of([slow(cut(turn, after=4), gate=gate, after=3)])
    run = await client.start("?", tools=[look])
    await started.wait()
    gate.open()
    events = [e async for e in client.subscribe(run.id)]
    assert [e.outcome for e in events if isinstance(e, ToolRunEnded)] == ["stopped"]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "error"
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.no_page("its calls are told when the turn has settled")
@pytest.mark.native  # it counts the pieces of a native stream
@pytest.mark.no_wire("its calls come in other pieces")
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_early_start_in_a_turn_that_is_then_refused_has_one_answer(
    client_of: MakeClient, finish: Any
) -> None:
    started, gate = asyncio.Event(), Gate()

    @tool(idempotent=True)
    async def look(city: str) -> None:
        started.set()
        await asyncio.Event().wait()

    turn = calls(
        call("look", city="a", id="a"),
        call("look", city="b", id="b"),
        finish=finish,
        pieces="whole",
    )
    client = client_of([slow(turn, gate=gate, after=3), "done"])
    run = await client.start("?", tools=[look])
    await started.wait()
    gate.open()
    events = [e async for e in client.subscribe(run.id)]
    outcomes = {e.response.id: e.outcome for e in events if isinstance(e, ToolRunEnded)}
    assert sum(isinstance(e, ToolRunEnded) for e in events) == 2
    assert outcomes == {"a": "stopped", "b": "not_run"}


async def test_a_tool_whose_calls_are_past_the_limit_does_not_start_early(
    client_of: MakeClient,
) -> None:
    ran: list[str] = []

    @tool(idempotent=True)
    def look(city: str) -> None:
        ran.append(city)

    client = client_of([call("look", city="a"), call("look", city="b")])
    run = await client.start("?", tools=[look], max_rounds=1, on_limit="return_calls")
    await run.result()
    assert ran == ["a"]


@pytest.mark.no_page("it shows an error where its answer breaks off")
async def test_an_interrupted_stream_raises_after_its_text(client_of: MakeClient) -> None:
    seen: list[Any] = []
    client = client_of([cut(say("one two three"), after=2)])
    with pytest.raises(StreamCut):
        async with client.stream("?") as stream:
            async for event in stream:
                seen.append(event)
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)).startswith("one")
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].error


@pytest.mark.on_page
async def test_leaving_a_stream_early_stops_its_run(client_of: MakeClient) -> None:
    client = client_of([slow(say("one two three"), gate=Gate(), after=1)])
    async with client.stream("?") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert stream.reply.stop_reason == "stopped"
    assert stream.reply.text == "one "
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.on_page
async def test_cancelling_the_reader_stops_the_run(client_of: MakeClient) -> None:
    ran = asyncio.Event()

    async def forever() -> None:
        ran.set()
        await asyncio.Event().wait()

    client = client_of([call("forever")])
    task = asyncio.create_task(client.generate("?", tools=[forever]))
    await ran.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_at_the_start_of_a_run_is_raised_to_the_reader(
    client_of: MakeClient,
) -> None:
    stream = client_of([refuse(503, "overloaded")]).stream("?")
    with pytest.raises(WindlassError, match="overloaded"):
        async with stream:
            async for _ in stream:
                pass
    with pytest.raises(WindlassError, match="overloaded"):
        _ = stream.reply


async def test_a_stream_is_used_inside_async_with(client_of: MakeClient) -> None:
    with pytest.raises(WindlassError, match="async with"):
        await anext(client_of(["x"]).stream("?"))
