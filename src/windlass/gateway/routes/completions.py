"""`POST /v1/chat/completions`: starts a run and answers its client, streamed or at once."""

import functools
from collections.abc import Callable

from msgspec.structs import replace
from starlette.routing import Route

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Exchange, Receive, Scope, Send, exchange_of
from windlass.gateway.openapi.operations import (
    MODE_PARAMETER,
    SESSION_PARAMETER,
    STARTING,
    WAITING,
    EventStream,
    Operation,
    Paths,
)
from windlass.gateway.routes.wire import Wire, answer, read_run_request
from windlass.gateway.runs.run import GatewayRun
from windlass.gateway.runs.run_json import form_of, head_of
from windlass.request import RunRequest
from windlass.wires.chat.read_request import read_request
from windlass.wires.chat.types import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ErrorJson,
)
from windlass.wires.chat.write_events import ChunkEncoder, Form, completion
from windlass.wires.errors import error_body

PATH = "/v1/chat/completions"

PATHS: Paths = {
    PATH: {
        "post": Operation(
            id="createChatCompletion",
            summary="Returns the model's answer to a conversation. The gateway runs its tools.",
            body=ChatCompletionRequest,
            parameters=(MODE_PARAMETER, SESSION_PARAMETER),
            answer=ChatCompletion,
            stream=EventStream((ChatCompletionChunk, ErrorJson), last="[DONE]"),
            headers=("X-Windlass-Run-Id", "X-Function-Calling-Mode"),
            problems=(*STARTING, *WAITING),
        )
    }
}


class ChatCompletions:
    """The endpoint, as plain ASGI, because it serves most of the requests."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = await read_chat_request(self._gateway, scope, receive)
        writer = ChatAnswer(exchange_of(scope))
        await answer(self._gateway, request, scope, receive, send, writer)


async def read_chat_request(gateway: Gateway, scope: Scope, receive: Receive) -> RunRequest:
    """Reads the body of a chat completion. Raises `Refused` and `InvalidRequest`."""
    earlier_text = gateway.config.server.earlier_text
    read = functools.partial(read_request, earlier_text=earlier_text)
    return await read_run_request(gateway, scope, receive, read)


class ChatAnswer:
    """Writes the answer of a run as a chat completion, or as its chunks."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def whole(self, run: GatewayRun) -> bytes:
        return completion(
            head_of(run.record), run.reply.without_rejected(), run.call_ids, form_of(run.origin)
        )

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        """Does nothing: approvals are made on another connection."""

    def stream(self, run: GatewayRun) -> ChunkEncoder:
        form = _with_accepted_events(form_of(run.origin), self._exchange)
        return ChunkEncoder(head_of(run.record), run.plan.tools, run.call_ids, form)


def _with_accepted_events(form: Form, exchange: Exchange) -> Form:
    """The form, with tool events if the header is `Accept: text/event-stream; events=windlass`."""
    accept = exchange.headers.get(b"accept", b"")
    if b"windlass" not in accept.lower():
        return form
    asked = b"text/event-stream;events=windlass" in accept.replace(b" ", b"").lower()
    return replace(form, tool_events=True) if asked else form


def routes(gateway: Gateway) -> list[Route]:
    return [Route(PATH, ChatCompletions(gateway), methods=["POST"])]


WIRE = Wire(routes, (PATH,), error_body)
