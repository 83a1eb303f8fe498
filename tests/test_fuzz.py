"""Whatever comes, every call is answered once, and nothing is left behind."""

import asyncio
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass import (
    AsyncClient,
    FunctionCall,
    ModelError,
    RunEnded,
    ToolCallEnded,
    ToolError,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
    tool,
)
from windlass.testing import ScriptedModel, call, calls, cut, raw_call, refuse, say, tool_results

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@tool
def takes_much(city: str, count: int = 1, tags: list[str] | None = None) -> str:
    """Takes arguments of several types."""
    return f"{city}{count}{tags}"


@given(st.text() | json_values.map(lambda v: _json(v)))
def test_random_arguments_never_break_a_run(text: str) -> None:
    async def go() -> None:
        client = AsyncClient(ScriptedModel([raw_call("takes_much", text, id="a"), "done"]))
        reply = await client.generate("?", tools=[takes_much])
        assert reply.text == "done"
        assert [r.id for r in reply.results] == ["a"]

    asyncio.run(go())


@given(st.dictionaries(st.sampled_from(["city", "count", "tags", "x"]), json_values))
def test_random_values_for_known_fields_never_break_a_run(arguments: dict[str, Any]) -> None:
    test_random_arguments_never_break_a_run.hypothesis.inner_test(_json(arguments))  # pyright: ignore[reportFunctionMemberAccess]


async def test_a_thousand_runs_with_random_faults_answer_every_call_once() -> None:
    chance = random.Random(7)

    @tool(idempotent=True, retries=1)
    async def look(n: int) -> int:
        await asyncio.sleep(0)
        return n

    def work(n: int) -> int:
        if chance.random() < 0.2:
            raise ToolError("no")
        if chance.random() < 0.1:
            raise RuntimeError("crash")
        return n

    @tool(timeout=0.005)
    async def stuck() -> None:
        await asyncio.Event().wait()

    def turn(request: Any) -> Any:
        if len(tool_results(request)) > 8 or chance.random() < 0.2:
            return say("done")
        asked = calls(
            *chance.choices(
                [
                    call("look", n=1),
                    call("work", n=2),
                    call("work", n="many"),
                    call("nope"),
                    raw_call("look", '{"n": '),
                    call("stuck"),
                ],
                weights=[8, 8, 2, 2, 2, 1],
                k=chance.randint(1, 4),
            ),
            text="Hm. " if chance.random() < 0.5 else "",
            finish="length" if chance.random() < 0.05 else None,
        )
        fault = chance.random()
        if fault < 0.05:
            return cut(asked, after=chance.randint(0, 6))
        return refuse(500, "down") if fault < 0.1 else asked

    client = AsyncClient(ScriptedModel(turn), max_running=2_000)
    tools = [look, work, stuck]
    runs = [await client.start("?", tools=tools) for _ in range(1_000)]
    stopped = chance.sample(runs, 50)
    for run in stopped:
        await asyncio.sleep(0)
        await run.stop()
    await asyncio.wait([run.task for run in runs])
    for run in runs:
        _check([event async for event in client.subscribe(run.id)])
        if run.error is None:
            _check_history(run.reply.messages)
        else:
            assert isinstance(run.error, ModelError)
    await client.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _check(events: list[Any]) -> None:
    """Calls of whole turns have one answer each; calls of cut turns at most one."""
    assert [type(e) for e in events].count(RunEnded) == 1
    assert isinstance(events[-1], RunEnded)
    answered = [e.response.id for e in events if isinstance(e, ToolRunEnded)]
    started = [e.call.id for e in events if isinstance(e, ToolRunStarted)]
    assert len(answered) == len(set(answered))
    assert set(started) <= set(answered)
    turn: list[str] = []
    for event in events:
        if isinstance(event, ToolCallEnded):
            turn.append(event.call.id)
        elif isinstance(event, TurnEnded):
            assert set(turn) <= set(answered)
            turn = []


def _check_history(messages: Any) -> None:
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        asked = [part.id for part in message.parts if isinstance(part, FunctionCall)]
        if asked:
            assert [response.id for response in following.responses] == asked


def _json(value: object) -> str:
    import json

    return json.dumps(value)
