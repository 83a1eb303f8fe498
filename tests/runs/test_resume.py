"""An interrupted run resumes from its log after any last event, and only once."""

import asyncio
from collections import Counter
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from windlass import RunEvent, Tool, ToolContext, tool
from windlass.content import Message
from windlass.errors import RunInterrupted
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunResumed,
    Status,
    TextDelta,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.loop.approval import Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.loop.policy import EMPTY_ANSWER, Policy
from windlass.model import ToolChoice
from windlass.runs.event_log import MemoryLog
from windlass.runs.persisted_log import Batch, StoredLog
from windlass.runs.planning import resume_refusal
from windlass.runs.run import AsyncRun
from windlass.testing import ScriptedModel, call, calls, say

E = TypeVar("E", ApprovalRequested, ApprovalResolved)


class Ledger:
    """Tools that record each start."""

    def __init__(self, **options: Any) -> None:
        self.begun: Counter[str] = Counter()
        self.keys: list[str] = []
        self.options = options

    @property
    def tools(self) -> dict[str, Tool]:
        @tool(**self.options)
        async def pay(amount: int, context: ToolContext) -> str:
            """Pays."""
            self.begun[f"pay {amount}"] += 1
            self.keys.append(context.call_key)
            return f"paid {amount}"

        @tool(idempotent=True)
        async def look(what: str) -> str:
            """Looks."""
            self.begun[f"look {what}"] += 1
            return f"{what} is there"

        return {"pay": pay, "look": look}


SCRIPT = [
    calls(
        call("pay", amount=1, id="a"),
        call("look", what="a", id="b"),
        call("pay", amount=2, id="c"),
        text="Let me see.",
    ),
    call("pay", amount=3, id="d"),
    say("All is paid."),
]


def plan_of(ledger: Ledger, script: Any, **policy: Any) -> RunPlan:
    tools = ledger.tools
    return RunPlan(
        run_id="run_1",
        model=ScriptedModel(script),
        messages=(Message.user("Pay!"),),
        tools=tools,
        declarations=tuple(each.declaration for each in tools.values()),
        policy=Policy(**policy),
        executor=ToolExecutor(),
        approvals=Approvals(None, wait=True, timeout=60),
        live=True,
    )


def by_round(script: list[Any], begins_at: int) -> list[Any]:
    """The rest of the script from that round on."""
    return script[begins_at - 1 :]


async def whole_run(script: Any = SCRIPT, **policy: Any) -> tuple[list[RunEvent], AsyncRun]:
    run = AsyncRun(plan_of(Ledger(), script, **policy))
    await run.result()
    return list(run.log.recorded()), run


async def resumed(
    prefix: list[RunEvent], ledger: Ledger, script: list[Any] = SCRIPT, **policy: Any
) -> AsyncRun:
    history = History(prefix)
    asked = [number for number, record in history.rounds.items() if record.turn is not None]
    plan = plan_of(ledger, by_round(script, len(asked) + 1), **policy)
    run = AsyncRun(plan, log=MemoryLog(prefix), history=history)
    await run.task
    return run


def said(run: AsyncRun) -> list[Any]:
    """The conversation without ids: a turn that is asked for again has new ones."""
    return [
        (
            message.role,
            message.text,
            [(each.name, each.json) for each in message.calls],
            [each.response for each in message.responses],
        )
        for message in run.reply.messages
    ]


def begun(events: list[RunEvent]) -> Counter[str]:
    return Counter(event.call.id for event in events if isinstance(event, ToolRunStarted))


def answered(events: list[RunEvent]) -> Counter[str]:
    return Counter(event.response.id for event in events if isinstance(event, ToolRunEnded))


async def first_of(kind: type[E], run: AsyncRun) -> E:
    """The run's first event of that kind, waited for."""
    async for event in run.events():
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the run has ended without {kind.__name__}")


