"""A run that goes by itself: the loop in a task of its own, writing to its log."""

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.errors import WindlassError
from windlass.events import Phase, StopReason
from windlass.loop.approval import Approval
from windlass.loop.loop import Loop, RunPlan
from windlass.loop.reply import Reply
from windlass.runs.log import Follower, MemoryLog

__all__ = ["AsyncRun"]


class AsyncRun:
    """Started when made. It goes on whether or not anybody reads it."""

    def __init__(self, plan: RunPlan, on_reply: Callable[[Reply], None] | None = None) -> None:
        self.id = plan.run_id
        self.log = MemoryLog()
        self._loop = Loop(plan, self.log.append)
        self._on_reply = on_reply
        self._reply: Reply | None = None
        self._error: Exception | None = None
        self._stopping = False
        self.task: asyncio.Task[None] = asyncio.create_task(self._go(), name=f"windlass {self.id}")

    @property
    def phase(self) -> Phase:
        return self._loop.phase

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended; None while it goes."""
        return self._loop.stop_reason

    @property
    def error(self) -> Exception | None:
        """What the run failed with, if it failed."""
        return self._error

    @property
    def reply(self) -> Reply:
        """The reply of an ended run. Raises the run's error, or `WindlassError` while it goes."""
        if self._error is not None:
            raise self._error
        if self._reply is None:
            raise WindlassError("the run has not ended yet")
        return self._reply

    def events(self, after: int = 0) -> Follower:
        return self.log.follow(after)

    async def result(self) -> Reply:
        """Waits for the end. Raises what the run failed with."""
        await asyncio.wait([self.task])
        return self.reply

    async def stop(self) -> None:
        """Ends the run now: tools are cancelled, and each answer says what is known of it."""
        if not self.task.done():
            self._stopping = True
            self.task.cancel()
            await asyncio.wait([self.task])
            if self._reply is None and self._error is None:
                # Cancelled before its first step: nothing has happened, and that is said too.
                self._loop.end("stopped")
                self._reply = self._loop.reply()

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for it; False if none with that id does."""
        approval = Approval(approved, arguments, reason)
        return self._loop.plan.approvals.resolve(call_id, approval)

    async def _go(self) -> None:
        try:
            self._reply = await self._loop.run()
        except asyncio.CancelledError:
            self._reply = self._loop.reply()
            if not self._stopping:
                raise
        except Exception as error:  # noqa: BLE001 - kept for whoever asks for the result
            self._error = error
            return
        if self._on_reply is not None:
            self._on_reply(self._reply)
