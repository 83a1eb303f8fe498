"""A call that a client makes without a model, as a run: with a log, approvals and limits."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionDeclaration, Message
from windlass.events import ModelEvent, ToolCallDelta, ToolCallEnded, ToolCallStarted, TurnEnded
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.runs.planning import PlannedRun
from windlass.model import ModelRequest
from windlass.request import RunRequest
from windlass.runs.origin import Offer
from windlass.runs.service import new_run_id
from windlass.tool import Tool


class DirectCall:
    """A model that makes one given call, and says nothing about its result."""

    name = "windlass/call"

    def __init__(self, call: FunctionCall) -> None:
        self._call = call

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        called = any(message.role == "tool" for message in request.messages)
        yield self._end() if called else self._turn()

    async def _turn(self) -> AsyncGenerator[ModelEvent]:
        yield ToolCallStarted(0, self._call.id, self._call.name)
        yield ToolCallDelta(0, self._call.json)
        yield ToolCallEnded(0, self._call)
        yield TurnEnded("tool_calls")

    async def _end(self) -> AsyncGenerator[ModelEvent]:
        yield TurnEnded("stop")

    async def aclose(self) -> None:
        """Does nothing: there are no connections."""


def planned_call(
    call: FunctionCall, tool: Tool, served: ServedModel, wire: str, session: str
) -> PlannedRun:
    """The plan of a run that makes this call, by the rules of the served model."""
    assert isinstance(tool.declaration, FunctionDeclaration)
    title = Message.user(f"{tool.name} {call.json}")
    request = RunRequest(
        wire=wire, model=served.name, messages=(title,), approvable=True, session=session
    )
    offer = Offer({tool.name: tool}, (tool.declaration,))
    origin = served.origin(request, offer)
    origin = replace(origin, policy=replace(origin.policy, max_rounds=2))
    plan = served.plan(new_run_id(), origin, request.messages, offer)
    return PlannedRun(replace(plan, model=DirectCall(call)), origin)
