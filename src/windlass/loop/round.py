"""The calls of one turn: run in parallel where their tools allow it, each answered exactly once."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from msgspec.structs import replace

from windlass.content import FunctionCall
from windlass.errors import RunInterrupted, ToolError, clear_frames
from windlass.events import ToolRunEnded
from windlass.loop.executor import RunContext, ToolExecutor, ToolJob
from windlass.loop.history import RecordedCall
from windlass.loop.pace import ITEMS_AT_ONCE
from windlass.loop.policy import Repetition
from windlass.reply import (
    INTERRUPTED,
    NOT_BEGUN,
    ToolAnswer,
    failure,
    interrupted,
    not_begun,
)
from windlass.tool import OnInterrupt, Tool

log = logging.getLogger("windlass.loop")


class Round:
    """Runs the calls of one turn. Leaving the context cancels those that are still running.

    Calls are identified by object identity, since a model may give two of them the same id.
    """

    def __init__(
        self,
        number: int,
        executor: ToolExecutor,
        run: RunContext,
        repetition: Repetition,
        recorded: Mapping[str, RecordedCall] | None = None,
    ) -> None:
        """`recorded` is the progress of an earlier process in this turn, by call id."""
        self.number = number
        self._recorded = recorded or {}
        self._executor = executor
        self._run = run
        self._repetition = repetition
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._answers: dict[int, ToolAnswer] = {}
        self._jobs: dict[int, tuple[FunctionCall, ToolJob]] = {}
        self._barrier = run.policy.parallel_tool_calls is False

    async def __aenter__(self) -> "Round":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.stop()
        finally:
            # A second cancellation ends that wait while a tool is still running.
            for call, job in self._jobs.values():
                if job.announced and id(call) not in self._answers:
                    self._record(call, self._unless_interrupted(job, _stopped(job)))

    async def stop(self) -> None:
        """Cancels the calls that are still running, and waits for them to end."""
        running = [task for task in self._tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def offer(self, call: FunctionCall) -> None:
        """Starts a call before its turn is complete, if that is safe.

        Only an idempotent tool may start early, since an interrupted turn must have no effects.
        """
        tool = self._run.tools.get(call.name)
        if tool is None or self._barrier:
            return
        self._barrier = tool.options.serial
        options = tool.options
        if options.idempotent and not (options.serial or options.after or options.approve):
            self._begin(call, ())

    async def finish(self, calls: Sequence[FunctionCall]) -> None:
        """Runs the remaining calls in the order that their tools require, and waits for all."""
        if len(calls) == 1 and not self._tasks:
            await self._answer(calls[0], ())
            return
        one_by_one = self._run.policy.parallel_tool_calls is False
        earlier: list[tuple[FunctionCall, asyncio.Task[None]]] = []
        barrier: tuple[asyncio.Task[None], ...] = ()
        for call in in_order(calls, self._run.tools):
            tool = self._run.tools.get(call.name)
            alone = one_by_one or (tool is not None and tool.options.serial)
            if alone:
                before = [task for _, task in earlier]
            else:
                before = [*barrier]
                if named := tool.options.after if tool else ():
                    before += (task for other, task in earlier if other.name in named)
            task = self._tasks.get(id(call)) or self._begin(call, before)
            earlier.append((call, task))
            if len(earlier) % ITEMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if alone:
                barrier = (task,)
        for place in range(0, len(earlier), ITEMS_AT_ONCE):
            await asyncio.wait([task for _, task in earlier[place : place + ITEMS_AT_ONCE]])

    def check_interrupted(self, calls: Iterable[FunctionCall]) -> None:
        """Raises `RunInterrupted` for an interrupted call whose tool has `on_interrupt="fail"`."""
        for call in calls:
            if self._interrupt_action(call) == "fail":
                raise RunInterrupted(f"{call.name} was {INTERRUPTED}")

    def has_recorded(self, calls: Iterable[FunctionCall]) -> bool:
        """Whether an earlier process has answered all these calls."""
        known = (self._recorded.get(call.id) for call in calls)
        return all(each is not None and each.answer is not None for each in known)

    def abandon(self, calls: Mapping[str, RecordedCall]) -> None:
        """Answers the calls that an earlier process started in a turn that it never completed."""
        for recorded in calls.values():
            if recorded.started is not None and recorded.answer is None:
                self._record(recorded.started.call, self._interrupted(recorded.started.call))

    def answers(self, calls: Iterable[FunctionCall], missing: str) -> list[ToolAnswer]:
        """Returns every call's answer, in call order. Calls that never started get `missing`."""
        found: list[ToolAnswer] = []
        for call in calls:
            if id(call) not in self._answers and not self._use_recorded(call):
                if self._interrupt_action(call) is None:
                    self._record(call, failure(call, missing, "not_run"))
                else:
                    self._record(call, self._interrupted(call))
            found.append(self._answers[id(call)])
        return found

    def _begin(
        self, call: FunctionCall, before: Sequence[asyncio.Task[None]]
    ) -> asyncio.Task[None]:
        task = self._tasks[id(call)] = asyncio.create_task(self._answer(call, before))
        return task

    async def _answer(self, call: FunctionCall, before: Sequence[asyncio.Task[None]]) -> None:
        if self._recorded:
            if self._use_recorded(call):
                return
            if self._interrupt_action(call) == "tell_model":
                self._record(call, self._interrupted(call))
                return
        if before:
            await asyncio.wait(before)
        if self._repetition.blocks(call):
            limit = self._run.policy.max_repeats
            text = (
                f"This call has failed {limit} times with the same arguments and is not run again. "
                "Change the arguments, or answer without it."
            )
            cut = self._interrupt_action(call) is not None
            self._record(call, self._interrupted(call) if cut else failure(call, text, "not_run"))
            return
        job = ToolJob(
            call,
            self._run.tools.get(call.name),
            self.number,
            self._run,
            recorded=self._recorded.get(call.id),
        )
        self._jobs[id(call)] = (call, job)
        try:
            answer = await self._executor.execute(job)
        except asyncio.CancelledError:
            self._record(call, self._unless_interrupted(job, _stopped(job)))
            raise
        except ToolError as error:
            answer = replace(
                failure(call, str(error), "error"), effect_unknown=error.effect_unknown
            )
            clear_frames(error)
        except Exception as error:
            if job.is_unwritten(error):  # the run ends with this error
                self._record(call, self._unless_interrupted(job, _stopped(job)))
                return
            log.exception("Tool failed", extra={"tool": call.name, "tool_call_id": call.id})
            answer = replace(failure(call, self._error_text(error, job), "error"), crashed=True)
            clear_frames(error)
        if job.started_at is not None:
            answer = replace(answer, seconds=time.perf_counter() - job.started_at)
        self._record(call, self._unless_interrupted(job, answer))

    def _unless_interrupted(self, job: ToolJob, answer: ToolAnswer) -> ToolAnswer:
        """Returns the answer. If an interrupted call should have run again but did not start, the
        answer reports the interruption instead."""
        if answer.ok or job.started_at is not None or self._interrupt_action(job.call) is None:
            return answer
        return self._interrupted(job.call)

    def _error_text(self, error: Exception, job: ToolJob) -> str:
        """Returns the text that the model receives for an unexpected exception."""
        own = job.tool.options.expose_errors if job.tool else None
        if self._run.policy.expose_errors if own is None else own:
            return str(error) or type(error).__name__
        return f"{job.call.name} failed with an internal error."

    def _use_recorded(self, call: FunctionCall) -> bool:
        """Uses the answer of an earlier process, which the log already has, if there is one."""
        recorded = self._recorded.get(call.id)
        if recorded is None or recorded.answer is None:
            return False
        self._answers[id(call)] = recorded.answer
        return True

    def _interrupt_action(self, call: FunctionCall) -> OnInterrupt | None:
        """Returns what to do with an interrupted call; None if it was not interrupted."""
        recorded = self._recorded.get(call.id)
        if recorded is None or recorded.started is None or recorded.answer is not None:
            return None
        tool = self._run.tools.get(call.name)
        if tool is None:
            return "tell_model"
        if tool.options.idempotent:
            return "retry"
        return tool.options.on_interrupt or self._run.policy.on_interrupt

    def _interrupted(self, call: FunctionCall) -> ToolAnswer:
        tool = self._run.tools.get(call.name)
        return interrupted(call, idempotent=tool is not None and tool.options.idempotent)

    def _record(self, call: FunctionCall, answer: ToolAnswer) -> None:
        """Records the call's answer in the log. Only the first answer counts."""
        if id(call) in self._answers:
            return
        self._answers[id(call)] = answer
        self._run.emit(
            ToolRunEnded(
                answer.response,
                answer.outcome,
                answer.seconds,
                answer.attempts,
                answer.cached,
                answer.effect_unknown,
                answer.crashed,
            )
        )
        if log.isEnabledFor(logging.INFO):
            message = "Tool executed successfully" if answer.ok else "Tool call not successful"
            log.info(
                message,
                extra={"tool": call.name, "tool_call_id": call.id, "outcome": answer.outcome},
            )


