"""Calls that come over MCP, answered by the loop's own executor."""

import asyncio
from typing import Any

from mcp_types import Result

from windlass.content import FunctionCall, FunctionResponse, new_call_id
from windlass.errors import ToolError
from windlass.events import RunEvent, ToolRunProgress
from windlass.loop.executor import ToolExecutor, ToolJob, outside_a_run, yes_to
from windlass.loop.policy import Policy
from windlass.tool import Tool
from windlass.toolsets.mcp.serving.progress import ProgressRelay

__all__ = ["Executions"]


class Executions:
    """Runs tools with their time-outs, retries, caches and dependencies."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._executor = _Executor()
        self._slots = asyncio.Semaphore(self._policy.max_parallel)
        self._count = 0

    async def __call__(
        self, tool: Tool, arguments: str, relay: ProgressRelay
    ) -> FunctionResponse | Result:
        """The answer. Raises what the tool raises."""
        self._count += 1
        call = FunctionCall(tool.name, arguments, new_call_id())

        def emit(event: RunEvent) -> None:
            if isinstance(event, ToolRunProgress):
                relay.report(event.progress, event.message, event.data)

        async with outside_a_run(
            f"mcp_{self._count}",
            {tool.name: tool},
            self._policy,
            approve=yes_to(call),  # whoever is to say that was asked over MCP before this
            emit=emit,
            slots=self._slots,
        ) as run:
            try:
                answer = await self._executor.execute(ToolJob(call, tool, 1, run))
            except _Whole as whole:
                return whole.result
        return answer.response


class _Whole(ToolError):
    """A tool gave a result of MCP's own: it leaves the executor as it is."""

    def __init__(self, result: Result) -> None:
        super().__init__("a result of MCP's own")
        self.result = result


class _Executor(ToolExecutor):
    async def _call(self, job: ToolJob, tool: Tool, arguments: dict[str, Any]) -> object:
        value = await super()._call(job, tool, arguments)
        if isinstance(value, Result):
            raise _Whole(value)
        return value
