"""A person's yes before a tool runs. Whatever goes wrong here, the answer is no."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Struct

from windlass.content import FunctionCall
from windlass.loop.threads import in_thread

__all__ = ["Approval", "ApprovalHook", "Approvals"]

log = logging.getLogger("windlass.loop")


class Approval(Struct, frozen=True):
    """A decision. `arguments`, if given, take the place of the model's."""

    approved: bool
    arguments: dict[str, Any] | None = None
    reason: str | None = None


ApprovalHook: TypeAlias = Callable[[FunctionCall], "bool | Approval | Awaitable[bool | Approval]"]


class Approvals:
    """The approvals of one run: asked of a hook, or waited for until somebody calls `resolve`."""

    def __init__(self, hook: ApprovalHook | None, *, wait: bool, timeout: float) -> None:
        self._hook = hook
        self._wait = wait
        self._timeout = timeout
        self._pending: dict[str, asyncio.Future[Approval]] = {}

    async def ask(self, call: FunctionCall) -> Approval:
        """The decision for this call: a no after the time-out, and when nobody can be asked."""
        try:
            async with asyncio.timeout(self._timeout):
                if self._hook is not None:
                    return await _decision(self._hook, call)
                if self._wait:
                    return await self._resolution(call.id)
        except TimeoutError:
            return Approval(False, reason="nobody answered in time")
        return Approval(False, reason="it needs an approval, and there is nobody to ask")

    def resolve(self, call_id: str, approval: Approval) -> bool:
        """Gives the decision for a waiting call; False if no such call waits."""
        future = self._pending.get(call_id)
        if future is None or future.done():
            return False
        future.set_result(approval)
        return True

    async def _resolution(self, call_id: str) -> Approval:
        future = self._pending[call_id] = asyncio.get_running_loop().create_future()
        try:
            return await future
        finally:
            del self._pending[call_id]


async def _decision(hook: ApprovalHook, call: FunctionCall) -> Approval:
    try:
        if inspect.iscoroutinefunction(hook):
            decision = await hook(call)
        else:
            decision = await in_thread(hook, call)
            if inspect.isawaitable(decision):
                decision = await decision
    except Exception:
        log.exception("The approval hook failed; the call is denied", extra={"tool": call.name})
        return Approval(False, reason="the approval failed")
    return decision if isinstance(decision, Approval) else Approval(decision is True)
