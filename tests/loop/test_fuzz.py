"""Random models and tools: every call is answered once, and no task is left."""

import asyncio
import json
import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.thoroughness import WHOLE

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
from windlass.models import Retry, create_model
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
    calls,
    cut,
    disconnect,
    malformed_json,
    malformed_sse,
    raw_call,
    refuse,
    say,
    tool_results,
)

pytestmark = pytest.mark.sweep

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@tool
def takes_much(city: str, count: int = 1, tags: list[str] | None = None) -> str:
    """Takes arguments of several types."""
    return f"{city}{count}{tags}"


@given(st.text() | json_values.map(json.dumps))
def test_random_arguments_never_break_a_run(text: str) -> None:
    async def go() -> None:
        client = AsyncClient(ScriptedModel([raw_call("takes_much", text, id="a"), "done"]))
        reply = await client.generate("?", tools=[takes_much])
        assert reply.text == "done"
        assert [r.id for r in reply.results] == ["a"]

    asyncio.run(go())


@given(st.dictionaries(st.sampled_from(["city", "count", "tags", "x"]), json_values))
def test_random_values_for_known_fields_never_break_a_run(arguments: dict[str, Any]) -> None:
    test_random_arguments_never_break_a_run.hypothesis.inner_test(json.dumps(arguments))  # pyright: ignore[reportFunctionMemberAccess]


@tool(idempotent=True, retries=1)
async def look(n: int) -> int:
    """Harmless."""
    await asyncio.sleep(0)
    return n


@tool
def work(n: int) -> int:
    """Fails sometimes."""
    if n % 5 == 0:
        raise ToolError("no")
    if n % 7 == 0:
        raise RuntimeError("crash")
    return n


@tool(timeout=0.005)
async def stuck() -> None:
    """Never answers."""
    await asyncio.Event().wait()


def random_turns(chance: random.Random, faults: list[Any]) -> Callable[[Any], Any]:
    """A model with random calls and random failures."""

    def turn(request: Any) -> Any:
        if len(tool_results(request)) > 8 or chance.random() < 0.2:
            return say("done")
        asked = calls(
            *chance.choices(
                [
                    call("look", n=1),
                    call("work", n=chance.randint(1, 50)),
                    call("work", n="many"),
                    call("nope"),
                    raw_call("look", '{"n": "x"}'),
                    call("stuck"),
                ],
                weights=[8, 8, 2, 2, 2, 1],
                k=chance.randint(1, 4),
            ),
            text="Hm. " if chance.random() < 0.5 else "",
            finish="length" if chance.random() < 0.05 else None,
        )
        if chance.random() < 0.9:
            return asked
        return chance.choice([cut(asked, after=chance.randint(0, 6)), *faults])

    return turn


HTTP_FAULTS = [
    refuse(429, "slow down", retry_after=0),
    refuse(500, "down"),
    refuse(400, "no"),
    disconnect(),
    malformed_json(),
    malformed_sse(),
]
FAKES: dict[str, Any] = {
    "openai": FakeOpenAI,
    "responses": FakeResponses,
    "gemini": FakeGemini,
    "anthropic": FakeAnthropic,
}
QUICK = Retry(attempts=2, first_wait=0.001)


@pytest.mark.parametrize("wire", ["scripted", *FAKES])
async def test_many_runs_with_random_faults_answer_every_call_once(wire: str) -> None:
    count = 1_000 if WHOLE else 100
    chance = random.Random(7)
    before = set(threading.enumerate())
    with ExitStack() as stack:
        if wire == "scripted":
            model: Any = ScriptedModel(random_turns(chance, [refuse(500, "down")]))
        else:
            fake = FAKES[wire]
            upstream = stack.enter_context(fake(random_turns(chance, HTTP_FAULTS)))
            model = create_model(f"{wire}/m", base_url=upstream.base_url, api_key="k", retry=QUICK)
        client = AsyncClient(model, max_running=count)
        runs = [await client.start("?", tools=[look, work, stuck]) for _ in range(count)]
        for run in chance.sample(runs, count // 20):
            await asyncio.sleep(0)
            await run.stop()
        await asyncio.wait([run.task for run in runs])
        for run in runs:
            _check([event async for event in client.subscribe(run.id)])
            if run.error is None:
                _check_history(run.reply.messages)
            else:
                assert isinstance(run.error, ModelError)
        assert {run.stop_reason for run in runs} >= {"answer", "stopped", "error", "max_rounds"}
        await client.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert left <= {"windlass-tool"}


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
            assert following is not None
            assert [response.id for response in following.responses] == asked
