"""`AsyncRun`: a run in the background. The loop runs in its own task and writes to a log."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Generic

from windlass.errors import StorageError, WindlassError, raisable
from windlass.events import Phase, StopReason
from windlass.loop.approval import Approval
from windlass.loop.history import History
from windlass.loop.loop import Loop, RunPlan
from windlass.reply import OutputT, Reply
from windlass.runs.event_log import MemoryFollower, MemoryLog
from windlass.runs.records import Order


class AsyncRun(Generic[OutputT]):
    """A run in the background. The constructor starts it. It does not need a reader.

    With a `history`, the run is resumed, and `log` is the log of that history.
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
        """`orders` are pending orders, which the run handles before its first step."""
        self.id = plan.run_id
        self._process = os.getpid()
        self.log = log or MemoryLog()
        self.log.on_order, self.log.on_failure = self._handle_order, self._give_up
        self.log.in_use = True
        self._loop = Loop(
            plan, self.log.append, self.log.settled, history, emit_all=self.log.extend
        )
        self._reply: Reply[OutputT] | None = None
        self._error: Exception | None = None
        self._stepped = self._stopping = False
        self._stop_tasks: set[asyncio.Task[None]] = set()
        self.task: asyncio.Task[None] = asyncio.create_task(
            self._run(on_reply), name=f"windlass {self.id}"
        )
        run_log = self.log
        self.task.add_done_callback(lambda _: run_log.release())
        for order in orders:
            self._handle_order(order)

    @property
    def phase(self) -> Phase:
        return self._loop.phase

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended; None while it is running."""
        return self._loop.stop_reason

    @property
    def error(self) -> Exception | None:
        """The error that the run failed with; None if it did not fail."""
        return self._error

    @property
    def reply(self) -> Reply[OutputT]:
        """The reply of an ended run. Raises the run's error, and `WindlassError` before the end."""
        if self._error is not None:
            raise raisable(self._error)
        if self._reply is None:
            raise WindlassError("the run has not ended yet")
        return self._reply

    @property
    def inherited(self) -> bool:
        """Whether the run is active in the parent process that forked this one."""
        return self._process != os.getpid() and not self.task.done()

    def events(self, after: int = 0) -> MemoryFollower:
        return self.log.follow(after)

    async def result(self) -> Reply[OutputT]:
        """Waits for the end of the run. Raises the run's error."""
        self._check_process()
        await asyncio.wait([self.task])
        return self.reply

    async def stop(self) -> None:
        """Stops the run now, and cancels its tools. Each call gets an answer."""
        self._check_process()
        if not self.task.done():
            self._stopping = True
            if self._stepped:
                self.task.cancel()
            await asyncio.wait([self.task])

    async def leave(self) -> None:
        """Stops the run here without ending it, so that another process can resume it."""
        with contextlib.suppress(StorageError):  # the readers receive it
            await self.settled()
        self.log.close()
        await self.stop()

    async def settled(self) -> None:
        """Waits until all events are stored. Returns at once without a stored log, and if detached.

        Raises `StorageError` if they cannot be stored.
        """
        detached = self.log.closed and self.log.failure is None
        if self.log.settled is None or detached:
            return
        try:
            await self.log.settled()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not self.log.closed:
                raise
            # another task detached the run meanwhile, which closes its log

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for approval. Returns False if no such call waits."""
        approval = Approval(approved, arguments, reason)
        return self._loop.plan.approvals.resolve(call_id, approval)

    def _check_process(self) -> None:
        if self.inherited:
            raise WindlassError(f"{self.id} is a run of the parent process: a fork cannot use it")

    def _handle_order(self, order: Order) -> None:
        if order.kind == "approve":
            self.approve(
                order.call_id, order.approved, arguments=order.arguments, reason=order.reason
            )
            return
        if not self._stepped:
            self._stopping = True
            return
        stopping = asyncio.create_task(self.stop())
        self._stop_tasks.add(stopping)
        stopping.add_done_callback(self._stop_tasks.discard)

    def _give_up(self) -> None:
        """Cancels the run when its log has failed, since no further event can be stored."""
        if self._stepped and self.stop_reason is None:
            self._stopping = True
            self.task.cancel()

    async def _run(self, on_reply: Callable[[Reply], None] | None) -> None:
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
    """Returns the reply, or the error that the run failed with.

    This is a function, not a method: the error's traceback references this frame, and a frame with
    the run, which holds the error, would be a reference cycle.
    """
    try:
        return await loop.run(), None
    except Exception as error:  # noqa: BLE001 - `result` raises it
        return None, error
