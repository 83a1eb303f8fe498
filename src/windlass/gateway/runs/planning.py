"""Builds the plan of a run from a request."""

from typing import NamedTuple

from msgspec.structs import replace

from windlass.errors import ConfigError
from windlass.gateway.http.context import Exchange
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.runs.chats import NO_CHAT, ChatSoFar
from windlass.gateway.runs.hidden_turns import HiddenTurns, continued
from windlass.gateway.runs.persistence import GatewayOrigin, RunPersistence
from windlass.gateway.tools.sessions import Sessions
from windlass.loop.loop import RunPlan
from windlass.runs.event_log import MemoryLog
from windlass.settings import Mode, mode_from
from windlass.wires.chat.read_request import ChatRequest
from windlass.wires.errors import InvalidRequest, Problem

MODE_HEADER = b"x-function-calling-mode"


class Prepared(NamedTuple):
    """A run that is ready to start."""

    plan: RunPlan
    origin: GatewayOrigin
    chat: ChatSoFar


class Preparation:
    """Resolves what a request refers to: its mode, its worker session and its chat."""

    def __init__(
        self, sessions: Sessions, turns: HiddenTurns, durable: RunPersistence | None
    ) -> None:
        self._sessions, self._turns, self._durable = sessions, turns, durable

    async def of(
        self,
        request: ChatRequest,
        exchange: Exchange,
        served: ServedModel,
        *,
        run_id: str,
        live: bool,
        background: bool,
    ) -> Prepared:
        """Prepares a run. Raises `Refused` and `InvalidRequest`, which name the field."""
        mode = _requested_mode(exchange)
        session = self._sessions.named(exchange)
        chat = await self._so_far(exchange.owner, request)
        remote = await self._sessions.tools(served, session)
        plan = served.plan(
            request,
            run_id=run_id,
            messages=chat.messages,
            mode=mode,
            live=live,
            remote=remote,
            offer=await served.offer(request, remote),
        )
        origin = GatewayOrigin(
            request=request,
            tools=tuple(plan.tools),
            session=session,
            mode=mode,
            background=background,
            live=live,
            replaced_from=chat.replaced_from,
            replaced_since=chat.replaced_since,
        )
        return Prepared(plan, origin, chat)

    def log_of(self, prepared: Prepared, owner: str) -> MemoryLog | None:
        """Starts the run's log; None if this gateway stores no runs."""
        if self._durable is None:
            return None
        return self._durable.begin(prepared.plan, owner, prepared.origin)

    async def _so_far(self, owner: str, request: ChatRequest) -> ChatSoFar:
        """The messages for the model: those of the request, the stored chat and hidden turns."""
        durable = self._durable
        if durable is None:
            if request.chat:
                message = "chat_id: this gateway stores no chats: set [runs] path"
                raise Refused(Problem(404, message, "no_chats", "chat_id"))
            return replace(NO_CHAT, messages=self._turns.restored(owner, request.messages))
        chat, messages = NO_CHAT, request.messages
        if request.chat:
            chat = await durable.chats.so_far(owner, request)
            messages = continued(chat.messages, messages)
        await durable.recall(owner, messages, self._turns)
        return replace(chat, messages=self._turns.restored(owner, messages))


def _requested_mode(exchange: Exchange) -> Mode | None:
    value = exchange.header(MODE_HEADER)
    if not value:
        return None
    try:
        return mode_from(value, "X-Function-Calling-Mode")
    except ConfigError as error:
        raise InvalidRequest(str(error), "X-Function-Calling-Mode") from None
