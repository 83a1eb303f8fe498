"""Approvals: a person decides whether a tool runs. Any failure here denies the call."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from windlass.content import FunctionCall
from windlass.events import ApprovalRequested, ApprovalResolved, RunEvent
from windlass.loop.threads import in_thread

log = logging.getLogger("windlass.loop")

TIMED_OUT = "the approval timed out"
NO_APPROVER = "it needs an approval, and this run has no way to ask for one"


class Approval(Struct, frozen=True):
    """A decision. `arguments`, if given, replace those of the model."""

    approved: bool
    arguments: dict[str, Any] | None = None
    reason: str | None = None


ApprovalHook: TypeAlias = Callable[[FunctionCall], "bool | Approval | Awaitable[bool | Approval]"]
Emit: TypeAlias = Callable[[RunEvent], None]


class Approvals:
    """The approvals of one run. A hook decides, or the run waits until `resolve` is called."""

    def __init__(self, hook: ApprovalHook | None, *, wait: bool, timeout: float) -> None:
        self._hook = hook
        self._wait = wait
        self._timeout = timeout
        self._pending: dict[str, tuple[asyncio.Future[Approval], Emit]] = {}

    def expect(self, call_ids: Iterable[str], emit: Emit) -> None:
        """Accepts decisions for calls whose approval an earlier process has requested.

        A resumed run may receive a decision before it reaches the call.
        """
        if self._hook is None and self._wait:
            for call_id in call_ids:
                self._pending[call_id] = (asyncio.get_running_loop().create_future(), emit)

    async def ask(self, call: FunctionCall, emit: Emit, waited: float | None = None) -> Approval:
        """Returns the decision for this call; it is denied after the time-out or without approver.

        The request and the decision are events. If an earlier process requested the approval
        `waited` seconds ago, it is not requested again, and only the rest of the time-out is left.
        """
        if waited is None:
            emit(ApprovalRequested(call))
            left = self._timeout
        else:
            left = self._timeout - min(max(0.0, waited), self._timeout)
        if self._hook is None and self._wait:
            return await self._resolution(call.id, emit, left)
        decision = Approval(False, reason=NO_APPROVER)
        if self._hook is not None:
            try:
                async with asyncio.timeout(left):
                    decision = await _decision(self._hook, call)
            except TimeoutError:
                decision = Approval(False, reason=TIMED_OUT)
        emit(_resolved(call.id, decision))
        return decision

    def resolve(self, call_id: str, approval: Approval) -> bool:
        """Decides about a waiting call. Returns False if no such call is waiting."""
        future, emit = self._pending.get(call_id, (None, None))
        if future is None or emit is None or future.done():
            return False
        emit(_resolved(call_id, approval))
        future.set_result(approval)
        return True

    async def _resolution(self, call_id: str, emit: Emit, seconds: float) -> Approval:
        if call_id not in self._pending:
            self._pending[call_id] = (asyncio.get_running_loop().create_future(), emit)
        future, _ = self._pending[call_id]
        alarm = future.get_loop().call_later(
            seconds, self.resolve, call_id, Approval(False, reason=TIMED_OUT)
        )
        try:
            return await future
        finally:
            alarm.cancel()
            del self._pending[call_id]


def _resolved(call_id: str, decision: Approval) -> ApprovalResolved:
    return ApprovalResolved(call_id, decision.approved, decision.arguments, decision.reason)


async def _decision(hook: ApprovalHook, call: FunctionCall) -> Approval:
    try:
        if inspect.iscoroutinefunction(hook):
            decision = await hook(call)
        else:
            decision = await in_thread(hook, call)
            if inspect.isawaitable(decision):
                decision = await decision
    except Exception:
        log.exception("Approval hook failed; call denied", extra={"tool": call.name})
        return Approval(False, reason="the approval hook failed")
    return decision if isinstance(decision, Approval) else Approval(decision is True)
