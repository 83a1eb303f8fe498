"""`/v1/messages`: Anthropic's Messages API, streamed or at once, and its count of tokens."""

import functools
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.events import RunEvent
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Receive, Scope, Send, exchange_of, json_response
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.openapi.operations import (
    MODE_PARAMETER,
    SESSION_PARAMETER,
    STARTING,
    WAITING,
    EventStream,
    Operation,
    Paths,
)
from windlass.gateway.routes.wire import Wire, answer, input_tokens, read_run_request
from windlass.gateway.runs.run import GatewayRun
from windlass.reply import Reply
from windlass.request import RunRequest
from windlass.wires.errors import Problem
from windlass.wires.messages.messages import for_other_wires
from windlass.wires.messages.read_request import WIRE as WIRE_NAME
from windlass.wires.messages.read_request import betas_of, read_request
from windlass.wires.messages.types import (
    AnthropicMessageJson,
    CountRequestJson,
    MessageEventJson,
    MessageRequestJson,
    MessagesErrorJson,
    TokenCountJson,
)
from windlass.wires.messages.write_events import (
    PING,
    Form,
    MessageEncoder,
    MessageHead,
    error_body,
    error_event,
    message,
)

PATH = "/v1/messages"
COUNT_PATH = f"{PATH}/count_tokens"
BETA_HEADER = b"anthropic-beta"
VERSION_HEADER = b"anthropic-version"
BYTES_PER_TOKEN = 4
"""Used for the first estimate of the input. The end of the stream has the exact number."""

PATHS: Paths = {
    PATH: {
        "post": Operation(
            id="createMessage",
            summary="Returns the model's answer to a conversation, as Anthropic's API does.",
            body=MessageRequestJson,
            parameters=(MODE_PARAMETER, SESSION_PARAMETER),
            answer=AnthropicMessageJson,
            stream=EventStream((MessageEventJson, MessagesErrorJson)),
            headers=("X-Windlass-Run-Id", "X-Function-Calling-Mode"),
            problems=(*STARTING, *WAITING),
            error=MessagesErrorJson,
        )
    },
    COUNT_PATH: {
        "post": Operation(
            id="countMessageTokens",
            summary="Estimates the input tokens of a request, with the gateway's tools and prompt.",
            body=CountRequestJson,
            answer=TokenCountJson,
            problems=STARTING,
            error=MessagesErrorJson,
        )
    },
}


class Messages:
    """`POST /v1/messages`, as plain ASGI."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = functools.partial(
            read_request,
            earlier_text=self._gateway.config.server.earlier_text,
            betas=_betas(scope),
        )
        request = await read_run_request(self._gateway, scope, receive, read)
        served = self._gateway.registry.served(request.model, exchange_of(scope).key)
        request = _readable(request, served)
        await answer(self._gateway, request, scope, receive, send, MessageAnswer())


def _readable(request: RunRequest, served: ServedModel) -> RunRequest:
    """The request without blocks that its model cannot read."""
    if served.wire == WIRE_NAME:
        return request
    return replace(request, messages=for_other_wires(request.messages))


def _betas(scope: Scope) -> tuple[str, ...]:
    """The betas of the request. The header may occur several times."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == BETA_HEADER]
    return betas_of(value.decode("latin-1") for value in values)


class MessageAnswer:
    """Writes the answer of a run as a message, or as its events."""

    def whole(self, run: GatewayRun) -> bytes:
        form = msgspec.convert(run.origin.answer, Form)
        return message(_head(run), run.reply.without_rejected(), run.plan.tools, run.call_ids, form)

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        """Does nothing: approvals are made on another connection."""

    def stream(self, run: GatewayRun) -> "MessageStream":
        form = msgspec.convert(run.origin.answer, Form)
        return MessageStream(MessageEncoder(_head(run), run.plan.tools, run.call_ids, form))


def _head(run: GatewayRun) -> MessageHead:
    tokens = run.request_size // BYTES_PER_TOKEN
    return MessageHead(f"msg_{run.id.removeprefix('run_')}", run.record.model, tokens)


class MessageStream:
    """Writes one run as the events of a message."""

    heartbeat = PING
    paused = False

    def __init__(self, encoder: MessageEncoder) -> None:
        self._encoder = encoder

    def begin(self) -> bytes:
        return self._encoder.begin()

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        return self._encoder.encode(events)

    def end(self, reply: Reply | None) -> bytes:
        assert reply is not None
        return self._encoder.end(reply)

    def fail(self, problem: Problem) -> bytes:
        return error_event(problem)


class MessageCounts:
    """`POST /v1/messages/count_tokens`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def count(self, request: Request) -> Response:
        gateway = self._gateway
        read = functools.partial(read_request, betas=_betas(request.scope), counting=True)
        asked = await read_run_request(gateway, request.scope, request.receive, read)
        served = gateway.registry.served(asked.model, exchange_of(request.scope).key)
        asked = _readable(asked, served)
        tokens = await input_tokens(gateway, asked, request.scope)
        return json_response({"input_tokens": tokens})


def routes(gateway: Gateway) -> list[Route]:
    return [
        Route(PATH, Messages(gateway), methods=["POST"]),
        Route(COUNT_PATH, MessageCounts(gateway).count, methods=["POST"]),
    ]


WIRE = Wire(routes, (PATH,), error_body, header=VERSION_HEADER)
