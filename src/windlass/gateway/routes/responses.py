"""`/v1/responses`: OpenAI's Responses API. A response is a run, or a part of its log.

A run that waits for approvals ends its response; the next request, with the decisions, continues
the same run in a response of its own.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.content import Message
from windlass.errors import RunNotFound, StorageError
from windlass.events import RunEvent
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    Exchange,
    Receive,
    Scope,
    Send,
    disconnected,
    exchange_of,
    json_response,
    query_number,
    respond_json,
)
from windlass.gateway.http.errors import Refused
from windlass.gateway.openapi.operations import (
    GUARDED,
    MODE_PARAMETER,
    SESSION_PARAMETER,
    STARTING,
    WAITING,
    EventStream,
    Operation,
    Parameter,
    Paths,
    QueryNumber,
    path_parameter,
)
from windlass.gateway.routes.wire import (
    SSE_HEADERS,
    Wire,
    answer_run,
    counted_body,
    with_headers,
)
from windlass.gateway.runs.hidden_turns import continued
from windlass.gateway.runs.lookup import Decision, FoundRun
from windlass.gateway.runs.response_view import (
    MCP_SERVERS,
    ResponseStream,
    ResponseView,
    response_options,
)
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.requested_servers import RequestedServers
from windlass.jsontext import by_size, decode_json
from windlass.loop.history import History
from windlass.loop.pace import in_slices
from windlass.model import NONE, Settings
from windlass.request import RunRequest, inherited
from windlass.runs.event_log import Follower
from windlass.runs.origin import Origin
from windlass.runs.records import RunRecord
from windlass.runs.service import new_run_id
from windlass.tool import Tool
from windlass.wires.call_ids import CallIds
from windlass.wires.errors import InvalidRequest, Problem
from windlass.wires.fields import JsonObject
from windlass.wires.openai_errors import error_body
from windlass.wires.responses.item_ids import (
    ResponsePlace,
    approval_id,
    place_of,
    response_id,
)
from windlass.wires.responses.messages import Approval, compaction_item, input_items
from windlass.wires.responses.pauses import PauseFinder, split_at_pause, waiting_calls
from windlass.wires.responses.read_request import (
    WIRE as WIRE_NAME,
)
from windlass.wires.responses.read_request import (
    ResponseOptions,
    item_references,
    options_of,
    read_request,
)
from windlass.wires.responses.response import ResponseHead, item_page, usage_fields
from windlass.wires.responses.tool_names import tool_names
from windlass.wires.responses.tools import read_tools
from windlass.wires.responses.types import (
    CompactedResponse,
    InputTokens,
    ItemList,
    ResponseDeleted,
    ResponseEvent,
    ResponseInput,
    ResponseJson,
    ResponseRequest,
)
from windlass.wires.responses.write_events import ResponseEncoder
from windlass.wires.tokens import estimated_tokens

PATH = "/v1/responses"
MAX_ITEMS = 100
SUMMARY_PROMPT = (
    "Summarize the conversation so far for a successor who has not seen it: the task, what was"
    " decided and done, results and facts that are still needed (names, paths, numbers verbatim),"
    " and what is left to do. Answer with the summary only."
)
NO_CONVERSATIONS = Problem(
    404,
    "This gateway stores no conversations: set [runs] path.",
    "no_conversations",
    "conversation",
)
SUMMARY_START = "Summary of the conversation so far:\n\n"

_RESPONSE_ID = path_parameter("response_id", "The response's id.")
ITEM_PARAMETERS = (
    Parameter("limit", "query", "The maximum number of items, at most 100.", QueryNumber),
    Parameter("order", "query", "Newest first by default.", Literal["asc", "desc"]),
    Parameter("after", "query", "The id of an item; the list starts after it."),
)
_STREAM = EventStream((ResponseEvent,), last="[DONE]")
_STREAM_PARAMETERS = (
    _RESPONSE_ID,
    Parameter("stream", "query", "Whether to stream its events.", Literal["true", "false"]),
    Parameter(
        "starting_after",
        "query",
        "Streams the events after this sequence number.",
        QueryNumber,
    ),
)
PATHS: Paths = {
    PATH: {
        "post": Operation(
            id="createResponse",
            summary="Returns the model's response to an input. The gateway runs its tools.",
            body=ResponseRequest,
            parameters=(MODE_PARAMETER, SESSION_PARAMETER),
            answer=ResponseJson,
            stream=_STREAM,
            headers=("X-Windlass-Run-Id", "X-Function-Calling-Mode"),
            problems=(424, *STARTING, *WAITING),
        )
    },
    f"{PATH}/input_tokens": {
        "post": Operation(
            id="countInputTokens",
            summary="Returns an estimate of the tokens of an input.",
            body=ResponseInput,
            answer=InputTokens,
            problems=(*STARTING, 409),
        )
    },
    f"{PATH}/compact": {
        "post": Operation(
            id="compactResponse",
            summary="Returns a conversation as a summary in one opaque item.",
            body=ResponseInput,
            answer=CompactedResponse,
            problems=(*STARTING, *WAITING),
        )
    },
    f"{PATH}/{{response_id}}": {
        "get": Operation(
            id="getResponse",
            summary="Returns a stored response, or streams its events.",
            parameters=_STREAM_PARAMETERS,
            answer=ResponseJson,
            stream=_STREAM,
            problems=(400, 404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteResponse",
            summary="Deletes a response and its run.",
            parameters=(_RESPONSE_ID,),
            answer=ResponseDeleted,
            problems=(404, 409, *GUARDED),
        ),
    },
    f"{PATH}/{{response_id}}/cancel": {
        "post": Operation(
            id="cancelResponse",
            summary="Stops a response in the background.",
            parameters=(_RESPONSE_ID,),
            answer=ResponseJson,
            problems=(400, 404, *GUARDED),
        )
    },
    f"{PATH}/{{response_id}}/input_items": {
        "get": Operation(
            id="listInputItems",
            summary="Lists the items that a response was asked with.",
            parameters=(_RESPONSE_ID, *ITEM_PARAMETERS),
            answer=ItemList,
            problems=(400, 404, *GUARDED),
        )
    },
}


ASKED = "asked"
"""How many messages a request added to its conversation: a field of the run's `answer`."""


