"""Every call has exactly one answer in the log, whatever interrupts or ends the run."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runs.test_resume import Ledger, first_of

from windlass import RunEvent, Tool, tool
from windlass.content import Message
from windlass.errors import ModelError, RunInterrupted
from windlass.events import (
    ApprovalRequested,
    RunEnded,
    RunResumed,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.loop.approval import Approvals
from windlass.loop.executor import ToolExecutor, ToolJob
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.reply import ToolAnswer
from windlass.runs.event_log import MemoryLog
from windlass.runs.run import AsyncRun
from windlass.testing import Gate, ScriptedModel, call, calls, say, slow

FIRST = calls(
    call("look", what="a", id="a"),
    call("pay", amount=1, id="b"),
    call("pay", amount=2, id="c"),
    text="Let me see.",
)
SCRIPT = [
    FIRST,
    calls(
        call("erase", path="x", id="d"),
        call("pay", amount=3, id="e"),
        call("look", what="b", id="f"),
    ),
    call("pay", amount=4, id="g"),
    say("All is paid."),
]
STEPS = 16
"""How many turns of the event loop a resumed run is given at most before it is stopped."""
IDEMPOTENT = "look"


def tools_of(ledger: Ledger, **options: Any) -> dict[str, Tool]:
    @tool(approve=True, **options)
    async def erase(path: str) -> str:
        """Erases a file."""
        await asyncio.sleep(0)
        return f"erased {path}"

    return {**ledger.tools, "erase": erase}


def plan_of(script: Any, **policy: Any) -> RunPlan:
    tools = tools_of(Ledger())
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


def approving(run: AsyncRun) -> AsyncRun:
    """The run, with all calls approved."""
    loop = asyncio.get_running_loop()

    def hear(event: RunEvent) -> None:
        if isinstance(event, ApprovalRequested):
            loop.call_soon(run.approve, event.call.id)

    run.log.listen(hear)
    return run


async def recorded_run() -> list[RunEvent]:
    """A whole run. Its first call begins while its turn still arrives."""
    gate = Gate()
    run = approving(AsyncRun(plan_of([slow(FIRST, gate, after=7), *SCRIPT[1:]])))
    async for event in run.events():
        if isinstance(event, ToolRunStarted):
            gate.open()
    events = list(run.log.recorded())
    early = next(n for n, e in enumerate(events) if isinstance(e, ToolRunStarted))
    turn = next(n for n, e in enumerate(events) if isinstance(e, TurnEnded))
    assert early < turn
    return events


def resumed(
    prefix: Sequence[RunEvent],
    script: Any = None,
    refusal: RunInterrupted | None = None,
    **policy: Any,
) -> AsyncRun:
    """Resumes an interrupted run; the model continues the script."""
    history = History(prefix, refusal)
    asked = sum(record.turn is not None for record in history.rounds.values())
    plan = plan_of(SCRIPT[asked:] if script is None else script, **policy)
    return approving(AsyncRun(plan, log=MemoryLog(prefix), history=history))


def check(events: Sequence[RunEvent], where: Any) -> None:
    """Fails if a call has no answer, or two, or one with the wrong content."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), where
    assert isinstance(events[-1], RunEnded), where
    assert sum(event.done for event in events) == 1, where
    answers: dict[str, list[tuple[int, ToolRunEnded]]] = {}
    starts: dict[str, list[int]] = {}
    for place, event in enumerate(events):
        if isinstance(event, ToolRunEnded):
            answers.setdefault(event.response.id, []).append((place, event))
        elif isinstance(event, ToolRunStarted):
            starts.setdefault(event.call.id, []).append(place)
    rounds = History(events).rounds.values()
    in_turns = {call.id for record in rounds if record.turn for call in record.turn.calls}
    assert in_turns | set(starts) == set(answers), where
    for call_id, given in answers.items():
        [(place, end)] = given
        begun = starts.get(call_id, [])
        assert all(start < place for start in begun), (where, call_id)
        if not begun:
            assert end.outcome in ("not_run", "denied"), (where, call_id)
        elif any(isinstance(event, RunResumed) for event in events[begun[-1] : place]):
            unknown = end.response.name != IDEMPOTENT
            assert (end.outcome, end.effect_unknown) == ("interrupted", unknown), (where, call_id)
            assert unknown == ("effect unknown" in str(end.response.error)), (where, call_id)


def check_continues(messages: Sequence[Message], where: Any) -> None:
    """Fails if a model would refuse the conversation: the answers to a turn's calls follow the
    turn, in call order."""
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        if message.calls:
            assert following is not None, where
            assert following.role == "tool", where
            ids = [response.id for response in following.responses]
            assert ids == [call.id for call in message.calls], where


def check_ended(run: AsyncRun, where: Any) -> None:
    events = run.log.recorded()
    check(events, where)
    reply = History(events).reply()
    check_continues(reply.messages, where)
    if run.error is None:
        assert reply == run.reply, where


@pytest.mark.sweep
async def test_a_run_that_is_stopped_as_it_is_resumed_answers_its_calls() -> None:
    events = await recorded_run()
    for kept in range(1, len(events)):
        for steps in range(STEPS):
            run = resumed(events[:kept])
            for _ in range(steps):
                await asyncio.sleep(0)
            await run.stop()
            assert steps or run.stop_reason == "stopped"
            check_ended(run, (kept, steps))


