"""A run that was started over HTTP, with its owner, its ids for the client and its problem."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import cast

from msgspec.structs import replace

from windlass.emulation.mode import mode_of, native_failure
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.events import RunEnded, RunEvent, ToolRunEnded
from windlass.gateway.http.errors import MALFORMED_CALL, Refused, problem_of
from windlass.gateway.runs.hidden_turns import HiddenTurns, hidden_turn
from windlass.gateway.runs.run_json import RunState
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.reply import Reply
from windlass.runs.event_log import MemoryLog
from windlass.runs.origin import Origin
from windlass.runs.records import Order, RunRecord
from windlass.runs.run import AsyncRun
from windlass.settings import Mode
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem

log = logging.getLogger("windlass.gateway")

EVENT_BYTES = 300
VALUE_BYTES = 8
Observer = Callable[[RunEvent], None]


class GatewayRun(AsyncRun):
    """A run with an owner, the call ids that its client sees, and the problem that ended it."""

    def __init__(
        self,
        plan: RunPlan,
        record: RunRecord,
        origin: Origin,
        *,
        asked_mode: Mode,
        turns: HiddenTurns,
        request_size: int = 0,
        log: MemoryLog | None = None,
        in_memory: bool = False,
        history: History | None = None,
        orders: Sequence[Order] = (),
    ) -> None:
        """`log` stores its events. A resumed run has a `history`, and the `orders` that waited.

        An `in_memory` run is stored when another process looks for it.
        """
        self.plan, self.origin = plan, origin
        self.record = record
        """Its record at its start."""
        self.owner = record.owner
        self.request_size = request_size
        self.in_memory = in_memory
        self.stored = log is not None or in_memory
        """Whether every process of this gateway can find the run."""
        self.call_ids = CallIds(plan.run_id if self.stored else "")
        self.cancelled: Problem | None = None
        """Why the gateway cancelled the run, if it did."""
        self._earlier = len(log.recorded()) if log is not None else 0
        """How many of its events an earlier process has written."""
        self._asked_mode: Mode = asked_mode
        self._mode: Mode | None = None
        self._problem: Problem | None = None
        self._turns = turns
        super().__init__(plan, self._keep_turn, log=log, history=history, orders=orders)

    @property
    def background(self) -> bool:
        """Whether the run continues without its client."""
        return not self.origin.needs_client

    @property
    def size(self) -> int:
        """The approximate size of its request, events and results, in bytes."""
        events = self.log.recorded()
        results = sum(
            _rough_size(event.response.response) for event in events if type(event) is ToolRunEnded
        )
        return self.request_size + EVENT_BYTES * len(events) + results

    @property
    def mode(self) -> Mode:
        """The function calling mode, which no longer changes when the run has ended."""
        if self._mode is not None:
            return self._mode
        mode = "native" if self.plan.model is None else mode_of(self.plan.model)
        if self.task.done():
            self._mode = mode
        return mode

    def state(self) -> RunState:
        """Where the run is now. Its record has no size."""
        events = self.log.recorded()
        end = events[-1] if events and isinstance(events[-1], RunEnded) else None
        record = replace(
            self.record,
            ended=end.time if end else None,
            reason=self.stop_reason,
            error=end.error if end else None,
            events=len(events),
        )
        done = self.task.done()
        problem = self.problem() if done else None
        return RunState(record=record, phase=self.phase, mode=self.mode, done=done, problem=problem)

    def content(self) -> tuple[RunRecord, MemoryLog]:
        """Its record as at its start, and its events, to store it."""
        origin = self.origin.with_tools(self.plan.tools).stored()
        return replace(self.record, origin=origin), self.log

    def observe(self, observer: Observer) -> None:
        """Calls the observer with every event, or with those of its `kinds`.

        The run continues if the observer fails. Of the events of an earlier process, the observer
        gets only the first.
        """
        works, run_id = True, self.id

        def show(event: RunEvent) -> None:
            nonlocal works
            if works:
                try:
                    observer(event)
                except Exception:
                    works = False
                    log.exception("Run observer failed", extra={"run_id": run_id})

        for event in self.log.recorded()[: min(1, self._earlier)]:
            show(event)
        self.log.listen(show, self._earlier, getattr(observer, "kinds", None))

    async def up_to_date(self) -> None:
        """Waits for the task of an ended run, so that a client that read its end finds it ended."""
        if self.log.ended:
            await asyncio.wait([self.task])

    async def cancel(self, problem: Problem) -> None:
        """Stops the run for a reason of the gateway; a stored background run can be resumed."""
        self.cancelled = problem
        await (self.leave() if self.stored and self.background else self.stop())

    def check_here(self) -> None:
        """Raises `Refused` if the run was left to another process and cannot be controlled here."""
        if self.cancelled is not None and self.log.closed:
            raise Refused(self.cancelled)

    def problem(self) -> Problem | None:
        """Why an ended run failed; None if it has an answer."""
        if self._problem is None:
            self._problem = self._found_problem()
        return self._problem

    def _found_problem(self) -> Problem | None:
        if self.error is not None:
            return self._failure(self.error)
        match self.stop_reason:
            case "stopped":
                return self.cancelled
            case "deadline":
                seconds = self.plan.policy.timeout
                return Problem(504, f"The run took longer than {seconds:g} s.", "run_timeout")
            case "malformed_call":
                return MALFORMED_CALL
            case _:
                return None

    def _failure(self, error: Exception) -> Problem:
        if (
            self._asked_mode == "native"
            and self.plan.tools
            and isinstance(error, ModelError)
            and native_failure(error) is not None
        ):
            return problem_of(NativeModeUnavailable(error.message, error))
        return problem_of(error)

    def _keep_turn(self, reply: Reply) -> None:
        turn = hidden_turn(reply, len(self.plan.messages), self.call_ids)
        if turn is not None:
            self._turns.keep(self.owner, turn)


def _rough_size(value: object, sample: int = 64) -> int:
    """The approximate length as JSON, estimated from the first items of long lists and objects."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        sampled: list[object] = [part for field in islice(fields.items(), sample) for part in field]
        length = 2 * len(fields)
    elif isinstance(value, list | tuple):
        items = cast("list[object]", value)
        sampled, length = list(islice(items, sample)), len(items)
    else:
        return VALUE_BYTES
    size = sum(VALUE_BYTES + _rough_size(each, max(1, sample // 4)) for each in sampled)
    return size * length // max(1, len(sampled))
