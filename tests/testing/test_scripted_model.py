"""The scripted model fulfils the contract of every model, and fails like a real one."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.testing.helpers import said_by, texts, turns

from windlass.content import FunctionCall, FunctionResponse, InlineData, Message, Text, Usage
from windlass.errors import ModelError, StreamCut
from windlass.events import (
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.model import Model, ModelRequest
from windlass.testing import (
    Fault,
    ScriptedModel,
    ScriptExhausted,
    Step,
    Turn,
    call,
    calls,
    cut,
    disconnect,
    hang,
    interrupt,
    last_prompt,
    malformed_json,
    malformed_sse,
    refuse,
    say,
    slow,
    tool_results,
)

HELLO = ModelRequest((Message.user("Hello"),))


@given(turns(arguments=texts), st.booleans())
async def test_events_together_are_the_turn(turn: Turn, live: bool):
    events = await said_by(ScriptedModel([turn]), ModelRequest(HELLO.messages, live=live))
    *spoken, end = events
    assert "".join(e.text for e in spoken if isinstance(e, TextDelta)) == turn.text
    assert "".join(e.text for e in spoken if isinstance(e, ThoughtDelta)) == turn.thoughts
    assert [e.call for e in spoken if isinstance(e, ToolCallEnded)] == list(turn.calls)
    assert end == TurnEnded("tool_calls" if turn.calls else "stop", turn.usage)
    for index, made in enumerate(turn.calls):
        assert _call_events(spoken, index) == (made.id, made.name, made.json)


def _call_events(events: list[ModelEvent], index: int) -> tuple[str, str, str]:
    [started] = [e for e in events if isinstance(e, ToolCallStarted) and e.index == index]
    pieces = [e.json for e in events if isinstance(e, ToolCallDelta) and e.index == index]
    return started.id, started.name, "".join(pieces)


def test_it_is_a_model():
    model = ScriptedModel("Hi", name="scripted/other")
    assert isinstance(model, Model)
    assert model.name == "scripted/other"


async def test_a_request_without_a_watcher_arrives_whole():
    model = ScriptedModel(say("one two three"))
    assert await said_by(model, ModelRequest(HELLO.messages, live=False)) == [
        TextDelta("one two three"),
        TurnEnded("stop", Usage(10, 5, 15)),
    ]


async def test_calls_without_an_id_get_one_each():
    model = ScriptedModel([calls(call("a"), call("a"))])
    ids = [e.call.id for e in await said_by(model) if isinstance(e, ToolCallEnded)]
    assert len(set(ids)) == 2
    assert all(ids)


async def test_other_parts_come_whole_and_signatures_stay_where_they_are():
    image = InlineData(b"png", "image/png")
    model = ScriptedModel([Turn(parts=(Text("signed text", "c2ln"), image))])
    assert (await said_by(model))[:-1] == [TextDelta("signed text", "c2ln"), PartReceived(image)]


async def test_a_finish_of_the_providers_own_is_reported_as_detail():
    [end] = await said_by(ScriptedModel([Turn(finish="RECITATION")]))
    assert end == TurnEnded("other", Usage(10, 5, 15), detail="RECITATION")


async def test_requests_are_kept_as_they_were_when_they_came():
    model, messages = ScriptedModel("Hi"), [Message.user("Hello")]
    await said_by(model, ModelRequest(messages))
    messages.append(Message.user("later"))
    assert model.requests == [HELLO]


async def test_a_function_may_choose_the_answer():
    def answer(request: ModelRequest) -> Step:
        return f"{last_prompt(request)}: {len(tool_results(request))}"

    assert TextDelta("Hello: ") in await said_by(ScriptedModel(answer))


async def test_a_request_after_the_end_of_a_script_fails_the_test():
    with pytest.raises(ScriptExhausted):
        await said_by(ScriptedModel([]))


async def test_an_exception_in_the_script_is_raised():
    with pytest.raises(ZeroDivisionError):
        await said_by(ScriptedModel([ZeroDivisionError()]))


async def _said_until_error(step: Step) -> tuple[list[ModelEvent], ModelError]:
    seen: list[ModelEvent] = []
    try:
        async with ScriptedModel([step]).stream(HELLO) as events:
            async for event in events:
                seen.append(event)
    except ModelError as error:
        return seen, error
    raise AssertionError("the turn ended well")


@given(turns(), st.integers(0, 30))
async def test_a_cut_turn_never_ends_and_its_last_call_is_not_complete(turn: Turn, after: int):
    seen, error = await _said_until_error(cut(turn, after))
    assert isinstance(error, StreamCut)
    pieces = [event for event in seen if not isinstance(event, ToolCallEnded)]
    assert len(pieces) <= after
    assert not any(isinstance(event, TurnEnded) for event in seen)
    started = sum(isinstance(event, ToolCallStarted) for event in seen)
    assert sum(isinstance(event, ToolCallEnded) for event in seen) in (0, started - 1, started)
    assert not isinstance(seen[-1] if seen else None, ToolCallEnded)


@pytest.mark.parametrize(
    ("fault", "status", "retryable"),
    [
        (refuse(429), 429, True),
        (refuse(500), 500, True),
        (refuse(400), 400, False),
        (disconnect(), None, True),
        (malformed_json(), None, True),
        (malformed_sse(), None, True),
    ],
)
async def test_each_fault_is_the_error_that_a_real_model_raises(
    fault: Fault, status: int | None, retryable: bool
):
    seen, error = await _said_until_error(fault)
    assert (seen, error.status, error.retryable) == ([], status, retryable)


async def test_a_refusal_has_all_fields_of_the_script():
    _, error = await _said_until_error(refuse(429, "Slow down.", retry_after=2.5, code="busy"))
    assert (error.message, error.retry_after, error.code) == ("Slow down.", 2.5, "busy")


async def test_an_interrupted_stream_fails_after_its_first_pieces():
    seen, error = await _said_until_error(interrupt("one two", 1, error=refuse(503, "Down.")))
    assert seen == [TextDelta("one ")]
    assert (error.status, error.message) == (503, "Down.")


@pytest.mark.parametrize("fault", [cut("one two", 1), interrupt("one two", 1)])
async def test_a_truncated_body_gets_no_response(fault: Fault):
    async with asyncio.timeout(60):
        with pytest.raises(ModelError):
            await said_by(ScriptedModel([fault]), ModelRequest(HELLO.messages, live=False))


async def test_a_slow_turn_waits_at_its_gate():
    step = slow("one two", after=1)
    assert step.gate
    async with ScriptedModel([step]).stream(HELLO) as events:
        assert await anext(events) == TextDelta("one ")
        second = asyncio.ensure_future(anext(events))
        await step.gate.reached.wait()
        assert not second.done()
        step.gate.open()
        assert await second == TextDelta("two")


async def test_a_slow_refusal_waits_too():
    step = slow(refuse(500))
    assert step.gate
    run = asyncio.ensure_future(_said_until_error(step))
    await step.gate.reached.wait()
    assert not run.done()
    step.gate.open()
    assert (await run)[1].status == 500


async def test_a_slow_turn_with_seconds_needs_no_gate():
    assert len(await said_by(ScriptedModel([slow("Hi", seconds=0.001)]))) == 2


async def test_a_hanging_model_can_be_cancelled():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await said_by(ScriptedModel([hang()]))


CALL = Message.assistant(FunctionCall("f", "{}", "1"), FunctionCall("g", "{}", "2"))
F, G = FunctionResponse("f", {"output": 1}, "1"), FunctionResponse("g", {"output": 2}, "2")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((), "no messages"),
        ((Message.user("a"), CALL), "have no answer"),
        ((Message.user("a"), CALL, Message.user("b")), "must answer"),
        ((Message.user("a"), CALL, Message.tool([F])), "answers"),
        ((Message.user("a"), CALL, Message.tool([G, F])), "answers"),
        ((Message.user("a"), CALL, Message.tool([F, G, G])), "answers"),
        ((Message.user("a"), CALL, Message.tool([F]), Message.tool([G])), "answers"),
        ((Message.user("a"), Message.tool([F])), "answers"),
        ((Message.user("a"), CALL, Message.user(F, G)), "role tool"),
        ((Message.user(FunctionCall("f", "{}", "1")),), "its role is user"),
    ],
)
async def test_a_history_that_a_strict_provider_refuses_is_refused(
    messages: tuple[Message, ...], reason: str
):
    model = ScriptedModel("Hi")
    with pytest.raises(ModelError, match=reason) as caught:
        await said_by(model, ModelRequest(messages))
    assert caught.value.status == 400
    assert len(model.requests) == 1
    lenient = ScriptedModel("Hi", strict=False)
    assert await said_by(lenient, ModelRequest(messages))


async def test_a_complete_history_is_taken():
    messages = (Message.system("s"), Message.user("a"), CALL, Message.tool([F, G]))
    assert await said_by(ScriptedModel("Hi"), ModelRequest((*messages, Message.user("b"))))
