"""`windlass.remote`: a session of workers, and the tools that its workers may call here."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.content import FunctionCall
from windlass.loop.approval import Approval
from windlass.loop.executor import ToolExecutor, outside_a_run
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.tool import as_tools
from windlass.toolsets.remote import RemoteSession
from windlass.toolsets.remote.frames import Affinity, CallRefused, HostCall, Result
from windlass.toolsets.remote.host import HostCaller
from windlass.toolsets.remote.toolset import DEFAULT_SERVER


def remote(
    session: str,
    *,
    nats: str | Sequence[str] = DEFAULT_SERVER,
    affinity: Affinity = "hint",
    host_tools: Iterable[Any] = (),
    **connection: Any,
) -> RemoteSession:
    """The tools of the session's workers, which may call `host_tools` during these calls.

    `connection` is passed to `nats.connect`. Raises `ConfigError` for an invalid session and for
    invalid tools.
    """
    tools = HostTools(host_tools)
    return RemoteSession(
        session,
        nats=nats,
        affinity=affinity,
        on_host_call=tools.run if tools else None,
        **connection,
    )


class HostTools:
    """Tools that workers may call, under the same rules as for a model."""

    def __init__(self, tools: Iterable[Any], executor: ToolExecutor | None = None) -> None:
        self._tools = {tool.name: tool for tool in as_tools(tools)}
        self._executor = executor or ToolExecutor()
        self._numbers = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._tools)

    async def run(self, caller: HostCaller, call: HostCall) -> Result | CallRefused:
        """Runs a tool and returns its result. Approvals come from the run of the worker's call."""
        if call.name not in self._tools:
            return CallRefused(reason=f"the host has no tool {call.name!r} for workers")
        context = caller.context
        call_id = f"{context.call_id or call.key}:host:{next(self._numbers)}"
        asked = FunctionCall(call.name, call.arguments, call_id)

        async def approve(call: FunctionCall) -> Approval:
            decision = await context.ask(call)
            return Approval(decision.approved, decision.arguments, decision.reason)

        async with outside_a_run(context.run_id, self._tools, Policy(), approve=approve) as run:
            [answer] = await answers_to([asked], self._executor, run)
        return Result(
            response=answer.response,
            outcome=answer.outcome,
            effect_unknown=answer.effect_unknown,
        )