async def test_the_effect_of_a_started_call_is_reported_as_unknown() -> None:
    events = await recorded_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    run = resumed(events[:kept])
    await run.stop()
    after = list(run.log.recorded())[kept:]
    assert isinstance(after[0], RunResumed)
    ends = [(e.response.id, e.outcome, e.effect_unknown) for e in after if type(e) is ToolRunEnded]
    assert ends == [("b", "interrupted", True), ("c", "not_run", False)]
    assert isinstance(after[-1], RunEnded)
    assert after[-1].reason == "stopped"


class Queue(ToolExecutor):
    """Blocks the start of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def execute(self, job: ToolJob) -> ToolAnswer:
        if job.call.id == "b":
            self.reached.set()
            await asyncio.Future()
        return await super().execute(job)


async def test_a_call_that_is_stopped_while_it_waits_to_run_again_has_an_unknown_effect() -> None:
    events = await recorded_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    queue = Queue()
    plan = replace(plan_of(SCRIPT, on_interrupt="retry"), executor=queue)
    run = AsyncRun(plan, log=MemoryLog(events[:kept]), history=History(events[:kept]))
    await queue.reached.wait()
    await run.stop()
    [end] = [e for e in run.log.recorded() if type(e) is ToolRunEnded and e.response.id == "b"]
    assert (end.outcome, end.effect_unknown) == ("interrupted", True)


async def test_a_run_without_time_left_answers_its_calls() -> None:
    events = await recorded_run()
    for kept in range(1, len(events)):
        old = [replace(event, time=event.time - 3600) for event in events[:kept]]
        run = resumed(old, timeout=60.0)
        await run.task
        check_ended(run, kept)


async def test_a_run_whose_model_fails_after_the_resume_answers_its_calls() -> None:
    events = await recorded_run()
    for kept in range(1, len(events)):
        run = resumed(events[:kept], lambda _: ModelError("the model is gone"))
        await run.task
        check_ended(run, kept)


async def test_a_run_that_may_not_resume_answers_its_calls() -> None:
    events = await recorded_run()
    for kept in range(1, len(events)):
        for stop in (False, True):
            run = resumed(events[:kept], refusal=RunInterrupted("its tools are missing: pay"))
            await (run.stop() if stop else run.task)
            check_ended(run, (kept, stop))


async def test_a_run_that_is_interrupted_twice_answers_its_calls() -> None:
    events = await recorded_run()
    for kept in range(1, len(events)):
        run = resumed(events[:kept])
        await run.task
        check_ended(run, kept)
        again = list(run.log.recorded())
        for more in range(kept + 1, min(kept + 8, len(again))):
            second = resumed(again[:more])
            await second.stop()
            check_ended(second, (kept, more))


@pytest.mark.parametrize("policy", [{"execute_tools": False}, {"max_rounds": 0}])
async def test_calls_that_were_about_to_be_handed_back_are_answered_by_a_stop(
    policy: dict[str, Any],
) -> None:
    events = await recorded_run()
    turn = next(n for n, e in enumerate(events, 1) if isinstance(e, TurnEnded))
    run = resumed(events[:turn], on_limit="return_calls", **policy)
    await run.stop()
    check_ended(run, policy)


async def test_a_stopped_run_distinguishes_calls_of_missing_tools() -> None:
    events = await recorded_run()
    kept = next(n for n, e in enumerate(events, 1) if isinstance(e, ApprovalRequested))
    history = History(events[:kept])
    plan = replace(plan_of(SCRIPT), tools={}, declarations=())
    run = AsyncRun(plan, log=MemoryLog(events[:kept]), history=history)
    await run.stop()
    answers = {e.response.id: e.outcome for e in run.log.recorded() if type(e) is ToolRunEnded}
    assert answers["d"] == "not_run"
    check_continues(History(run.log.recorded()).reply().messages, "tools are missing")


async def test_a_stopped_run_of_an_old_log_without_answers_can_be_continued() -> None:
    events = await recorded_run()
    kept = next(
        n for n, e in enumerate(events, 1) if isinstance(e, ToolRunStarted) and e.call.name == "pay"
    )
    old = MemoryLog(events[:kept])
    old.append(RunResumed(1))
    old.append(RunEnded("stopped"))
    reply = History(old.recorded()).reply()
    check_continues(reply.messages, "an old log")
    assert not reply.pending
    errors = [str(response.error) for response in reply.results]
    assert ["effect unknown" in error for error in errors] == [False, True, False]


async def test_a_stop_while_an_approval_waits_says_that_the_call_did_not_run() -> None:
    run = AsyncRun(plan_of([call("erase", path="x", id="d")]))
    await first_of(ApprovalRequested, run)
    await run.stop()
    check_ended(run, "approval")


async def test_a_second_stop_does_not_wait_for_tools_and_answers_their_calls() -> None:
    stopped, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignores its cancellation."""
        try:
            return await asyncio.Future[str]()
        except asyncio.CancelledError:
            stopped.set()
            await gate.wait()
            raise

    script = [calls(call("stubborn", id="a"), call("stubborn", id="b"))]
    plan = plan_of(script)
    tools = {"stubborn": stubborn}
    run = AsyncRun(replace(plan, tools=tools, declarations=(stubborn.declaration,)))
    async for event in run.events():
        if isinstance(event, ToolRunStarted) and event.call.id == "b":
            break
    first = asyncio.create_task(run.stop())
    await stopped.wait()
    await run.stop()
    check_ended(run, "stopped twice")
    answers = [e for e in run.log.recorded() if isinstance(e, ToolRunEnded)]
    assert [(e.outcome, e.effect_unknown) for e in answers] == [("stopped", True)] * 2
    gate.set()
    await first
    assert run.log.recorded()[-1].done
