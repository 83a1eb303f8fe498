"""A run that was started over HTTP: whose it is, how its client knows it, how it ended."""

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
from windlass.wires.chat.write_events import Head, completion_fields, error_fields
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

__all__ = ["GatewayRun", "Observer", "run_fields"]

log = logging.getLogger("windlass.gateway")

EVENT_BYTES = 300
VALUE_BYTES = 8
Observer = Callable[[RunEvent], None]


class GatewayRun:
    """Started when made."""

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
        """`log` keeps it; with `history`, an earlier process has begun it there, and `orders` are
        those that have waited for it."""
        self.plan, self.request, self.owner = plan, request, owner
        self.id = plan.run_id
        self.background = background
        """Whether it goes on without the client that asked for it."""
        self.kept = log is not None
        self.head = Head(f"chatcmpl-{plan.run_id[4:]}", int(created or time.time()), request.model)
        self.call_ids = CallIds(plan.run_id if self.kept else "")
        self.called_off: Problem | None = None
        """Why the gateway itself stopped the run, if it did."""
        self._elsewhere = len(log.recorded()) if log is not None else 0
        """How many of its events another process has written."""
        self._asked_mode: Mode = asked_mode
        self._problem: Problem | None = None
        self._turns = turns
        self.run = AsyncRun(plan, self._keep_turn, log=log, history=history, orders=orders)

    @property
    def task(self) -> asyncio.Task[None]:
        return self.run.task

    @property
    def size(self) -> int:
        """The bytes that its events take, about: what was asked, said and done."""
        events = self.run.log.recorded()
        results = sum(
            _rough_size(event.response.response) for event in events if type(event) is ToolRunEnded
        )
        return self.request.size + EVENT_BYTES * len(events) + results

    @property
    def mode(self) -> Mode:
        """The mode that tools are brought to the model in."""
        return mode_of(self.plan.model)

    @property
    def reply(self) -> Reply:
        return self.run.reply

    def observe(self, observer: Observer) -> None:
        """Shows it every event, or those that its `kinds` name. If it fails, the run goes on.

        What happened in another process is its business: of that, the start alone is shown.
        """
        works, run_id = True, self.id

        def show(event: RunEvent) -> None:
            nonlocal works
            if works:
                try:
                    observer(event)
                except Exception:
                    works = False
                    log.exception("An observer of runs failed", extra={"run_id": run_id})

        for event in self.run.log.recorded()[: min(1, self._elsewhere)]:
            show(event)
        self.run.log.listen(show, self._elsewhere, getattr(observer, "kinds", None))

    @property
    def title(self) -> str:
        return title_of(self.plan.messages)

    async def settled(self) -> None:
        """Waits until all that has happened is kept, where runs are kept."""
        await self.run.settled()

    async def up_to_date(self) -> None:
        """Waits for a run that is about to be done: whoever has read its end finds it ended."""
        if self.run.log.ended:
            await asyncio.wait([self.task])

    async def call_off(self, problem: Problem) -> None:
        """Ends it here, for a reason of the gateway's own; one that is kept can be taken up."""
        self.called_off = problem
        await (self.run.leave() if self.kept and self.background else self.run.stop())

    def check_here(self) -> None:
        """Raises `Refused` if it was left to another process, and cannot be steered here."""
        if self.called_off is not None and self.run.log.closed:
            raise Refused(self.called_off)

    def problem(self) -> Problem | None:
        """What an ended run failed with; None if it has an answer."""
        if self._problem is None:
            self._problem = self._found_problem()
        return self._problem

    def _found_problem(self) -> Problem | None:
        error = self.run.error
        if error is not None:
            return self._failure(error)
        match self.run.stop_reason:
            case "stopped":
                return self.called_off
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
    """Characters as JSON, about: a long list or object is judged by its first items."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        some: list[object] = [part for field in islice(fields.items(), sample) for part in field]
        length = 2 * len(fields)
    elif isinstance(value, list | tuple):
        items = cast("list[object]", value)
        some, length = list(islice(items, sample)), len(items)
    else:
        return VALUE_BYTES
    size = sum(VALUE_BYTES + _rough_size(each, max(1, sample // 4)) for each in some)
    return size * length // max(1, len(some))


def run_fields(run: GatewayRun, *, whole: bool = False) -> JsonObject:
    """What is told of a run: with `whole`, its answer too."""
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