async def answers_to(
    calls: Sequence[FunctionCall], executor: ToolExecutor, run: RunContext, number: int = 1
) -> list[ToolAnswer]:
    """Runs calls without a model, as round `number`. Returns the answers in call order."""
    async with Round(number, executor, run, Repetition(1)) as alone:
        await alone.finish(calls)
        return alone.answers(calls, NOT_BEGUN)


def in_order(calls: Sequence[FunctionCall], tools: Mapping[str, Tool]) -> list[FunctionCall]:
    """Sorts the calls so that every tool follows those in its `after`; else keeps the order."""
    if not any(call.name in tools and tools[call.name].options.after for call in calls):
        return list(calls)
    ordered: list[FunctionCall] = []
    waiting = list(calls)
    while waiting:
        names = {call.name for call in waiting}
        ready = next((call for call in waiting if not _is_blocked(call, names, tools)), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def _is_blocked(call: FunctionCall, waiting: set[str], tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(call.name)
    return tool is not None and any(name in waiting for name in tool.options.after)


def _stopped(job: ToolJob) -> ToolAnswer:
    if job.started_at is None:
        return not_begun(job.call)
    text = "stopped, effect unknown" if job.effect_unknown else "stopped"
    return replace(
        failure(job.call, text, "stopped"),
        seconds=time.perf_counter() - job.started_at,
        effect_unknown=job.effect_unknown,
    )
