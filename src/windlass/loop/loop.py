"""The one loop: ask the model, run what it asks for, hand the results back, go round.

Blocking, streaming, sync and async are faces of this coroutine, which tells what it does by `emit`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import Declaration, FunctionCall, Message, Usage
from windlass.errors import RoundLimitExceeded
from windlass.events import (
    Phase,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    Status,
    StopReason,
    TextDelta,
    ToolCallEnded,
)
from windlass.loop.approval import Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext, ToolExecutor
from windlass.loop.policy import (
    EMPTY_ANSWER,
    END_REASONS,
    LIMIT_STATUS,
    REPETITION_STATUS,
    Policy,
    Repetition,
    Step,
    next_step,
)
from windlass.loop.reply import Calls, Reply, RoundRecord
from windlass.loop.results import ToolAnswer, capped
from windlass.loop.round import Round
from windlass.loop.turn import Turn, TurnBuilder
from windlass.model import Model, ModelRequest, Settings
from windlass.tool import Tool

__all__ = ["Loop", "RunPlan"]

log = logging.getLogger("windlass.loop")

TRUNCATED = "Not run: the output limit cut this turn, so the call may be incomplete. Be shorter."
LAST_TURN = "Not run: this was the last turn of the run."
STOPPED = "stopped before it began"


class RunPlan(Struct, frozen=True):
    """Everything that a run is told at its start."""

    run_id: str
    model: Model
    messages: tuple[Message, ...]
    tools: Mapping[str, Tool]
    declarations: tuple[Declaration, ...]
    policy: Policy
    executor: ToolExecutor
    approvals: Approvals
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    live: bool = False


class Loop:
    """One run. Its state can be looked at while it goes; `run` is called once."""

    def __init__(self, plan: RunPlan, emit: Callable[[RunEvent], None]) -> None:
        self.plan = plan
        self.emit = emit
        self.phase: Phase = "awaiting_model_call"
        self.messages: list[Message] = list(plan.messages)
        self.rounds: list[RoundRecord] = []
        self.usage = Usage()
        self.stop_reason: StopReason | None = None
        self._rounds_run = 0
        self._repeating = False
        self._text = ""
        self._open: tuple[Round, Turn] | None = None
        self._pending = Calls.of((), plan.tools)
        self._repetition = Repetition(plan.policy.max_repeats)

    async def run(self) -> Reply:
        """Goes round until there is an answer.

        Raises `ModelError` when the model fails and `RoundLimitExceeded` when the policy says so;
        deadlines and refusals are the reply's `stop_reason`. Its last event is always `RunEnded`.
        """
        plan = self.plan
        self.emit(RunStarted(plan.run_id, plan.model.name, plan.messages))
        clock = asyncio.timeout(plan.policy.timeout)
        try:
            async with clock, Dependencies() as dependencies:
                context = self._context(dependencies, clock.when())
                reason = await self._go_round(context)
        except TimeoutError as error:
            if not clock.expired():
                self.end("error", error)
                raise
            reason = "deadline"
        except asyncio.CancelledError:
            self.end("stopped")
            raise
        except BaseException as error:
            self.end("error", error)
            raise
        self.end(reason)
        return self.reply()

    def reply(self) -> Reply:
        """The run so far; once it has ended, its reply."""
        return Reply(
            text=self._text,
            messages=tuple(self.messages),
            rounds=tuple(self.rounds),
            usage=self.usage,
            stop_reason=self.stop_reason or "stopped",
            calls=Calls.of(
                (call for record in self.rounds for call in record.message.calls), self.plan.tools
            ),
            results=tuple(a.response for record in self.rounds for a in record.answers),
            pending=self._pending,
            run_id=self.plan.run_id,
            model=self.plan.model.name,
            max_result_chars=self.plan.policy.max_result_chars,
        )

    def _context(self, dependencies: Dependencies, deadline: float | None) -> RunContext:
        return RunContext(
            run_id=self.plan.run_id,
            tools=self.plan.tools,
            policy=self.plan.policy,
            emit=self.emit,
            approvals=self.plan.approvals,
            dependencies=dependencies,
            slots=asyncio.Semaphore(self.plan.policy.max_parallel),
            deadline=deadline,
        )

    async def _go_round(self, context: RunContext) -> StopReason:
        while True:
            tools_off = self._tools_off()
            number = len(self.rounds) + 1
            async with Round(number, self.plan.executor, context, self._repetition) as calls:
                reason = await self._one_round(calls, tools_off)
            if reason is not None:
                return reason

    def _tools_off(self) -> bool:
        """Whether the next request is the last one, without tools; says so if it is."""
        if self._repeating:
            self.emit(Status(REPETITION_STATUS))
            log.warning("The same call keeps failing", extra={"run_id": self.plan.run_id})
        elif self.plan.policy.tools_off(self._rounds_run):
            self.emit(Status(LIMIT_STATUS))
            log.warning("Max tool execution rounds reached", extra={"rounds": self._rounds_run})
        else:
            return False
        return True

    async def _one_round(self, calls: Round, tools_off: bool) -> StopReason | None:
        """Asks once and does what the turn asks for; a reason if the run ends here."""
        turn = await self._ask(calls, tools_off)
        match next_step(turn, self.plan.policy, self._rounds_run, tools_off):
            case Step.END:
                await calls.stop()
                self._answer(calls, turn.calls, LAST_TURN)
                return self._ending(turn, tools_off)
            case Step.HAND_BACK:
                self._pending = Calls.of(turn.calls, self.plan.tools)
                return "calls"
            case Step.LIMIT:
                self._pending = Calls.of(turn.calls, self.plan.tools)
                if self.plan.policy.on_limit == "error":
                    raise RoundLimitExceeded(self.plan.policy.max_rounds, self.messages, turn.calls)
                return "max_rounds"
            case Step.REFUSE_CALLS:
                self._rounds_run += 1
                await calls.stop()
                self._answer(calls, turn.calls, TRUNCATED)
                return None
            case Step.RUN_TOOLS:
                return await self._run_tools(calls, turn)

    async def _ask(self, calls: Round, tools_off: bool) -> Turn:
        plan, policy = self.plan, self.plan.policy
        self.phase = "awaiting_final_response" if self._rounds_run else "awaiting_model_call"
        self.emit(RoundStarted(calls.number, self.phase))
        request = ModelRequest(
            messages=self.messages,
            tools=() if tools_off else plan.declarations,
            tool_choice=policy.choice(self._rounds_run, tools_off),
            parallel_tool_calls=policy.parallel_tool_calls,
            settings=plan.settings,
            extra=plan.extra,
            live=plan.live,
        )
        may_run = policy.execute_tools and not tools_off and self._rounds_run < policy.max_rounds
        builder, emit = TurnBuilder(), self.emit
        try:
            async with plan.model.stream(request) as events:
                async for event in events:
                    emit(event)
                    builder.add(event)
                    if may_run and type(event) is ToolCallEnded:
                        calls.offer(event.call)
            turn = builder.turn()
        except BaseException:
            # What was said before the break stays readable. Calls that were cut are not in it.
            if message := builder.partial():
                self._keep(Turn(message, (), "other", Usage()), calls.number)
            raise
        self._keep(turn, calls.number)
        return turn

    def _keep(self, turn: Turn, number: int) -> None:
        self.messages.append(turn.message)
        self.rounds.append(RoundRecord(number, turn.message, turn.finish, turn.usage))
        self.usage += turn.usage
        self._text = turn.message.text

    def _ending(self, turn: Turn, tools_off: bool) -> StopReason:
        reason = END_REASONS[turn.finish]
        if not tools_off or reason in ("content_filter", "malformed_call"):
            return reason
        if not turn.message.text:
            self._text = EMPTY_ANSWER
            self.emit(TextDelta(EMPTY_ANSWER))
            if not turn.message.parts:
                self.messages.pop()
            self.messages.append(Message.assistant(EMPTY_ANSWER))
        return "repetition" if self._repeating else "max_rounds"

    async def _run_tools(self, calls: Round, turn: Turn) -> StopReason | None:
        """Runs the calls that are ours. The caller's own are handed back, and end the run."""
        tools = self.plan.tools
        theirs = [
            call for call in turn.calls if call.name in tools and not tools[call.name].runnable
        ]
        ours = [call for call in turn.calls if call not in theirs] if theirs else turn.calls
        if ours:
            self._rounds_run += 1
            self.phase = "executing_tools"
            self._announce(ours)
            self._open = (calls, turn)
            await calls.finish(ours)
            self._open = None
            answers = self._answer(calls, ours, STOPPED, complete=not theirs)
            self._judge(ours, answers)
        if theirs:
            self._pending = Calls.of(theirs, tools)
            return "calls"
        return None

    def _announce(self, ours: Sequence[FunctionCall]) -> None:
        self.emit(Status(f"Executing {', '.join(dict.fromkeys(call.name for call in ours))}..."))
        if not log.isEnabledFor(logging.INFO):
            return
        log.info(
            "Tool execution required in stream" if self.plan.live else "Tool execution required",
            extra={"round": self._rounds_run, "tool_count": len(ours)},
        )
        for call in ours:
            # What a tool is asked may be private: it is shown to those who debug.
            shown = {"arguments": call.arguments} if log.isEnabledFor(logging.DEBUG) else {}
            log.info(
                "Tool call parsed", extra={"tool": call.name, "tool_call_id": call.id, **shown}
            )

    def _answer(
        self, calls: Round, which: Sequence[FunctionCall], missing: str, complete: bool = True
    ) -> list[ToolAnswer]:
        """Puts the answers on record and, unless the caller owes some, into the conversation."""
        if not which:
            return []
        answers = calls.answers(which, missing)
        limit = self.plan.policy.max_result_chars
        shown = tuple(capped(answer.response, limit) for answer in answers)
        self.rounds[-1] = replace(self.rounds[-1], answers=tuple(answers), shown=shown)
        if complete:
            self.messages.append(Message.tool(shown))
        return answers

    def _judge(self, calls: Sequence[FunctionCall], answers: Sequence[ToolAnswer]) -> None:
        """Keeps count of failures. A round of nothing but blocked calls is the end of patience."""
        pairs = list(zip(calls, answers, strict=True))
        self._repetition.record(
            failed=[call for call, answer in pairs if answer.failed],
            succeeded=[call for call, answer in pairs if answer.ok],
        )
        self._repeating = all(answer.outcome == "not_run" for answer in answers)

    def end(self, reason: StopReason, error: BaseException | None = None) -> None:
        """Closes the books: open calls are answered, and the last event is said."""
        if self._open is not None:
            calls, turn = self._open
            self._answer(calls, turn.calls, STOPPED)
        self.stop_reason = reason
        self.phase = "ended"
        said = None if error is None else str(error) or type(error).__name__
        self.emit(RunEnded(reason, self.usage, len(self.rounds), said))