async def test_the_reply_is_read_from_the_log_as_the_run_gave_it() -> None:
    events, run = await whole_run()
    assert History(events).reply() == replace(run.reply)


async def test_a_run_interrupted_after_any_event_ends_with_the_same_answer() -> None:
    events, whole = await whole_run()
    for kept in range(1, len(events)):
        ledger = Ledger(on_interrupt="retry")
        run = await resumed(events[:kept], ledger)
        assert run.reply.text == whole.reply.text, kept
        assert run.stop_reason == "answer"
        assert said(run) == said(whole)
        assert run.reply.usage == whole.reply.usage
        after = list(run.log.recorded())
        assert after[:kept] == events[:kept]
        assert [event.seq for event in after] == list(range(1, len(after) + 1))
        assert History(after).reply() == run.reply


async def test_a_run_without_a_last_answer_reports_it_once_after_any_interruption() -> None:
    script = [call("pay", amount=1), say("")]
    events, whole = await whole_run(script, max_rounds=1)
    assert (whole.reply.text, whole.stop_reason) == (EMPTY_ANSWER, "max_rounds")
    for kept in range(1, len(events)):
        run = await resumed(events[:kept], Ledger(on_interrupt="retry"), script, max_rounds=1)
        assert run.reply.text == EMPTY_ANSWER
        after = list(run.log.recorded())
        texts = [event.text for event in after if isinstance(event, TextDelta) and event.text]
        assert texts == [EMPTY_ANSWER], kept
        assert History(after).reply() == run.reply


async def test_a_finished_call_is_never_run_again() -> None:
    events, _ = await whole_run()
    for kept in range(1, len(events)):
        done = answered(events[:kept])
        ledger = Ledger(on_interrupt="retry")
        run = await resumed(events[:kept], ledger)
        again = begun(list(run.log.recorded())[kept:])
        assert not set(again) & set(done), kept
        assert all(count == 1 for count in answered(list(run.log.recorded())).values())


async def test_an_interrupted_call_is_reported_to_the_model_and_not_run_again() -> None:
    events, _ = await whole_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    ledger = Ledger()
    run = await resumed(events[:kept], ledger)
    cut = events[kept - 1]
    assert isinstance(cut, ToolRunStarted)
    [end] = [
        event
        for event in run.log.recorded()
        if isinstance(event, ToolRunEnded) and event.response.id == cut.call.id
    ]
    assert (end.outcome, end.effect_unknown) == ("interrupted", True)
    assert "interrupted, effect unknown" in str(end.response.error)
    assert ledger.begun["pay 1"] == 0
    assert ledger.begun["pay 2"] == 1
    assert run.stop_reason == "answer"


async def test_an_interrupted_call_ends_the_run_if_the_policy_demands_it() -> None:
    events, _ = await whole_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    ledger = Ledger()
    run = await resumed(events[:kept], ledger, on_interrupt="fail")
    assert isinstance(run.error, RunInterrupted)
    assert not ledger.begun["pay 1"]
    assert not ledger.begun["pay 2"]
    end = run.log.recorded()[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "error"
    assert "pay was interrupted" in str(end.error)
    turn = History(run.log.recorded()).rounds[1].turn
    assert turn is not None
    assert set(answered(list(run.log.recorded()))) == {each.id for each in turn.calls}


async def test_a_tools_own_on_interrupt_overrides_the_runs() -> None:
    events, _ = await whole_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    ledger = Ledger(on_interrupt="retry")
    await resumed(events[:kept], ledger, on_interrupt="fail")
    assert ledger.begun["pay 1"] == 1


async def test_text_of_a_cut_turn_is_superseded_by_an_event() -> None:
    events, whole = await whole_run()
    kept = next(n for n, e in enumerate(events, 1) if isinstance(e, TextDelta))
    run = await resumed(events[:kept], Ledger())
    after = list(run.log.recorded())[kept:]
    assert isinstance(after[0], RunResumed)
    assert isinstance(after[1], RoundRestarted)
    assert after[1].round == 1
    assert not any(isinstance(event, RoundStarted) and event.round == 1 for event in after)
    assert run.reply.messages == whole.reply.messages


async def test_early_calls_of_an_interrupted_turn_are_answered_before_the_retry() -> None:
    events, _ = await whole_run([call("look", what="a", id="a"), "done"])
    kept = next(n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted))
    early = [event for event in events[:kept] if not isinstance(event, TurnEnded)]
    numbered: list[RunEvent] = [replace(event, seq=n) for n, event in enumerate(early, 1)]
    run = await resumed(numbered, Ledger(), [call("look", what="a", id="a"), "done"])
    after = list(run.log.recorded())[len(numbered) :]
    assert [type(event) for event in after[:3]] == [RunResumed, ToolRunEnded, RoundRestarted]
    assert isinstance(after[1], ToolRunEnded)
    assert after[1].outcome == "interrupted"
    assert not after[1].effect_unknown
    assert run.reply.text == "done"


