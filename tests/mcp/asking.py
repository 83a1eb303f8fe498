"""An executor whose tools may ask whoever approves, in the middle of a call."""

import dataclasses
import functools
from typing import Any

from windlass import Tool, ToolContext, ToolExecutor, ToolJob


class AskingExecutor(ToolExecutor):
    async def _injected(self, job: ToolJob, tool: Tool) -> dict[str, Any]:
        values = await super()._injected(job, tool)
        ask = functools.partial(job.run.approvals.ask, emit=job.run.emit)
        return {
            name: dataclasses.replace(value, ask=ask) if isinstance(value, ToolContext) else value
            for name, value in values.items()
        }
