"""Logs of real runs: every outcome of a call, and runs interrupted after every event."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from tests.console.toolbox import Toolbox

from windlass import Message, ModelError, RunEvent, tool
from windlass.loop.approval import Approval, Approvals
from windlass.loop.executor import ToolExecutor
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.loop.policy import Policy
from windlass.runs.event_log import MemoryLog
from windlass.runs.run import AsyncRun
from windlass.testing import ScriptedModel, call, calls, cut, raw_call, say, think

__all__ = ["RealLog", "cut_and_resumed", "outcomes"]


class RealLog(NamedTuple):
    """A run's events, and for each of its rounds whether the model was offered no tools."""

    name: str
    events: list[RunEvent]
    tools_off: list[bool] | None = None


Decide = Callable[[Any], Approval] | None

EVERY_OUTCOME = [
    think(
        "Let me see.",
        calls(call("get_weather", city="Rome"), call("divide", dividend=1, divisor=2)),
    ),
    calls(
        call("divide", dividend=1, divisor=0),
        call("crash"),
        call("divide", dividend="one"),
        raw_call("quote", '{"text": "cut o'),
        call("fly", to="Rome"),
        call("linger"),
        call("copy_files", count=3),
    ),
    say("All is done."),
]


@tool(timeout=0.01)
async def linger() -> str:
    """Takes longer than it may."""
    await asyncio.Event().wait()
    return "never"


def _plan(script: Any, box: Toolbox, decide: Decide = None, **policy: Any) -> RunPlan:
    tools = {each.name: each for each in (*box.tools(), linger)}
    return RunPlan(
        run_id="run_1",
        model=ScriptedModel(script),
        messages=(Message.user("Go."),),
        tools=tools,
        declarations=tuple(each.declaration for each in tools.values()),
        policy=Policy(**policy),
        executor=ToolExecutor(),
        approvals=Approvals(decide, wait=False, timeout=60),
        live=True,
    )


async def _told(name: str, plan: RunPlan) -> RealLog:
    run = AsyncRun(plan)
    await run.task
    return _log(name, run, plan)


def _log(name: str, run: AsyncRun, plan: RunPlan) -> RealLog:
    model = cast("ScriptedModel", plan.model)
    return RealLog(name, list(run.log.recorded()), [not asked.tools for asked in model.requests])


async def outcomes() -> list[RealLog]:
    """Runs that ended in each way."""
    box = Toolbox()
    pays = [call("pay", amount=5), "Paid."]
    fails = call("divide", dividend=1, divisor=0)
    return [
        await _told("every outcome", _plan(EVERY_OUTCOME, box)),
        await _told("a yes", _plan(pays, box, lambda _: Approval(True))),
        await _told(
            "a yes to other arguments",
            _plan(pays, box, lambda _: Approval(True, arguments={"amount": 1})),
        ),
        await _told("a no", _plan(pays, box, lambda _: Approval(False, reason="Not today."))),
        await _told("the last round", _plan([call("crash"), "Done."], box, max_rounds=1)),
        await _told("no rounds at all", _plan(["Done."], box, max_rounds=0)),
        await _told("a call that keeps failing", _plan([fails, fails, fails, "Enough."], box)),
        await _told("a model that fails", _plan([fails, ModelError("gone")], box)),
        await _told("a turn that is cut off", _plan([cut(calls(fails, fails), after=3)], box)),
        await _stopped(),
    ]


async def _stopped() -> RealLog:
    """Stopped while two tools run: the effect of one is known, that of the other is not."""
    box = Toolbox()
    rome, ann = box.hold("Rome"), box.hold("Ann")
    both = calls(call("get_weather", city="Rome"), call("send_mail", to="Ann"))
    plan = _plan([both], box)
    run = AsyncRun(plan)
    await rome.reached.wait()
    await ann.reached.wait()
    await run.stop()
    return _log("a stop", run, plan)


async def cut_and_resumed() -> list[RealLog]:
    """A run that is interrupted after each of its events, and resumed."""
    whole = (await _told("whole", _plan(EVERY_OUTCOME, Toolbox()))).events
    logs: list[RealLog] = []
    for number in range(1, len(whole)):
        prefix = whole[:number]
        history = History(prefix)
        asked = sum(record.turn is not None for record in history.rounds.values())
        plan = _plan(EVERY_OUTCOME[asked:], Toolbox())
        run = AsyncRun(plan, log=MemoryLog(prefix), history=history)
        await run.task
        logs.append(RealLog(f"cut off after {number} events", prefix))
        logs.append(RealLog(f"gone on with after {number} events", list(run.log.recorded())))
    return logs