async def runs_of_conversation(
    gateway: Gateway, conversation: str, owner: str, limit: int | None = None
) -> Sequence[RunRecord]:
    """The runs of a stored conversation, newest first. Raises `Refused` if it does not exist."""
    log = gateway.service.log
    if log is None:
        raise Refused(NO_CONVERSATIONS)
    runs = await log.list(owner=owner, chat=conversation, limit=limit)
    if not runs:
        message = f"Conversation with id {conversation[:100]!r} not found."
        raise Refused(Problem(404, message, "conversation_not_found", "conversation"))
    return runs


CONNECTION = "windlass.connection"
"""The field of the scope of a request on a WebSocket."""
MAX_KNOWN = 64
"""The maximum number of responses that a connection remembers."""


class Connection:
    """What a WebSocket remembers: ids of responses that are not stored, and a warm-up."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    @property
    def known(self) -> Collection[str]:
        """The ids of responses that only this connection may continue."""
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


class ResponseStore:
    """Finds responses and their conversations among the runs of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def find(
        self, response: str, owner: str, known: Collection[str] = ()
    ) -> tuple[FoundRun, ResponsePlace]:
        """The run of a response, and its place there. Raises `RunNotFound`.

        A response that is not stored is found only by its id in `known`.
        """
        place = place_of(response)
        if place is None:
            raise RunNotFound(f"response {response[:100]!r} not found")
        try:
            run = await self._gateway.find(place.run_id, owner)
        except RunNotFound:
            raise RunNotFound(f"response {response[:100]!r} not found") from None
        if response not in known and not response_options(run.origin).store:
            raise RunNotFound(f"response {response[:100]!r} not found")
        return run, place

    def view(self, run: FoundRun, place: ResponsePlace) -> ResponseView:
        origin = run.origin
        return self._view(place, run.record, origin, origin.outline(), run.call_ids)

    def view_of_run(self, run: GatewayRun) -> ResponseView:
        """The first response of a run of this process."""
        place = ResponsePlace(run.id)
        return self._view(place, run.record, run.origin, run.plan.tools, run.call_ids)

    def _view(
        self,
        place: ResponsePlace,
        record: RunRecord,
        origin: Origin,
        tools: Mapping[str, Tool],
        ids: CallIds,
    ) -> ResponseView:
        served = self._gateway.registry.find(record.model)
        return ResponseView(
            place,
            record,
            origin,
            tools,
            ids,
            server_tools=served.config.server_tools if served else "mcp_call",
            all_text=self._gateway.config.server.earlier_text == "include",
        )

    async def body(self, run: FoundRun, place: ResponsePlace) -> bytes:
        """The response object as JSON."""
        state = await run.state()
        events = await run.recorded()
        return self.view(run, place).body(events, done=state.done, problem=state.problem)

    async def conversation(
        self, response: str, owner: str, known: Collection[str] = ()
    ) -> tuple[Message, ...]:
        """The conversation up to a response. Raises `Refused` if it does not exist or is active."""
        try:
            run, _ = await self.find(response, owner, known)
        except RunNotFound:
            message = f"Previous response with id {response[:100]!r} not found."
            problem = Problem(400, message, "previous_response_not_found", "previous_response_id")
            raise Refused(problem) from None
        return inherited(await self._gateway.planning.conversation_after(run))

    async def items(self, ids: Sequence[str], owner: str) -> Mapping[str, JsonObject]:
        """The stored items with these ids, as far as they exist."""
        found: dict[str, JsonObject] = {}
        for response in dict.fromkeys(filter(None, map(_response_of, ids))):
            try:
                run, place = await self.find(response, owner)
            except RunNotFound:
                continue
            output = decode_json(await self.body(run, place))["output"]
            for item in (*await self.input_items(run, place), *output):
                found[item["id"]] = item
        return {item: found[item] for item in ids if item in found}

    async def input_items(self, run: FoundRun, place: ResponsePlace) -> list[JsonObject]:
        """The items that the response was asked with, oldest first."""
        history = History(await run.recorded())
        messages = history.started.messages if history.started else ()
        names = tool_names(self.view(run, place).options.echo.get("tools", ()))
        return input_items(messages, place.id, names)


