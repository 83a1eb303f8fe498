"""Tool calls that clients make themselves, and summaries of calls."""

import asyncio
import secrets
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from windlass.content import FunctionCall, FunctionResponse, new_call_id
from windlass.events import Outcome, ToolRunEnded, ToolRunProgress, ToolRunStarted, event_to_dict
from windlass.gateway.config import ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import SHUTTING_DOWN, Refused
from windlass.gateway.observe.metrics import Metrics
from windlass.jsontext import compact_json, encode_json
from windlass.loop.executor import ToolExecutor, outside_a_run, yes_to
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.reply import ToolAnswer, capped
from windlass.runs.event_log import MemoryLog
from windlass.tool import Tool
from windlass.wires.fields import JsonObject

MAX_SUMMARY_CHARS = 2_000
"""The maximum length of the arguments, and of the response, in a summary."""
MAX_KEPT_CALLS = 1_000
"""How many of the latest calls are kept, over all keys."""


class CallSummary(Struct, frozen=True, kw_only=True):
    """One call and its outcome. `outcome` is None if the call did not run here, or is running."""

    run_id: str | None
    """None for a manual call."""
    call_id: str
    name: str
    time: float
    """The start, in Unix seconds."""
    seconds: float
    outcome: Outcome | None
    arguments: JsonObject | str
    """The arguments; the start of their text if it is long or not a JSON object."""
    response: JsonObject | None
    by_hand: bool = False

    @property
    def failed(self) -> bool:
        """Whether the tool failed. A call that a person denied or stopped has not failed."""
        return self.outcome not in (None, "ok", "denied", "stopped", "not_run")


def cut_response(response: FunctionResponse) -> JsonObject:
    """The response; only its start and end if it is too long."""
    return capped(response, MAX_SUMMARY_CHARS).response


def cut_arguments(arguments: JsonObject | str) -> JsonObject | str:
    """The arguments; only their start if they are too long."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    return arguments if len(text) <= MAX_SUMMARY_CHARS else f"{text[:MAX_SUMMARY_CHARS]}…"


class HandCall(Struct, forbid_unknown_fields=True):
    """The body of a call."""

    arguments: dict[str, Any] = {}
    approved: bool = False
    """Whether the caller approves the call, for a tool that needs approval."""


class ManualCalls:
    """Runs manual calls, and keeps the latest."""

    def __init__(self, metrics: Metrics, executor: ToolExecutor) -> None:
        self._metrics, self._executor = metrics, executor
        self.active: set[asyncio.Task[ToolAnswer]] = set()
        self._last: deque[tuple[str, CallSummary]] = deque(maxlen=MAX_KEPT_CALLS)

    def of(self, owner: str) -> list[CallSummary]:
        """The calls of one key, oldest first."""
        return [call for caller, call in self._last if caller == owner]

    async def run(
        self,
        tool: Tool,
        request: HandCall,
        *,
        model: ModelConfig,
        owner: str,
        disconnected: Callable[[], Coroutine[Any, Any, None]],
    ) -> JsonObject:
        """Runs a call and returns its answer. Cancels it if `disconnected` returns first.

        Raises `ClientGone`, and `Refused` if the gateway shuts down meanwhile.
        """
        call = FunctionCall(tool.name, compact_json(request.arguments), new_call_id())
        log = MemoryLog()
        log.listen(self._metrics.run(model=model.name, live=False), kinds={ToolRunEnded})
        task = asyncio.create_task(self._answer(call, tool, model, request.approved, log))
        self.active.add(task)
        task.add_done_callback(self.active.discard)
        task.add_done_callback(lambda _: self._remember(owner, call, log))
        leaving = asyncio.create_task(disconnected())
        try:
            await asyncio.wait((task, leaving), return_when=FIRST_COMPLETED)
        finally:
            left = leaving.done()
            leaving.cancel()
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled():
            raise ClientGone if left else Refused(SHUTTING_DOWN)
        return _fields(call, task.result(), log)

    def cancel(self) -> None:
        """Cancels the active calls, for a shutdown."""
        for task in self.active:
            task.cancel()

    async def _answer(
        self, call: FunctionCall, tool: Tool, model: ModelConfig, approved: bool, log: MemoryLog
    ) -> ToolAnswer:
        async with outside_a_run(
            f"hand_{secrets.token_hex(12)}",
            {tool.name: tool},
            Policy(
                tool_timeout=model.tool_timeout,
                approval_timeout=model.approval_timeout,
                expose_errors=model.expose_errors,
            ),
            approve=yes_to(call) if approved else None,
            emit=log.append,
        ) as run:
            [answer] = await answers_to([call], self._executor, run)
        return answer

    def _remember(self, owner: str, call: FunctionCall, log: MemoryLog) -> None:
        events = log.recorded()
        ended = next((event for event in events if isinstance(event, ToolRunEnded)), None)
        started = next((event for event in events if isinstance(event, ToolRunStarted)), None)
        if ended is None:
            return
        summary = CallSummary(
            run_id=None,
            call_id=call.id,
            name=call.name,
            time=(started or ended).time,
            seconds=ended.seconds,
            outcome=ended.outcome,
            arguments=cut_arguments(call.arguments),
            response=cut_response(ended.response),
            by_hand=True,
        )
        self._last.append((owner, summary))


def _fields(call: FunctionCall, answer: ToolAnswer, log: MemoryLog) -> JsonObject:
    progress = [event_to_dict(each) for each in log.recorded() if isinstance(each, ToolRunProgress)]
    names = ("time", "progress", "message", "data")
    return {
        "call_id": call.id,
        "name": call.name,
        "outcome": answer.outcome,
        "response": answer.response.response,
        "parts": [part.to_dict() for part in answer.response.parts],
        "seconds": answer.seconds,
        "effect_unknown": answer.effect_unknown,
        "progress": [{name: each.get(name) for name in names} for each in progress],
        **({"crashed": True} if answer.crashed else {}),
    }
