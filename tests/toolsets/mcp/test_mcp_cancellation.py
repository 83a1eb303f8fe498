"""Calls that are cancelled. Their server keeps its own toolset: it may still ask for them."""

import asyncio
from pathlib import Path

import pytest
from tests.toolsets.mcp.serving import PREFIX, appearing

from windlass import AsyncClient, ToolRunProgress
from windlass.testing import ScriptedModel, call
from windlass.toolsets.mcp.toolset import McpToolset

pytestmark = pytest.mark.process


async def test_a_stopped_run_cancels_the_call_at_the_server(
    sample: McpToolset, directory: Path
) -> None:
    for told in ("waiting", "cancelled"):
        (directory / told).unlink(missing_ok=True)
    async with AsyncClient(ScriptedModel([call(f"{PREFIX}waits", reports=1), "done"])) as client:
        run = await client.start("go", tools=[sample])
        async for event in run.events():
            if isinstance(event, ToolRunProgress):
                break
        await run.stop()
    assert await asyncio.to_thread(appearing, directory / "cancelled")
    assert "effect unknown" in (run.reply.results[0].error or "")
