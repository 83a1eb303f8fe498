"""Executes calls outside of a run, by the same rules."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from windlass.content import FunctionCall
from windlass.events import RunEvent
from windlass.loop.approval import Approval, ApprovalHook, Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext
from windlass.loop.policy import Policy
from windlass.tool import Tool

OTHER_CALL = "the approval covers only the call itself"


@asynccontextmanager
async def outside_a_run(
    run_id: str,
    tools: Mapping[str, Tool],
    policy: Policy,
    *,
    approve: ApprovalHook | None = None,
    emit: Callable[[RunEvent], None] = lambda _: None,
    slots: asyncio.Semaphore | None = None,
) -> AsyncGenerator[RunContext, None]:
    """A context for calls that no run makes. Tools read `run_id`.

    `approve` decides about tools that need an approval; without it they are denied. `slots` limits
    how many calls run at once, if other calls share the limit.
    """
    async with Dependencies() as dependencies:
        yield RunContext(
            run_id=run_id,
            tools=tools,
            policy=policy,
            emit=emit,
            approvals=Approvals(approve, wait=False, timeout=policy.approval_timeout),
            dependencies=dependencies,
            slots=slots or asyncio.Semaphore(policy.max_parallel),
        )


def yes_to(call: FunctionCall) -> ApprovalHook:
    """Approves this call, but no approval that its tool requests while it runs."""

    async def decide(asked: FunctionCall) -> Approval:
        approved = asked.id == call.id
        return Approval(approved, reason=None if approved else OTHER_CALL)

    return decide
