"""What runs when the model calls a server's tool."""

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.errors import ToolError
from windlass.tool import ToolContext
from windlass.toolsets.mcp.background import awaited
from windlass.toolsets.mcp.calls import Calls
from windlass.toolsets.mcp.pins import Pin
from windlass.toolsets.mcp.questions import change

__all__ = ["ServerFunction"]


class ServerFunction:
    """One tool of a server, as a function of its arguments."""

    def __init__(
        self,
        calls: Calls,
        name: str,
        outer: str,
        *,
        change: tuple[Pin, Pin] | None,
        accept: Callable[[str, Pin], None],
    ) -> None:
        """`change` is what it was first seen with and what it says now, if that is not the same."""
        self.__name__ = outer
        self._calls, self._name, self._outer = calls, name, outer
        self._change, self._accept = change, accept

    # The name of the context's parameter is one that no server's tool has for an argument.
    async def __call__(self, /, windlass_context: ToolContext, **arguments: Any) -> object:
        if self._change is not None:
            await self._ask_about(*self._change, windlass_context)
        home = asyncio.get_running_loop()
        return await awaited(
            self._calls.call(self._name, self._outer, arguments, windlass_context, home)
        )

    async def _ask_about(self, was: Pin, now: Pin, context: ToolContext) -> None:
        decision = await context.ask(change(self._outer, was, now))
        if not decision.approved:
            reason = f": {decision.reason}" if decision.reason else ""
            raise ToolError(
                f"{self._outer} has changed since it was approved, and the new version is not"
                f" approved{reason}."
            )
        self._accept(self._name, now)
        self._change = None