def _response_of(item: str) -> str | None:
    place = place_of(item)
    return None if place is None else place.id


class ResponseAnswer:
    """Writes the answer of a run as a response, or as its events."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    def whole(self, run: GatewayRun) -> bytes:
        done = run.task.done()
        problem = run.problem() if done else None
        return self._store.view_of_run(run).body(run.log.recorded(), done=done, problem=problem)

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        if not any(tool.options.approve for tool in run.plan.tools.values()):
            return
        finder = PauseFinder(run.plan.tools)

        def read(event: RunEvent) -> None:
            if finder.add(event):
                pause()

        run.log.listen(read)

    def stream(self, run: GatewayRun) -> ResponseStream:
        return self._store.view_of_run(run).stream()


class Responses:
    """`POST /v1/responses`, as plain ASGI."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._store = ResponseStore(gateway)
        self._writer = ResponseAnswer(self._store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        body = await counted_body(self._gateway, scope, receive)
        request = await self.read(body, exchange)
        options = options_of(request.answer)
        connection: Connection | None = scope.get(CONNECTION)
        known = () if connection is None else connection.known
        if options.approvals:
            run, place = await self.decide(options, exchange.owner, known)
            return await self._send_rest(run, place, request, scope, receive, send)
        request = await self.continued(request, options, exchange.owner, connection)
        if connection is not None:
            return await self._answer_on(connection, request, options, scope, receive, send)
        exchange.stream = request.live
        if not request.background or request.live:
            run = await self._start(request, exchange, receive)
            return await answer_run(
                self._gateway, run, scope, receive, send, self._writer, live=request.live
            )
        run = await self._start(replace(request, live=True), exchange, receive)
        await run.settled()
        return await respond_json(send, self._writer.whole(run))

    async def read(self, body: bytes, exchange: Exchange) -> RunRequest:
        """Reads a request, with the items that it refers to. Raises `InvalidRequest`."""
        limits = self._gateway.limits
        references = await by_size(len(body), item_references, body, limits)
        stored = await self._store.items(references, exchange.owner) if references else None
        request = await by_size(len(body), read_request, body, limits, stored)
        return with_headers(request, exchange)

    async def _start(self, request: RunRequest, exchange: Exchange, receive: Receive) -> GatewayRun:
        """Starts a run with the MCP servers of its request. Raises `Refused`."""
        named = read_tools(request.tools.source, self._gateway.limits).mcp
        if not named:
            return await self._gateway.start(request, exchange, receive)
        servers = await RequestedServers.open(named, self._gateway.config.responses.mcp_hosts)
        try:
            answer = {**request.answer, MCP_SERVERS: servers.shown}
            brought = replace(request, brought=tuple(servers.tools), answer=answer)
            run = await self._gateway.start(brought, exchange, receive)
        except BaseException:
            await servers.aclose()
            raise
        run.task.add_done_callback(lambda _: servers.close_later())
        return run

    async def _answer_on(
        self,
        connection: Connection,
        request: RunRequest,
        options: ResponseOptions,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a request on a WebSocket, which may continue a response that is not stored."""
        if not options.generate:
            await self._warm_up(connection, request, scope, send)
            return
        exchange = exchange_of(scope)
        run = await self._start(request, exchange, receive)
        exchange.stream = True
        await answer_run(self._gateway, run, scope, receive, send, self._writer, live=True)
        if not options.store and run.task.done() and run.problem() is None:
            connection.remember(response_id(run.id))

    async def _warm_up(
        self, connection: Connection, request: RunRequest, scope: Scope, send: Send
    ) -> None:
        """Answers with an empty response. The next request continues its conversation."""
        exchange = exchange_of(scope)
        served = self._gateway.registry.served(request.model, exchange.key)
        exchange.model, exchange.stream = served.name, True
        response = response_id(new_run_id())
        head = ResponseHead(response, int(time.time()), request.model, request.answer["echo"])
        encoder = ResponseEncoder(head, {}, CallIds(response))
        connection.remember(response, inherited(request.messages))
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS]})
        await _send(send, encoder.begin() + encoder.end(), more=False)

    async def continued(
        self,
        request: RunRequest,
        options: ResponseOptions,
        owner: str,
        connection: Connection | None = None,
    ) -> RunRequest:
        """The request with the conversation that it continues. Raises `Refused`."""
        if options.previous_response_id:
            previous, known = options.previous_response_id, connection.known if connection else ()
            before = connection.warmed(previous) if connection else ()
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
        previous = options.previous_response_id or _response_of(first.request_id)
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

    async def _send_rest(
        self,
        run: FoundRun,
        place: ResponsePlace,
        request: RunRequest,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the response of a run that goes on after decisions."""
        exchange = exchange_of(scope)
        exchange.run_id, exchange.model, exchange.stream = run.id, run.record.model, request.live
        if request.live:
            return await follow_response(self._gateway, run, place, -1, receive, send)
        if not request.background:
            await _ended_or_paused(self._gateway, run, place)
        run = await self._gateway.find(run.id, exchange.owner)
        return await respond_json(send, await self._store.body(run, place))


def _unknown_approval(approval: Approval) -> InvalidRequest:
    return InvalidRequest(
        f"{approval.place}: no call waits for the approval {approval.request_id[:100]!r}",
        approval.place,
        "approval_not_found",
    )


async def _ended_or_paused(gateway: Gateway, run: FoundRun, place: ResponsePlace) -> None:
    stream = ResponseStore(gateway).view(run, place).stream()
    events = run.follow(0)
    while events is not None and not events.over and not stream.paused:
        stream.encode(await events.some(3600.0))


async def follow_response(
    gateway: Gateway, run: FoundRun, place: ResponsePlace, after: int, receive: Receive, send: Send
) -> None:
    """Streams a response from the log of its run: events after a number, then new ones."""
    store = ResponseStore(gateway)
    stream = store.view(run, place).stream(after)
    headers = [*SSE_HEADERS, (b"x-windlass-run-id", run.id.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    events = run.follow(0)
    gone = asyncio.create_task(disconnected(receive))
    if events is not None:
        gone.add_done_callback(lambda _: events.wake())
        gateway.followers.add(events)
    try:
        await _send_stream(gateway, run, stream, events, gone, send)
    finally:
        gone.cancel()
        if events is not None:
            gateway.followers.discard(events)


async def _send_stream(
    gateway: Gateway,
    run: FoundRun,
    stream: ResponseStream,
    events: Follower | None,
    gone: asyncio.Task[None],
    send: Send,
) -> None:
    await _send(send, stream.begin())
    is_over = events is None
    while events is not None and not is_over and not stream.paused and not gone.done():
        drained = gateway.drained
        try:
            batch = await events.some(0.0 if drained else gateway.config.server.heartbeat)
        except StorageError:
            return await _send(send, b"", more=False)
        is_over = events.over
        if drained and not batch and not is_over:
            return await _send(send, b"", more=False)  # the client reconnects to another gateway
        for some in in_slices(batch):
            await _send(send, stream.encode(some))
        if not batch and not is_over:
            await _send(send, stream.heartbeat)
    if stream.paused:
        return await _send(send, stream.end(), more=False)
    if not is_over:
        return None
    state = await (await gateway.find(run.id, run.record.owner)).state()
    ending = stream.end() if state.problem is None else stream.fail(state.problem)
    return await _send(send, ending, more=False)


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    if data or not more:
        await send({"type": "http.response.body", "body": data, "more_body": more})


class StoredResponses:
    """Endpoints that show, delete and cancel a response, and count and compact input."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._store = ResponseStore(gateway)
        self._responses = Responses(gateway)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET`: the response, or with `stream=true` its events after `starting_after`."""
        request = Request(scope)
        run, place = await self._found(request)
        query = request.query_params
        if query.get("stream") == "true":
            given = query.get("starting_after")
            after = -1 if given is None else query_number(given, "starting_after")
            return await follow_response(self._gateway, run, place, after, receive, send)
        return await respond_json(send, await self._store.body(run, place))

    async def delete(self, request: Request) -> Response:
        run, place = await self._found(request)
        if not (await run.state()).done:
            message = "The response is still in progress. Cancel it first."
            raise Refused(Problem(409, message, "run_in_progress"))
        await self._gateway.forget(run.id)
        return json_response({"id": place.id, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        run, place = await self._found(request)
        if not self._store.view(run, place).options.echo.get("background"):
            message = "Only a response with `background: true` can be cancelled."
            raise Refused(Problem(400, message, "not_in_background"))
        await run.stop()
        run = await self._gateway.find(run.id, exchange_of(request.scope).owner)
        return Response(await self._store.body(run, place), media_type="application/json")

    async def input_items(self, request: Request) -> Response:
        run, place = await self._found(request)
        return json_response(asked_page(await self._store.input_items(run, place), request))

    async def count(self, request: Request) -> Response:
        """`POST /v1/responses/input_tokens`: an estimate of the input's tokens."""
        asked = await self._asked(request)
        tools = [
            tool.declaration for tool in asked.tools.read(asked.tools.source, self._gateway.limits)
        ]
        tokens = estimated_tokens(asked.messages, tools)
        return json_response({"object": "response.input_tokens", "input_tokens": tokens})

    async def compact(self, request: Request) -> Response:
        """`POST /v1/responses/compact`: the conversation as a summary, in one opaque item."""
        exchange = exchange_of(request.scope)
        asked = await self._asked(request)
        summarizing = RunRequest(
            wire=WIRE_NAME,
            model=asked.model,
            messages=(*asked.messages, Message.user(SUMMARY_PROMPT)),
            tool_choice=NONE,
            settings=Settings(max_tokens=asked.settings.max_tokens),
            store=False,
            parts=asked.parts,
            answer=asked.answer,
            size=asked.size,
        )
        run = await self._gateway.start(summarizing, exchange, request.receive)
        await asyncio.wait([run.task])
        if (problem := run.problem()) is not None:
            raise Refused(problem)
        response = response_id(run.id)
        summary = Message.user(SUMMARY_START + run.reply.text)
        return json_response(
            {
                "id": response,
                "object": "response.compaction",
                "created_at": int(run.record.created),
                "output": [compaction_item(response, (summary,))],
                "usage": usage_fields(run.reply.usage),
            }
        )

    async def _asked(self, request: Request) -> RunRequest:
        exchange = exchange_of(request.scope)
        body = await counted_body(self._gateway, request.scope, request.receive)
        asked = await self._responses.read(body, exchange)
        return await self._responses.continued(asked, options_of(asked.answer), exchange.owner)

    async def _found(self, request: Request) -> tuple[FoundRun, ResponsePlace]:
        response = request.path_params["response_id"]
        return await self._store.find(response, exchange_of(request.scope).owner)


def asked_page(items: Sequence[JsonObject], request: Request) -> JsonObject:
    """The page of a list of items that the query asks for: `limit`, `order` and `after`.

    Raises `InvalidRequest`.
    """
    query = request.query_params
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order: must be asc or desc", "order")
    limit = min(query_number(query.get("limit"), "limit") or 20, MAX_ITEMS)
    after = query.get("after", "")
    if after and all(item["id"] != after for item in items):
        raise InvalidRequest(f"after: item {after[:100]!r} does not exist", "after")
    return item_page(items, after=after, limit=limit, newest_first=order == "desc")


class _Show:
    """`GET /v1/responses/{id}`, as plain ASGI: it may stream."""

    def __init__(self, stored: StoredResponses) -> None:
        self._stored = stored

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._stored.show(scope, receive, send)


def routes(gateway: Gateway) -> list[Route]:
    """The routes of the Responses API, without conversations."""
    stored = StoredResponses(gateway)
    return [
        Route(PATH, Responses(gateway), methods=["POST"]),
        Route(f"{PATH}/input_tokens", stored.count, methods=["POST"]),
        Route(f"{PATH}/compact", stored.compact, methods=["POST"]),
        Route(f"{PATH}/{{response_id}}", _Show(stored), methods=["GET"]),
        Route(f"{PATH}/{{response_id}}", stored.delete, methods=["DELETE"]),
        Route(f"{PATH}/{{response_id}}/cancel", stored.cancel, methods=["POST"]),
        Route(f"{PATH}/{{response_id}}/input_items", stored.input_items),
    ]


WIRE = Wire(routes, (PATH,), error_body)
