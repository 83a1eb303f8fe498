"""Calls of the host's tools from inside a worker's tool."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.errors import ToolError

HostCaller = Callable[[str, dict[str, Any]], Awaitable[Any]]

current_host: contextvars.ContextVar[tuple[asyncio.AbstractEventLoop, HostCaller] | None] = (
    contextvars.ContextVar("windlass_worker_host", default=None)
)


async def call_host_async(name: str, /, **arguments: Any) -> Any:
    """Calls a tool of the host and returns its value. Raises `ToolError`, also outside a call."""
    return await _caller()[1](name, arguments)


def call_host(name: str, /, **arguments: Any) -> Any:
    """`call_host_async` for sync tools."""
    loop, caller = _caller()

    async def call() -> Any:
        return await caller(name, arguments)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()


def _caller() -> tuple[asyncio.AbstractEventLoop, HostCaller]:
    found = current_host.get()
    if found is None:
        raise ToolError("no host: call_host works only inside a worker's tool")
    return found
