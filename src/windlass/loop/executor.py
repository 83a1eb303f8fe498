"""Executes calls: validation, approval, cache, time-out, retries, and the tool itself.

Users subclass `ToolExecutor` to wrap or replace tool execution. `outside_a_run` is for calls that
no run makes.
"""

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.content import FunctionCall
from windlass.errors import InvalidArguments, StorageError, ToolError
from windlass.events import RunEvent, ToolRunProgress, ToolRunStarted
from windlass.jsontext import LARGE, by_size, compact_json, is_larger, offloaded
from windlass.loop.approval import Approval, ApprovalHook, Approvals
from windlass.loop.cache import ResultCache
from windlass.loop.dependencies import Dependencies
from windlass.loop.history import RecordedCall
from windlass.loop.policy import Policy
from windlass.loop.threads import in_thread
from windlass.reply import ToolAnswer, answer, failure
from windlass.time_limit import TimeUp, within
from windlass.tool import Tool, ToolContext

log = logging.getLogger("windlass.loop")

OTHER_CALL = "the approval covers only the call itself"


@dataclass(slots=True)
class RunContext:
    """State that all tool calls of one run share."""

    run_id: str
    tools: Mapping[str, Tool]
    policy: Policy
    emit: Callable[[RunEvent], None]
    approvals: Approvals
    dependencies: Dependencies
    slots: asyncio.Semaphore
    deadline: float | None = None
    settled: Callable[[], Awaitable[None]] | None = None
    """Waits until all emitted events are stored; None without a stored log."""
    began: float = 0.0
    """When the run began, by `time.monotonic`. Only resumed runs need it."""


@dataclass(slots=True)
class ToolJob:
    """One call to execute."""

    call: FunctionCall
    tool: Tool | None
    round: int
    run: RunContext
    started_at: float | None = None
    """When the tool itself started; None if it had no chance to have an effect."""
    recorded: RecordedCall | None = None
    """The progress of the call in an earlier process."""
    announced: bool = False
    """Whether `ToolRunStarted` was emitted: then `ToolRunEnded` must follow."""

    async def start(self) -> None:
        """Emits `ToolRunStarted`. If the run stops after this, the tool's effect is unknown."""
        if self.started_at is None:
            self.announced = True
            self.run.emit(ToolRunStarted(self.call, self.round))
            if self.run.settled is not None:
                await self.run.settled()
            self.started_at = time.perf_counter()
            if log.isEnabledFor(logging.INFO):
                # Arguments may be private, so only the debug level logs them.
                debug = log.isEnabledFor(logging.DEBUG)
                log.info(
                    "%s executed",
                    self.call.name,
                    extra={
                        "tool": self.call.name,
                        "tool_call_id": self.call.id,
                        **({"arguments": self.call.arguments} if debug else {}),
                    },
                )

    def is_unwritten(self, error: Exception) -> bool:
        """Whether the log failed to store `ToolRunStarted`, so that the tool never started."""
        return self.announced and self.started_at is None and isinstance(error, StorageError)

    @property
    def effect_unknown(self) -> bool:
        """Whether the tool, if interrupted now, may have had an effect that matters."""
        return self.started_at is not None and not (self.tool and self.tool.options.idempotent)


