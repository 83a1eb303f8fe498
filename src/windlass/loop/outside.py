"""Calls that no model has made: answered outside of a run, by the same rules."""

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

__all__ = ["outside_a_run", "yes_to"]

NOT_ASKED = "the yes was to the call itself"


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
    """What calls share that belong together, until all are answered; `run_id` is what tools read.

    `approve` decides about tools that ask for a yes: without it they are denied. `slots` are those
    that calls may take at once, if others take them too.
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
    """Approves this call, and nothing that its tool asks on the way: nobody has seen that."""

    async def decide(asked: FunctionCall) -> Approval:
        approved = asked.id == call.id
        return Approval(approved, reason=None if approved else NOT_ASKED)

    return decide