async def test_a_call_has_the_same_key_when_it_is_run_again() -> None:
    first = Ledger()
    run = AsyncRun(plan_of(first, SCRIPT))
    await run.result()
    events = list(run.log.recorded())
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    second = Ledger(on_interrupt="retry")
    await resumed(events[:kept], second)
    assert first.keys == second.keys
    assert len(set(first.keys)) == 3


async def test_a_run_can_be_left_twice_at_the_same_time() -> None:
    written: list[Batch] = []

    class Held:
        def put(self, batch: Batch) -> None:
            written.append(batch)

    run = AsyncRun(plan_of(Ledger(), SCRIPT), log=StoredLog("run_1", Held()))
    leaving: list[asyncio.Task[None]] = []
    for count in (1, 2):
        run.log.append(Status("..."))
        leaving.append(asyncio.create_task(run.leave()))
        while len(written) < count:
            await asyncio.sleep(0)
    written[0].on_done(written[0], None)  # the first reader has its event, and closes the log
    await asyncio.gather(*leaving)
    assert run.task.done()


async def test_a_task_that_is_cancelled_while_it_leaves_a_run_is_cancelled() -> None:
    class Held:
        def put(self, batch: Batch) -> None:
            put.set()

    put = asyncio.Event()
    run = AsyncRun(plan_of(Ledger(), SCRIPT), log=StoredLog("run_1", Held()))
    leaving = asyncio.create_task(run.leave())
    await put.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    run.log.close()
    await run.stop()


async def test_an_approval_continues_with_its_remaining_time() -> None:
    script = [call("pay", amount=1, id="a"), "done"]
    ledger = Ledger(approve=True)
    first = AsyncRun(plan_of(ledger, script))
    asked_for = await first_of(ApprovalRequested, first)
    await first.leave()
    prefix = list(first.log.recorded())
    run = AsyncRun(plan_of(ledger, script[1:]), log=MemoryLog(prefix), history=History(prefix))
    events = run.events(len(prefix))
    assert isinstance(await anext(events), RunResumed)
    while not run.approve(asked_for.call.id):
        await asyncio.sleep(0)
    reply = await run.result()
    assert reply.text == "done"
    asked = [e for e in run.log.recorded() if isinstance(e, ApprovalRequested)]
    assert len(asked) == 1
    assert ledger.begun == {"pay 1": 1}


async def test_an_approval_that_expired_while_the_run_was_interrupted_is_denied() -> None:
    script = [call("pay", amount=1, id="a"), "done"]
    ledger = Ledger(approve=True)
    first = AsyncRun(plan_of(ledger, script))
    await first_of(ApprovalRequested, first)
    await first.leave()
    old = [replace(each, time=each.time - 3600) for each in first.log.recorded()]
    run = AsyncRun(plan_of(ledger, script[1:]), log=MemoryLog(old), history=History(old))
    reply = await run.result()
    assert ledger.begun == {}
    assert "the approval timed out" in str(reply.results[0].error)


