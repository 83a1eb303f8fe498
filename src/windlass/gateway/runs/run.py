"""A run that was started over HTTP, with its owner, its ids for the client and its problem."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import cast

from windlass.client.run import AsyncRun
from windlass.emulation.mode import mode_of, native_failure
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.events import RunEvent, ToolRunEnded
from windlass.gateway.http.errors import MALFORMED_CALL, Refused, problem_of
from windlass.gateway.runs.hidden_turns import HiddenTurns, hidden_turn
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.reply import Reply
from windlass.runs.event_log import MemoryLog
from windlass.runs.records import Order, title_of
from windlass.settings import Mode
from windlass.wires.call_ids import CallIds
from windlass.wires.chat.read_request import ChatRequest
from windlass.wires.chat.write_events import CompletionHead, completion_fields, error_fields
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

log = logging.getLogger("windlass.gateway")

EVENT_BYTES = 300
VALUE_BYTES = 8
Observer = Callable[[RunEvent], None]


class GatewayRun:
    """Wraps a run of the client library. Starts it when created."""

    def __init__(
        self,
        plan: RunPlan,
        request: ChatRequest,
        *,
        owner: str,
        asked_mode: Mode,
        turns: HiddenTurns,
        background: bool = False,
        created: float | None = None,
        log: MemoryLog | None = None,
        history: History | None = None,
        orders: Sequence[Order] = (),
    ) -> None:
        """`log` stores its events. A resumed run has a `history`, and the `orders` that waited."""
        self.plan, self.request, self.owner = plan, request, owner
        self.id = plan.run_id
        self.background = background
        """Whether the run continues without its client."""
        self.stored = log is not None
        self.head = CompletionHead(
            f"chatcmpl-{plan.run_id[4:]}", int(created or time.time()), request.model
        )
        self.call_ids = CallIds(plan.run_id if self.stored else "")
        self.cancelled: Problem | None = None
        """Why the gateway cancelled the run, if it did."""
        self._earlier = len(log.recorded()) if log is not None else 0
        """How many of its events an earlier process has written."""
        self._asked_mode: Mode = asked_mode
        self._problem: Problem | None = None
        self._turns = turns
        self.run = AsyncRun(plan, self._keep_turn, log=log, history=history, orders=orders)

    @property
    def task(self) -> asyncio.Task[None]:
        return self.run.task

    @property
    def size(self) -> int:
        """The approximate size of its request, events and results, in bytes."""
        events = self.run.log.recorded()
        results = sum(
            _rough_size(event.response.response) for event in events if type(event) is ToolRunEnded
        )
        return self.request.size + EVENT_BYTES * len(events) + results

    @property
    def mode(self) -> Mode:
        """The function calling mode."""
        return mode_of(self.plan.model)

    @property
    def reply(self) -> Reply:
        return self.run.reply

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

        for event in self.run.log.recorded()[: min(1, self._earlier)]:
            show(event)
        self.run.log.listen(show, self._earlier, getattr(observer, "kinds", None))

    @property
    def title(self) -> str:
        return title_of(self.plan.messages)

    async def settled(self) -> None:
        """Waits until all events so far are stored, if runs are stored."""
        await self.run.settled()

    async def up_to_date(self) -> None:
        """Waits for the task of an ended run, so that a client that read its end finds it ended."""
        if self.run.log.ended:
            await asyncio.wait([self.task])

    async def cancel(self, problem: Problem) -> None:
        """Stops the run for a reason of the gateway; a stored background run can be resumed."""
        self.cancelled = problem
        await (self.run.leave() if self.stored and self.background else self.run.stop())

    def check_here(self) -> None:
        """Raises `Refused` if the run was left to another process and cannot be controlled here."""
        if self.cancelled is not None and self.run.log.closed:
            raise Refused(self.cancelled)

    def problem(self) -> Problem | None:
        """Why an ended run failed; None if it has an answer."""
        if self._problem is None:
            self._problem = self._found_problem()
        return self._problem

    def _found_problem(self) -> Problem | None:
        error = self.run.error
        if error is not None:
            return self._failure(error)
        match self.run.stop_reason:
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


def run_fields(run: GatewayRun, *, whole: bool = False) -> JsonObject:
    """The fields of a run; with `whole`, also its response."""
    events = run.run.log.recorded()
    fields: JsonObject = {
        "id": run.id,
        "object": "run",
        "created": run.head.created,
        "ended": int(events[-1].time) if events and events[-1].done else None,
        "model": run.head.model,
        "status": "running",
        "phase": run.run.phase,
        "mode": run.mode,
        "events": len(events),
        "title": run.title,
        "chat_id": run.request.chat or None,
    }
    if not run.task.done():
        return fields
    fields["stop_reason"] = run.run.stop_reason
    problem = run.problem()
    fields["status"] = "ended" if problem is None else "failed"
    if problem is not None:
        fields["error"] = error_fields(problem)
    elif whole:
        fields["response"] = completion_fields(run.head, run.reply, run.call_ids, run.request.form)
    return fields
