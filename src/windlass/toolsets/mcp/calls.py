"""One call of a server's tool: progress, its time, what the server asks meanwhile, its end."""

import asyncio
import contextlib
import contextvars
from collections.abc import Generator
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.client._input_required import InputRequiredRoundsExceededError
from pydantic import ValidationError

from windlass.content import FunctionCall
from windlass.errors import ToolError
from windlass.tool.injection import Decision, ToolContext
from windlass.toolsets.mcp.options import Server
from windlass.toolsets.mcp.questions import elicitation, elicited
from windlass.toolsets.mcp.results import value_of
from windlass.toolsets.mcp.supervisor import Down, Supervisor

__all__ = ["Calls", "asking"]


class _Call:
    """A call that runs: its clock, and whom to ask."""

    def __init__(self, tool: str, context: ToolContext, home: asyncio.AbstractEventLoop) -> None:
        self.tool, self._context, self._home = tool, context, home
        self.clock = asyncio.timeout(None)
        self._seconds = 0.0

    def alive(self, seconds: float | None = None) -> None:
        """Begins the time without a word anew."""
        self._seconds = self._seconds if seconds is None else seconds
        self.clock.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.alive()
        fraction = progress / total if total else None
        data = None if total else {"progress": progress}
        self._context.report(fraction, message, data)

    async def ask(self, question: FunctionCall) -> Decision:
        """Asks in the run's own loop. A person's time is not the server's."""
        self.clock.reschedule(None)
        try:
            return await asking(self._context, question, self._home)
        finally:
            self.alive()


class _Forgotten(Exception):
    """The server has refused the call because it does not know us any more: nothing was run."""


async def asking(
    context: ToolContext, question: FunctionCall, home: asyncio.AbstractEventLoop
) -> Decision:
    """Asks whoever approves the run, from the background loop."""

    async def ask() -> Decision:
        return await context.ask(question)

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), home))


_current: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("mcp_call", default=None)


class Calls:
    """The calls of one server. Runs on the background loop."""

    def __init__(self, server: Server, *, supervisor: Supervisor | None = None) -> None:
        self._server = server
        self._running: list[_Call] = []
        self.supervisor = supervisor or Supervisor(server, self.elicit)

    async def call(
        self,
        name: str,
        tool: str,
        arguments: dict[str, Any],
        context: ToolContext,
        home: asyncio.AbstractEventLoop,
    ) -> object:
        """The value of a call; `name` is the server's own. Raises `ToolError`, for the model."""
        call = _Call(tool, context, home)
        with self._counted(call):
            try:
                return await self._answer(call, name, arguments)
            except _Forgotten:
                return await self._answer(call, name, arguments)

    async def _answer(self, call: _Call, name: str, arguments: dict[str, Any]) -> object:
        try:
            connection = await self.supervisor.connection()
        except Down as down:
            # The rest of the reason has addresses and paths, which are in the log.
            reason = str(down).partition(":")[0]
            raise ToolError(
                f"The MCP server {self.supervisor.label!r} is not there: it {reason}.",
                retryable=True,
            ) from None
        call.clock = asyncio.timeout(None)
        try:
            async with call.clock:
                call.alive(self._server.timeout)
                result = await connection.client.call_tool(
                    name, arguments, progress_callback=call.progressed
                )
        except (MCPError, TimeoutError, ValidationError, RuntimeError) as error:
            if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
                self.supervisor.lost(connection)
            elif isinstance(error, MCPError) and connection.forgotten:
                self.supervisor.lost(connection)
                raise _Forgotten from None
            raise self._told(error, call) from None
        return value_of(result)

    def _told(self, error: Exception, call: _Call) -> Exception:
        """What the model is told of a call that came to nothing."""
        whose = f"The MCP server {self.supervisor.label!r}"
        match error:
            case MCPError(code=types.CONNECTION_CLOSED):
                words = f"{whose} ended during the call, effect unknown."
                return ToolError(words, retryable=True)
            case MCPError():
                return ToolError(f"{whose} refused: {error.message}")
            case TimeoutError() if call.clock.expired():
                return ToolError(
                    f"{call.tool} gave no answer and no word of progress for"
                    f" {self._server.timeout:g} seconds and was cancelled, effect unknown."
                )
            case ValidationError():
                return ToolError(f"{whose} gave an answer that breaks MCP.")
            case InputRequiredRoundsExceededError():
                return ToolError(f"{whose} kept asking for more input.")
            case RuntimeError():  # the SDK's word for output that breaks the tool's own schema
                return ToolError(f"{call.tool}: {error}")
            case _:
                return error

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Takes what the server asks to whoever approves the calls of that run."""
        call = _current.get()
        if call not in self._running:
            # Over stdio a server with a handshake does not say which call it asks for.
            call = self._running[-1] if self._running else None
        if call is None:
            return types.ElicitResult(action="decline")
        decision = await call.ask(elicitation(call.tool, params))
        return elicited(params, decision.approved, decision.arguments)

    @contextlib.contextmanager
    def _counted(self, call: _Call) -> Generator[None]:
        token = _current.set(call)
        self._running.append(call)
        try:
            yield
        finally:
            self._running.remove(call)
            _current.reset(token)