class ToolExecutor:
    """Executes calls. A client has one executor, and all its runs share the executor's cache.

    Override `execute` to wrap every call (limits, metrics, other machines) and call `super()`.
    Raise `ToolError` there to send an error text to the model.
    """

    def __init__(
        self,
        *,
        cache: ResultCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cache = cache or ResultCache()
        self._sleep = sleep

    async def execute(self, job: ToolJob) -> ToolAnswer:
        """Returns the answer to one call.

        If it raises, the error is logged, and the model receives a failed result.
        """
        call, tool = job.call, job.tool
        if tool is None or tool.function is None:
            known = ", ".join(name for name, each in job.run.tools.items() if each.runnable)
            return failure(
                call, f"There is no tool {call.name!r}. Known: {known or 'none'}.", "unknown_tool"
            )
        try:
            arguments = await by_size(len(call.json), tool.validate, call.json)
            if tool.options.approve:
                decision = await self._approval(job)
                if not decision.approved:
                    reason = f": {decision.reason.rstrip('.')}" if decision.reason else ""
                    return failure(call, f"The call was denied{reason}.", "denied")
                if decision.arguments is not None:
                    job.call = msgspec.structs.replace(call, json=compact_json(decision.arguments))
                    arguments = tool.validate(job.call.json)
        except InvalidArguments as error:
            text = f"Invalid arguments for {call.name}: {error}"
            return failure(call, text, "invalid_arguments")
        if tool.options.cache is None:
            return await self._timed(job, tool, arguments)
        return await self._shared(job, tool, arguments, tool.options.cache)

    async def _approval(self, job: ToolJob) -> Approval:
        recorded = job.recorded or RecordedCall()
        if recorded.decision is not None:
            return recorded.decision
        waited = None
        if recorded.asked_at is not None:
            waited = time.monotonic() - job.run.began - recorded.asked_at
        return await job.run.approvals.ask(job.call, job.run.emit, waited)

    async def _shared(
        self, job: ToolJob, tool: Tool, arguments: dict[str, Any], seconds: float
    ) -> ToolAnswer:
        # Injected values (a user, a session) may change the result: other runs must not share it.
        scope = job.run.run_id if tool.dependencies or tool.context_parameter else None
        canonical = await by_size(len(job.call.json), _canonical, job.call)
        found, cached = await self._cache.get(
            (tool, scope, canonical), seconds, lambda: self._timed(job, tool, arguments)
        )
        response = msgspec.structs.replace(found.response, id=job.call.id)
        return msgspec.structs.replace(found, response=response, cached=cached)

    async def _timed(self, job: ToolJob, tool: Tool, arguments: dict[str, Any]) -> ToolAnswer:
        limit = tool.options.timeout or job.run.policy.tool_timeout
        try:
            # The time-out does not include waiting for a slot or for an approval.
            async with job.run.slots:
                attempts = self._attempts(job, tool, arguments)
                return await (attempts if limit is None else within(limit, attempts))
        except TimeUp:
            unknown = job.effect_unknown
            text = f"{tool.name} did not answer within {limit:g} seconds" + (
                " and was stopped, effect unknown." if unknown else "."
            )
            late = failure(job.call, text, "timeout")
            return msgspec.structs.replace(late, effect_unknown=unknown)

    async def _attempts(self, job: ToolJob, tool: Tool, arguments: dict[str, Any]) -> ToolAnswer:
        retries = tool.options.retries if tool.options.idempotent else 0
        attempt = 1
        while True:
            try:
                value = await self._call(job, tool, arguments)
                if is_larger(value, LARGE):
                    response = await offloaded(answer, job.call, value, is_large=True)
                else:
                    response = answer(job.call, value)
                return ToolAnswer(response, attempts=attempt)
            except Exception as error:
                final = isinstance(error, ToolError) and not error.retryable
                if attempt > retries or final or job.is_unwritten(error):
                    raise
                log.info("Tool failed, retrying", extra={"tool": tool.name}, exc_info=True)
            await self._sleep(random.uniform(0.5, 1.0) * 0.1 * 2**attempt)
            attempt += 1

    async def _call(self, job: ToolJob, tool: Tool, arguments: dict[str, Any]) -> object:
        """Calls an async function here and a sync function in a thread."""
        function = tool.function
        assert function is not None
        has_context = bool(tool.dependencies or tool.context_parameter)
        if has_context:
            arguments = {**arguments, **await self._injected(job, tool)}
        await job.start()
        try:
            value = (
                function(**arguments) if tool.is_async else await in_thread(function, **arguments)
            )
            return await value if inspect.isawaitable(value) else value
        except SystemExit as error:
            raise RuntimeError("the tool raised SystemExit") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("the tool cancelled itself") from error
        finally:
            if has_context and not tool.is_async:
                await asyncio.sleep(0)  # progress that the thread has reported comes first

    async def _injected(self, job: ToolJob, tool: Tool) -> dict[str, Any]:
        context = ToolContext(
            run_id=job.run.run_id,
            call_id=job.call.id,
            name=tool.name,
            round=job.round,
            deadline=job.run.deadline,
            report=_reporter(job),
            ask=lambda call: job.run.approvals.ask(call, job.run.emit),
        )
        values = await job.run.dependencies.resolve(tool, context)
        if tool.context_parameter:
            values = {**values, tool.context_parameter: context}
        return values


def _canonical(call: FunctionCall) -> bytes:
    return msgspec.json.encode(call.arguments, order="deterministic")


def _reporter(job: ToolJob) -> Callable[[float | None, str | None, Any], None]:
    """Returns a function that emits progress events from any thread."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def report(progress: float | None, message: str | None, data: Any) -> None:
        event = ToolRunProgress(job.call.id, job.call.name, progress, message, data)
        if threading.get_ident() == home:
            job.run.emit(event)
        else:
            loop.call_soon_threadsafe(job.run.emit, event)

    return report


@asynccontextmanager
async def outside_a_run(
    run_id: str,
    tools: Mapping[str, Tool],
    policy: Policy,
    *,
    approve: ApprovalHook | None = None,
    emit: Callable[[RunEvent], None] = lambda _: None,
    slots: asyncio.Semaphore | None = None,
) -> AsyncGenerator[RunContext, None]:
    """A context for calls that no run makes. Tools read `run_id`.

    `approve` decides about tools that need an approval; without it they are denied. `slots` limits
    how many calls run at once, if other calls share the limit.
    """
    async with Dependencies() as dependencies:
        yield RunContext(
            run_id=run_id,
            tools=tools,
            policy=policy,
            emit=emit,
            approvals=Approvals(approve, wait=False, timeout=policy.approval_timeout),
            dependencies=dependencies,
            slots=slots or asyncio.Semaphore(policy.max_parallel),
        )


def yes_to(call: FunctionCall) -> ApprovalHook:
    """Approves this call, but no approval that its tool requests while it runs."""

    async def decide(asked: FunctionCall) -> Approval:
        approved = asked.id == call.id
        return Approval(approved, reason=None if approved else OTHER_CALL)

    return decide
