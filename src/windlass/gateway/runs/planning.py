"""Plans the runs of the gateway: new ones, interrupted ones, and calls without a model."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import NamedTuple

from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionDeclaration, Message, Text
from windlass.errors import RunInterrupted, RunNotFound
from windlass.events import ModelEvent, ToolCallDelta, ToolCallEnded, ToolCallStarted, TurnEnded
from windlass.gateway.http.context import Exchange
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.registry import ModelRegistry
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.runs.chats import NO_CHAT, Chats, ChatSoFar
from windlass.gateway.runs.hidden_turns import (
    HiddenTurns,
    continued,
    hidden_turn,
    seen_by_client,
)
from windlass.gateway.runs.lookup import FinishedRun, FoundRun
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.sessions import Sessions
from windlass.jsontext import by_size
from windlass.loop.history import History
from windlass.loop.loop import RunPlan
from windlass.model import ModelRequest
from windlass.request import ONE_REQUEST, RunRequest
from windlass.runs.origin import Offer, Origin
from windlass.runs.service import InterruptedRun, RunService, new_run_id
from windlass.tool import Tool
from windlass.wires.calls import CallIds, run_of
from windlass.wires.errors import InvalidRequest, Problem


class PlannedRun(NamedTuple):
    """A run that is ready to start."""

    plan: RunPlan
    origin: Origin


class RunPlanning:
    """Resolves what a request refers to: its model's tools, its worker session and its chat."""

    def __init__(
        self,
        registry: ModelRegistry,
        sessions: Sessions,
        turns: HiddenTurns,
        chats: Chats | None,
        service: RunService[GatewayRun, FinishedRun],
    ) -> None:
        self._registry, self._sessions = registry, sessions
        self._turns, self._chats, self._service = turns, chats, service

    async def new(self, request: RunRequest, exchange: Exchange, served: ServedModel) -> PlannedRun:
        """Plans a run. Raises `Refused` and `InvalidRequest`, which name the field."""
        self._sessions.check_key(exchange.key, request.session)
        chat = await self._so_far(exchange.owner, request)
        tools = await self._sessions.tools(served, request.session, exchange.owner)
        remote = (*tools, *request.brought)
        offer = await served.offer(request, remote)
        # A schema is checked, which takes long if it is large.
        size = 0 if request.settings.response_schema is None else request.size
        origin = await by_size(size, served.origin, request, offer)
        if chat.replaced_since:
            origin = replace(
                origin, replaced_from=chat.replaced_from, replaced_since=chat.replaced_since
            )
        messages = served.with_system(chat.messages)
        names = served.config.tools if offer.tools else ()
        if said := await self._registry.servers.instructions(names, exchange.owner):
            first = sum(1 for _ in takewhile(lambda each: each.role == "system", messages))
            instructions = Message(role="system", parts=(Text(said),), extra=ONE_REQUEST)
            messages = (*messages[:first], instructions, *messages[first:])
        return PlannedRun(served.plan(new_run_id(), origin, messages, offer), origin)

    async def conversation_after(self, run: FoundRun) -> tuple[Message, ...]:
        """The conversation that the client of a run has seen. Raises `Refused` while it is active.

        Messages that continue it may contain results for the calls of its last turn.
        """
        history = History(await run.recorded())
        if history.ended is None:
            message = f"The run {run.id} has not ended."
            raise Refused(Problem(409, message, "run_in_progress"))
        return seen_by_client(history.reply(), history.input_count, run.call_ids)

    async def plan_again(self, run: InterruptedRun) -> RunPlan:
        """Plans an interrupted run with the models and tools of the current configuration.

        Raises `RunInterrupted` if its model, a tool or its session is not available.
        """
        record, origin, history = run
        assert history.started is not None
        try:
            served = self._registry.served(record.model, None)
            self._sessions.check_owner(record.owner, origin.session)
            remote = await self._sessions.tools(served, origin.session, record.owner, origin.tools)
        except (Refused, InvalidRequest) as error:
            raise RunInterrupted(f"the run was interrupted and cannot resume: {error}") from error
        offer, _ = origin.offer(served.own_and(remote))
        return served.plan(record.id, origin, history.started.messages, offer)

    async def _so_far(self, owner: str, request: RunRequest) -> ChatSoFar:
        """The messages for the model: those of the request, the stored chat and hidden turns."""
        if self._chats is None:
            if request.chat:
                message = "chat_id: this gateway stores no chats: set [runs] path"
                raise Refused(Problem(404, message, "no_chats", "chat_id"))
            return replace(NO_CHAT, messages=self._turns.restored(owner, request.messages))
        chat, messages = NO_CHAT, request.messages
        if request.chat:
            chat = await self._chats.so_far(owner, request)
            messages = continued(chat.messages, messages)
        await self._recall(owner, messages)
        return replace(chat, messages=self._turns.restored(owner, messages))

    async def _recall(self, owner: str, messages: Sequence[Message]) -> None:
        """Loads hidden turns that these messages answer from the log."""
        for message in messages:
            if message.role != "assistant" or not (calls := message.calls):
                continue
            run_id = next(filter(None, (run_of(call.id) for call in calls)), None)
            if run_id is None or any(self._turns.knows(owner, call.id) for call in calls):
                continue
            try:
                record = await self._service.record(run_id, owner)
            except RunNotFound:
                continue
            if record.ended is None or self._service.log is None:
                continue
            history = History(await self._service.log.read(run_id))
            turn = hidden_turn(history.reply(), history.input_count, CallIds(run_id))
            if turn is not None and not any(self._turns.knows(owner, each) for each in turn.ids):
                self._turns.keep(owner, turn)


class DirectCall:
    """A model that makes one given call and then ends its turn without text."""

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
