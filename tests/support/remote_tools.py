"""Tools for workers, and a worker in its own process that can be killed."""

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from windlass import Tool, ToolContext, ToolError, tool
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import ToolSpec
from windlass.worker import Worker


@tool
def get_weather(city: str, unit: str = "celsius") -> dict[str, str]:
    """The weather now.

    Args:
        city: The city's name.
    """
    return {"city": city, "unit": unit}


@tool
async def count_to(number: int, context: ToolContext) -> str:
    """Counts, and reports its progress."""
    for step in range(1, number + 1):
        context.progress(step / number, f"step {step}")
    return context.call_key


def waiting_once(begun: asyncio.Event) -> Tool:
    """Returns a tool that sets `begun`. Its first call never returns."""

    @tool(idempotent=True)
    async def wait() -> str:
        """Waits, the first time."""
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "waited"

    return wait


@tool
def always_failing() -> str:
    """Fails."""
    raise ToolError("no luck today")


async def spec_named(bridge: Bridge, session: str, name: str) -> ToolSpec:
    return next(spec for spec in await bridge.specs(session) if spec.name == name)


async def weather_of_exited_worker(bridge: Bridge, nats: str, session: str) -> ToolSpec:
    """`get_weather` of a worker that has exited."""
    async with Worker([get_weather], nats=nats, session=session):
        spec = await spec_named(bridge, session, "get_weather")
    while bridge._directory.members(session):
        await asyncio.sleep(0)
    return spec


class WorkerProcess:
    """A worker that reports when it is ready, and can be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """Returns the next line that one of its tools has written."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGTERM)

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    async def ended(self) -> int:
        return await self._process.wait()


@asynccontextmanager
async def worker_process(
    nats: str, session: str, tools: str, place: Path
) -> AsyncIterator[WorkerProcess]:
    """Runs `windlass worker` with the tools in this source text."""
    file = place / f"tools_{abs(hash(tools))}.py"
    file.write_text(textwrap.dedent(tools))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "windlass", "worker", "--tools", str(file), "--nats", nats, "--session", session),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = await process.stderr.readline()
    assert b"serves" in said, said
    try:
        yield WorkerProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
