"""`/v1/responses`: OpenAI's Responses API. A response is a run, or a part of its log.

A run that waits for approvals ends its response; the next request, with the decisions, continues
the same run in a new response.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.content import Message
from windlass.events import RunEvent
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    Exchange,
    Receive,
    Scope,
    Send,
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
    Paths,
    QueryNumber,
    RequestParameter,
    path_parameter,
)
from windlass.gateway.routes.following import followed
from windlass.gateway.routes.response_requests import (
    SOCKET_MEMORY,
    ResponseRequests,
    SocketMemory,
)
from windlass.gateway.routes.response_store import ResponseStore
from windlass.gateway.routes.wire import (
    SSE_HEADERS,
    Wire,
    answer_run,
    counted_body,
)
from windlass.gateway.runs.lookup import FoundRun
from windlass.gateway.runs.response_view import (
    MCP_SERVERS,
    ResponseStream,
)
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.tools.requested_servers import RequestedServers
from windlass.loop.pace import in_slices
from windlass.model import NONE, Settings
from windlass.request import RunRequest, inherited
from windlass.runs.service import new_run_id
from windlass.wires.calls import CallIds
from windlass.wires.errors import InvalidRequest, Problem, error_body
from windlass.wires.fields import JsonObject
from windlass.wires.responses.item_ids import (
    ResponsePlace,
    response_id,
)
from windlass.wires.responses.messages import compaction_item
from windlass.wires.responses.read_request import (
    WIRE as WIRE_NAME,
)
from windlass.wires.responses.read_request import (
    ResponseOptions,
    options_of,
)
from windlass.wires.responses.response import PauseFinder, ResponseHead, item_page, usage_fields
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
SUMMARY_START = "Summary of the conversation so far:\n\n"

_RESPONSE_ID = path_parameter("response_id", "The response's id.")
ITEM_PARAMETERS = (
    RequestParameter("limit", "query", "The maximum number of items, at most 100.", QueryNumber),
    RequestParameter("order", "query", "Newest first by default.", Literal["asc", "desc"]),
    RequestParameter("after", "query", "The id of an item; the list starts after it."),
)
_STREAM = EventStream((ResponseEvent,), last="[DONE]")
_STREAM_PARAMETERS = (
    _RESPONSE_ID,
    RequestParameter("stream", "query", "Whether to stream its events.", Literal["true", "false"]),
    RequestParameter(
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
            summary="Lists the input items of a response.",
            parameters=(_RESPONSE_ID, *ITEM_PARAMETERS),
            answer=ItemList,
            problems=(400, 404, *GUARDED),
        )
    },
}


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

    def __init__(self, gateway: Gateway, store: ResponseStore, requests: ResponseRequests) -> None:
        self._gateway, self._store, self._requests = gateway, store, requests
        self._writer = ResponseAnswer(store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        body = await counted_body(self._gateway, scope, receive)
        request = await self._requests.read(body, exchange)
        options = options_of(request.answer)
        memory: SocketMemory | None = scope.get(SOCKET_MEMORY)
        if options.approvals:
            known = () if memory is None else memory.known
            run, place = await self._requests.decide(options, exchange.owner, known)
            return await self._send_rest(run, place, request, scope, receive, send)
        request = await self._requests.continued(request, options, exchange.owner, memory)
        if memory is not None:
            return await self._answer_on_socket(memory, request, options, scope, receive, send)
        exchange.stream = request.live
        if request.background and not request.live:
            return await self._answer_in_background(request, exchange, receive, send)
        run = await self._start(request, exchange, receive)
        return await answer_run(
            self._gateway, run, scope, receive, send, self._writer, live=request.live
        )

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

    async def _answer_in_background(
        self, request: RunRequest, exchange: Exchange, receive: Receive, send: Send
    ) -> None:
        """Starts a run, and sends its response before the run ends."""
        run = await self._start(replace(request, live=True), exchange, receive)
        await run.settled()
        await respond_json(send, self._writer.whole(run))

    async def _answer_on_socket(
        self,
        memory: SocketMemory,
        request: RunRequest,
        options: ResponseOptions,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a request on a WebSocket, which may continue a response that is not stored."""
        if not options.generate:
            await self._warm_up(memory, request, scope, send)
            return
        exchange = exchange_of(scope)
        run = await self._start(request, exchange, receive)
        exchange.stream = True
        await answer_run(self._gateway, run, scope, receive, send, self._writer, live=True)
        if not options.store and run.task.done() and run.problem() is None:
            memory.remember(response_id(run.id))

    async def _warm_up(
        self, memory: SocketMemory, request: RunRequest, scope: Scope, send: Send
    ) -> None:
        """Answers with an empty response. The next request continues its conversation."""
        exchange = exchange_of(scope)
        served = self._gateway.registry.served(request.model, exchange.key)
        exchange.model, exchange.stream = served.name, True
        response = response_id(new_run_id())
        head = ResponseHead(response, int(time.time()), request.model, request.answer["echo"])
        encoder = ResponseEncoder(head, {}, CallIds(response))
        memory.remember(response, inherited(request.messages))
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS]})
        await _send(send, encoder.begin() + encoder.end(), more=False)

    async def _send_rest(
        self,
        run: FoundRun,
        place: ResponsePlace,
        request: RunRequest,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the response of a run that continues after decisions."""
        exchange = exchange_of(scope)
        exchange.run_id, exchange.model, exchange.stream = run.id, run.record.model, request.live
        view = self._store.view(run, place)
        if request.live:
            return await _stream_response(self._gateway, run, view.stream(), receive, send)
        if not request.background:
            await _ended_or_paused(run, view.stream())
        run = await self._gateway.find(run.id, exchange.owner)
        return await respond_json(send, await self._store.body(run, place))


async def _ended_or_paused(run: FoundRun, stream: ResponseStream) -> None:
    """Waits until the run ends, or waits for approvals again."""
    events = run.follow(0)
    while events is not None and not events.over and not stream.paused:
        stream.encode(await events.some(3600.0))


async def _stream_response(
    gateway: Gateway, run: FoundRun, stream: ResponseStream, receive: Receive, send: Send
) -> None:
    """Streams a response from the log of its run: the stored events, then new ones."""
    headers = [*SSE_HEADERS, (b"x-windlass-run-id", run.id.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with followed(gateway, run.follow(0), receive) as log:
        await _send(send, stream.begin())
        while log.has_more and not stream.paused and not log.client_gone:
            batch = await log.batch()
            for some in in_slices(batch):
                await _send(send, stream.encode(some))
            if not batch and log.has_more:
                await _send(send, stream.heartbeat)
        if stream.paused:
            await _send(send, stream.end(), more=False)
        elif log.is_over:
            state = await (await gateway.find(run.id, run.record.owner)).state()
            ending = stream.end() if state.problem is None else stream.fail(state.problem)
            await _send(send, ending, more=False)
        elif not log.client_gone:  # the client reconnects, perhaps to another gateway
            await _send(send, b"", more=False)


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    if data or not more:
        await send({"type": "http.response.body", "body": data, "more_body": more})


class StoredResponses:
    """Endpoints that show, delete and cancel a response."""

    def __init__(self, gateway: Gateway, store: ResponseStore) -> None:
        self._gateway, self._store = gateway, store

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET`: the response, or with `stream=true` its events after `starting_after`."""
        request = Request(scope)
        run, place = await self._found(request)
        query = request.query_params
        if query.get("stream") == "true":
            given = query.get("starting_after")
            after = -1 if given is None else query_number(given, "starting_after")
            stream = self._store.view(run, place).stream(after)
            return await _stream_response(self._gateway, run, stream, receive, send)
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

    async def _found(self, request: Request) -> tuple[FoundRun, ResponsePlace]:
        response = request.path_params["response_id"]
        return await self._store.find(response, exchange_of(request.scope).owner)


class ResponseInputs:
    """Endpoints that count the tokens of an input and compact it, without a response."""

    def __init__(self, gateway: Gateway, requests: ResponseRequests) -> None:
        self._gateway, self._requests = gateway, requests

    async def count(self, request: Request) -> Response:
        """`POST /v1/responses/input_tokens`: estimates the tokens of the input."""
        given = await self._input_of(request)
        tools = [
            tool.declaration for tool in given.tools.read(given.tools.source, self._gateway.limits)
        ]
        tokens = estimated_tokens(given.messages, tools)
        return json_response({"object": "response.input_tokens", "input_tokens": tokens})

    async def compact(self, request: Request) -> Response:
        """`POST /v1/responses/compact`: summarises the conversation, in one opaque item."""
        exchange = exchange_of(request.scope)
        given = await self._input_of(request)
        summarizing = RunRequest(
            wire=WIRE_NAME,
            model=given.model,
            messages=(*given.messages, Message.user(SUMMARY_PROMPT)),
            tool_choice=NONE,
            settings=Settings(max_tokens=given.settings.max_tokens),
            store=False,
            parts=given.parts,
            answer=given.answer,
            size=given.size,
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

    async def _input_of(self, request: Request) -> RunRequest:
        exchange = exchange_of(request.scope)
        body = await counted_body(self._gateway, request.scope, request.receive)
        given = await self._requests.read(body, exchange)
        return await self._requests.continued(given, options_of(given.answer), exchange.owner)


def asked_page(items: Sequence[JsonObject], request: Request) -> JsonObject:
    """The requested page of a list of items, from `limit`, `order` and `after` of the query.

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
    store = ResponseStore(gateway)
    requests = ResponseRequests(gateway, store)
    stored, inputs = StoredResponses(gateway, store), ResponseInputs(gateway, requests)
    return [
        Route(PATH, Responses(gateway, store, requests), methods=["POST"]),
        Route(f"{PATH}/input_tokens", inputs.count, methods=["POST"]),
        Route(f"{PATH}/compact", inputs.compact, methods=["POST"]),
        Route(f"{PATH}/{{response_id}}", _Show(stored), methods=["GET"]),
        Route(f"{PATH}/{{response_id}}", stored.delete, methods=["DELETE"]),
        Route(f"{PATH}/{{response_id}}/cancel", stored.cancel, methods=["POST"]),
        Route(f"{PATH}/{{response_id}}/input_items", stored.input_items),
    ]


WIRE = Wire(routes, (PATH,), error_body)