async def test_a_decision_that_was_logged_is_not_asked_for_again() -> None:
    script = [call("pay", amount=1, id="a"), "done"]
    ledger = Ledger(approve=True)
    first = AsyncRun(plan_of(ledger, script))
    asked = await first_of(ApprovalRequested, first)
    assert first.approve(asked.call.id, arguments={"amount": 7})
    resolved = await first_of(ApprovalResolved, first)
    await first.leave()
    prefix = list(first.log.recorded())[: resolved.seq]
    ledger.begun.clear()
    run = AsyncRun(plan_of(ledger, script[1:]), log=MemoryLog(prefix), history=History(prefix))
    await run.result()
    assert ledger.begun == {"pay 7": 1}


async def test_a_run_that_may_not_continue_answers_its_calls_and_reports_why() -> None:
    events, _ = await whole_run()
    for kept in range(1, len(events)):
        prefix = events[:kept]
        history = History(prefix, RunInterrupted("its tools are missing: pay"))
        ledger = Ledger()
        run = AsyncRun(plan_of(ledger, []), log=MemoryLog(prefix), history=history)
        await run.task
        if isinstance(events[kept - 1], TurnEnded) and kept == len(events) - 1:
            assert run.reply.text == "All is paid."
            continue
        assert str(run.error) == "its tools are missing: pay", kept
        assert ledger.begun == {}
        folded = History(run.log.recorded())
        for record in folded.rounds.values():
            if record.turn is not None:
                assert all(record.calls[each.id].answer for each in record.turn.calls)


async def test_a_run_has_no_more_time_than_it_was_given_at_its_start() -> None:
    events, _ = await whole_run()
    kept = next(n for n, e in enumerate(events, 1) if isinstance(e, RoundStarted))
    old = [replace(each, time=each.time - 3600) for each in events[:kept]]
    run = await resumed(old, Ledger(), timeout=60.0)
    assert run.stop_reason == "deadline"


async def test_ids_that_a_model_uses_again_become_different_ids() -> None:
    script = [call("pay", amount=1, id="call_0"), call("pay", amount=2, id="call_0"), "done"]
    ledger = Ledger()
    run = AsyncRun(plan_of(ledger, script))
    reply = await run.result()
    assert [each.id for each in reply.calls] == ["call_0", "call_0_2"]
    assert [each.id for each in reply.results] == ["call_0", "call_0_2"]
    assert ledger.keys == ["run_1:call_0", "run_1:call_0_2"]


@pytest.mark.parametrize("times", [19, 20])
async def test_a_run_that_never_progresses_is_given_up(times: int) -> None:
    events, _ = await whole_run()
    stuck = [*events[:2], *(RunResumed(n) for n in range(1, times + 1))]
    refusal = resume_refusal(History(stuck), [])
    assert (refusal is not None) == (times == 20)
    assert resume_refusal(History([*stuck, *events[2:]]), []) is None


async def test_a_forced_choice_holds_whatever_the_last_event_was() -> None:
    """The demanded call, and whether it ran, are read from the log."""
    choice = ToolChoice("required", ("pay",))
    script = [call("look", what="a", id="a"), call("pay", amount=1, id="b"), say("Paid.")]
    events, _ = await whole_run(script, tool_choice=choice)
    modes = ["required", "required", "auto"]
    for end in range(1, len(events)):
        history = History(events[:end])
        answered = [record for record in history.rounds.values() if record.turn is not None]
        plan = plan_of(Ledger(), script[len(answered) :], tool_choice=choice)
        run = AsyncRun(plan, log=MemoryLog(events[:end]), history=history)
        await run.result()
        assert isinstance(plan.model, ScriptedModel)
        asked = [request.tool_choice.mode for request in plan.model.requests]
        assert asked == modes[len(answered) :], events[end - 1]
