"""Tools of the host, called from inside a worker's tool."""

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
    """What the host's tool of that name returns. Raises `ToolError`, also outside of a call."""
    return await _caller()[1](name, arguments)


def call_host(name: str, /, **arguments: Any) -> Any:
    """The same for tools that are not async."""
    loop, caller = _caller()

    async def call() -> Any:
        return await caller(name, arguments)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()


def _caller() -> tuple[asyncio.AbstractEventLoop, HostCaller]:
    found = current_host.get()
    if found is None:
        raise ToolError("there is no host: this is not inside a worker's call")
    return found
