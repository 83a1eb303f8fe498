"""Reads requests for a response, with the conversation and the decisions that they refer to."""

from collections.abc import Collection

from msgspec.structs import replace

from windlass.content import Message
from windlass.errors import RunNotFound
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Exchange
from windlass.gateway.routes.response_store import ResponseStore, response_of, runs_of_conversation
from windlass.gateway.routes.wire import with_headers
from windlass.gateway.runs.hidden_turns import continued
from windlass.gateway.runs.lookup import Decision, FoundRun
from windlass.jsontext import by_size
from windlass.request import RunRequest, inherited
from windlass.wires.errors import InvalidRequest
from windlass.wires.responses.item_ids import ResponsePlace, approval_id, response_id
from windlass.wires.responses.messages import McpApproval
from windlass.wires.responses.read_request import ResponseOptions, item_references, read_request
from windlass.wires.responses.response import split_at_pause, waiting_calls

ASKED = "asked"
"""The field of a run's `answer` with the number of messages that its request added."""
SOCKET_MEMORY = "windlass.socket_memory"
"""The field of the scope of a request on a WebSocket."""
MAX_KNOWN = 64
"""The maximum number of responses that a WebSocket remembers."""


class SocketMemory:
    """The memory of a WebSocket: ids of responses that are not stored, and a warm-up."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    @property
    def known(self) -> Collection[str]:
        """The ids of responses that only this WebSocket may continue."""
        return self._known.keys()

    def remember(self, response: str, warmed: tuple[Message, ...] = ()) -> None:
        """Adds a response; `warmed` is the conversation of a warm-up, which has no run."""
        self._known[response] = warmed
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def warmed(self, response: str) -> tuple[Message, ...]:
        """The conversation of a warm-up; empty for other responses."""
        return self._known.get(response, ())

    def evict(self, response: str) -> None:
        self._known.pop(response, None)


class ResponseRequests:
    """Reads the requests of one gateway."""

    def __init__(self, gateway: Gateway, store: ResponseStore) -> None:
        self._gateway, self._store = gateway, store

    async def read(self, body: bytes, exchange: Exchange) -> RunRequest:
        """Reads a request, with the items that it refers to. Raises `InvalidRequest`."""
        limits = self._gateway.limits
        references = await by_size(len(body), item_references, body, limits)
        stored = await self._store.items(references, exchange.owner) if references else None
        request = await by_size(len(body), read_request, body, limits, stored)
        return with_headers(request, exchange)

    async def continued(
        self,
        request: RunRequest,
        options: ResponseOptions,
        owner: str,
        memory: SocketMemory | None = None,
    ) -> RunRequest:
        """The request with the conversation that it continues. Raises `Refused`."""
        if options.previous_response_id:
            previous, known = options.previous_response_id, memory.known if memory else ()
            before = memory.warmed(previous) if memory else ()
            before = before or await self._store.conversation(previous, owner, known)
            return replace(request, messages=continued(before, request.messages))
        if options.conversation:
            await runs_of_conversation(self._gateway, options.conversation, owner, limit=1)
            answer = {**request.answer, ASKED: len(inherited(request.messages))}
            return replace(request, chat=options.conversation, answer=answer)
        return request

    async def decide(
        self, options: ResponseOptions, owner: str, known: Collection[str] = ()
    ) -> tuple[FoundRun, ResponsePlace]:
        """Passes decisions to the run that waits for them, and returns its next response.

        Raises `Refused` and `InvalidRequest` if no call of it waits for such a decision.
        """
        first = options.approvals[0]
        previous = options.previous_response_id or response_of(first.request_id)
        if previous is None:
            raise _unknown_approval(first)
        try:
            run, place = await self._store.find(previous, owner, known)
        except RunNotFound:
            raise _unknown_approval(first) from None
        events, tools = await run.recorded(), run.origin.outline()
        _, own, _ = split_at_pause(events, tools, place.after)
        waiting = {
            approval_id(response_id(run.id), call): call for call in waiting_calls(events, tools)
        }
        for approval in options.approvals:
            call = waiting.get(approval.request_id)
            if call is None or not await run.approve(
                Decision(call_id=call, approved=approval.approve, reason=approval.reason)
            ):
                raise _unknown_approval(approval)
        return run, ResponsePlace(run.id, own[-1].seq if own else place.after)


def _unknown_approval(approval: McpApproval) -> InvalidRequest:
    return InvalidRequest(
        f"{approval.place}: no call waits for the approval {approval.request_id[:100]!r}",
        approval.place,
        "approval_not_found",
    )
