"""Tools that people run themselves, by the same rules as for a model."""

import asyncio
import secrets
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from windlass.content import FunctionCall, new_call_id
from windlass.events import ToolRunEnded, ToolRunProgress, ToolRunStarted, event_to_dict
from windlass.gateway.config import ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import SHUTTING_DOWN, Refused
from windlass.gateway.observe.metrics import Metrics
from windlass.gateway.tools.call_summary import CallSummary, cut_arguments, cut_response
from windlass.jsontext import compact_json
from windlass.loop.executor import ToolExecutor
from windlass.loop.outside import outside_a_run, yes_to
from windlass.loop.policy import Policy
from windlass.loop.round import answers_to
from windlass.reply import ToolAnswer
from windlass.runs.event_log import MemoryLog
from windlass.tool import Tool
from windlass.wires.fields import JsonObject

__all__ = ["HandCall", "ManualCalls"]

REMEMBERED = 1_000
"""How many of the last calls are known, of all keys together."""


class HandCall(Struct, forbid_unknown_fields=True):
    """The body of a call."""

    arguments: dict[str, Any] = {}
    approved: bool = False
    """Whether the caller says yes to the call, where a tool asks for somebody's."""


class ManualCalls:
    """Runs them, one by one, and knows the last of them."""

    def __init__(self, metrics: Metrics, executor: ToolExecutor) -> None:
        self._metrics, self._executor = metrics, executor
        self.going: set[asyncio.Task[ToolAnswer]] = set()
        self._last: deque[tuple[str, CallSummary]] = deque(maxlen=REMEMBERED)

    def of(self, owner: str) -> list[CallSummary]:
        """The calls of one key, oldest first."""
        return [call for whose, call in self._last if whose == owner]

    async def run(
        self,
        tool: Tool,
        asked: HandCall,
        *,
        model: ModelConfig,
        owner: str,
        gone: Callable[[], Coroutine[Any, Any, None]],
    ) -> JsonObject:
        """What is told of the call when it is answered. It is called off when the client is `gone`.

        Raises `ClientGone`, and `Refused` if the gateway ends meanwhile.
        """
        call = FunctionCall(tool.name, compact_json(asked.arguments), new_call_id())
        log = MemoryLog()
        log.listen(self._metrics.run(model=model.name, live=False), kinds={ToolRunEnded})
        task = asyncio.create_task(self._answer(call, tool, model, asked.approved, log))
        self.going.add(task)
        task.add_done_callback(self.going.discard)
        task.add_done_callback(lambda _: self._remember(owner, call, log))
        leaving = asyncio.create_task(gone())
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

    def call_off(self) -> None:
        """Ends those that go, because the gateway does."""
        for task in self.going:
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
        begun = next((event for event in events if isinstance(event, ToolRunStarted)), None)
        if ended is None:
            return
        summary = CallSummary(
            run_id=None,
            call_id=call.id,
            name=call.name,
            time=(begun or ended).time,
            seconds=ended.seconds,
            outcome=ended.outcome,
            arguments=cut_arguments(call.arguments),
            response=cut_response(ended.response),
            by_hand=True,
        )
        self._last.append((owner, summary))


def _fields(call: FunctionCall, answer: ToolAnswer, log: MemoryLog) -> JsonObject:
    told = [event_to_dict(each) for each in log.recorded() if isinstance(each, ToolRunProgress)]
    names = ("time", "progress", "message", "data")
    return {
        "call_id": call.id,
        "name": call.name,
        "outcome": answer.outcome,
        "response": answer.response.response,
        "parts": [part.to_dict() for part in answer.response.parts],
        "seconds": answer.seconds,
        "effect_unknown": answer.effect_unknown,
        "progress": [{name: each.get(name) for name in names} for each in told],
        **({"crashed": True} if answer.crashed else {}),
    }
