"""A run that goes by itself: the loop in a task of its own, writing to its log."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from windlass.errors import StorageError, WindlassError, raisable
from windlass.events import Phase, StopReason
from windlass.loop.approval import Approval
from windlass.loop.history import History
from windlass.loop.loop import Loop, RunPlan
from windlass.reply import Reply
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.records import Order

__all__ = ["AsyncRun"]


class AsyncRun:
    """Started when made. It goes on whether or not anybody reads it.

    With a `history` it goes on from there, in the log that the history was read from.
    """

    def __init__(
        self,
        plan: RunPlan,
        on_reply: Callable[[Reply], None] | None = None,
        *,
        log: MemoryLog | None = None,
        history: History | None = None,
        orders: Sequence[Order] = (),
    ) -> None:
        """`orders` have waited for the run: it obeys them before its first step."""
        self.id = plan.run_id
        self._process = os.getpid()
        self.log = log or MemoryLog()
        self.log.on_order, self.log.on_failure = self._obey, self._give_up
        self.log.in_use = True
        self._loop = Loop(plan, self.log.append, self.log.settled, history)
        self._reply: Reply | None = None
        self._error: Exception | None = None
        self._stepped = self._stopping = False
        self._obeying: set[asyncio.Task[None]] = set()
        self.task: asyncio.Task[None] = asyncio.create_task(
            self._go(on_reply), name=f"windlass {self.id}"
        )
        kept = self.log
        self.task.add_done_callback(lambda _: kept.release())
        for order in orders:
            self._obey(order)

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
            raise raisable(self._error)
        if self._reply is None:
            raise WindlassError("the run has not ended yet")
        return self._reply

    @property
    def inherited(self) -> bool:
        """Whether it is active in the process that this one was forked from."""
        return self._process != os.getpid() and not self.task.done()

    def events(self, after: int = 0) -> Follower:
        return self.log.follow(after)

    async def result(self) -> Reply:
        """Waits for the end. Raises what the run failed with."""
        self._check_process()
        await asyncio.wait([self.task])
        return self.reply

    async def stop(self) -> None:
        """Ends the run now: tools are cancelled, and each answer says what is known of it."""
        self._check_process()
        if not self.task.done():
            self._stopping = True
            if self._stepped:
                self.task.cancel()
            await asyncio.wait([self.task])

    async def leave(self) -> None:
        """Ends the run in this process alone: its log stays open, for another to go on with."""
        with contextlib.suppress(StorageError):  # it is told to the readers
            await self.settled()
        self.log.close()
        await self.stop()

    async def settled(self) -> None:
        """Waits until all that has happened is kept, where it is kept and not left.

        Raises `StorageError` if it cannot be.
        """
        left = self.log.closed and self.log.failure is None
        if self.log.settled is None or left:
            return
        try:
            await self.log.settled()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not self.log.closed:
                raise
            # another task has left the run meanwhile, which closes its log

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

    def _check_process(self) -> None:
        if self.inherited:
            raise WindlassError(f"{self.id} is a run of the process that this one was forked from")

    def _obey(self, order: Order) -> None:
        if order.kind == "approve":
            self.approve(
                order.call_id, order.approved, arguments=order.arguments, reason=order.reason
            )
            return
        if not self._stepped:
            self._stopping = True
            return
        stopping = asyncio.create_task(self.stop())
        self._obeying.add(stopping)
        stopping.add_done_callback(self._obeying.discard)

    def _give_up(self) -> None:
        """Ends what still runs: nothing that happens now can be written down."""
        if self._stepped and self.stop_reason is None:
            self._stopping = True
            self.task.cancel()

    async def _go(self, on_reply: Callable[[Reply], None] | None) -> None:
        self._stepped = True
        try:
            if self._stopping:  # before the first step
                on_reply = None
                self._loop.end("stopped")
                self._reply = self._loop.reply()
            else:
                self._reply, self._error = await _outcome(self._loop)
        except asyncio.CancelledError:
            self._reply = self._loop.reply()
            if not self._stopping:
                raise
        try:
            await self.settled()
        except StorageError as error:
            self._error = self._error or error.with_traceback(None)
        if on_reply is not None and self._error is None and self._reply is not None:
            on_reply(self._reply)


async def _outcome(loop: Loop) -> tuple[Reply | None, Exception | None]:
    """The reply, or what the run failed with.

    A function of its own, because the error's traceback holds the frame that has caught it: a
    method of the run, which holds the error, would be a reference cycle.
    """
    try:
        return await loop.run(), None
    except Exception as error:  # noqa: BLE001 - kept for whoever asks for the result
        return None, error
